"""Finds embedded secrets in any text, in time that grows linearly with it.

Lowest layer on purpose: requests, evidence, results and proposals all ask the same question. A secret is
known by its form (a vendor's prefix, a PEM header) or by the name it is assigned to (``password=``); entropy
alone says nothing here, because hashes, which ThreeGate is full of, look just like it.

Invariants: one pass of a compiled set decides whether anything is there; only then are places looked for.
Any string is taken, lone surrogates included. What was found is never copied into a `Found`.
"""
