"""MCP: calls of the tools of servers that the operator added."""
