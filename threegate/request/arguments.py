"""The `## Arguments (JSON)` section of an mcp request: one object, in the one form that JSON has by RFC 8785.

Invariant: what is accepted is its own canonical rendering, so the bytes that are shown, hashed and sent to the server are
the same. Whether the tool takes these arguments is for its pinned schema to say (tools/requested_call.py).
"""

from __future__ import annotations

from threegate.core import limits
from threegate.core.canonical import StrictJSONError, canonical_bytes, loads_strict
from threegate.request.problem import Problem

_FORM = "write it as RFC 8785 does: one line, no blanks, keys sorted, no escapes that are not needed"


def check_arguments(text: str) -> tuple[Problem, ...]:
    """Problems of the block, which ends with a newline. Never raises; linear time."""
    data = text.encode()
    try:
        value = loads_strict(data, max_bytes=limits.TOOL_ARGUMENTS_BYTES)
    except StrictJSONError as error:
        return (Problem("TG225", 1, 1, f"the arguments are no JSON that can be sent: {error}"),)
    if not isinstance(value, dict):
        return (Problem("TG225", 1, 1, "the arguments are no object; write {…}, or {} for none"),)
    if canonical_bytes(value) + b"\n" != data:
        return (Problem("TG225", 1, 1, f"the arguments are not in canonical form; {_FORM}"),)
    return ()
