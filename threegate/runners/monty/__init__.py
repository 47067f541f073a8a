"""Monty: a request's Python in the embedded sandbox."""
