"""The same gate for other processes: an HTTP server and an MCP server, both extras that are imported on use.

Invariant: nothing that a caller sends relaxes a decision, and nothing here approves: no route, no tool, no
option.
"""
