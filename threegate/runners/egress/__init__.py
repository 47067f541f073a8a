"""The one way out of a run: a proxy that knows the request's hosts."""
