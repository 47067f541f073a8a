"""A call of a tool, as a request asks for it."""

from __future__ import annotations

from threegate.plugins.tools.action import ToolCall

CALL = ToolCall("notes", "add", "a" * 64, "{}")
