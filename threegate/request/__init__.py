"""Gate 1: is the request well-formed, minimal, and harmless in shape?

`read_request` is the whole gate: it takes bytes and returns a `Report`, which has a `Request` if no rule
found an error.
"""
