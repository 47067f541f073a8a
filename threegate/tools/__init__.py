"""Servers of tools (MCP) that an operator added: what is pinned of each, and the processes that answer (docs/spec/9-tools.md)."""
