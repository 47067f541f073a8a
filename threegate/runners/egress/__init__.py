"""The only network access of a run: a proxy that knows the request's hosts."""
