"""Tool servers (MCP) that an operator added: what is pinned about each, and their processes (docs/spec/9-tools.md)."""
