"""Tool servers (MCP) that an operator added: what is pinned about each, and the processes that answer
(docs/spec/9-tools.md).
"""
