"""What gate 1 asks of a request that calls a tool: its keys, and the section Arguments (JSON).

Invariant: the arguments have one spelling, so the bytes that are shown, hashed and sent to the server are the same.
Source: docs/spec/1-tool-request.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from threegate.core import limits
from threegate.core.canonical import StrictJSONError, canonical_bytes, loads_strict
from threegate.plugins.tools.action import ToolCall
from threegate.request.backend import Reading
from threegate.request.problem import Problem

_AT_SERVER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A tool's name at its server: with the server's name before it, it is a tool's name for contracts."""
_CANONICAL: Final = "write it as RFC 8785 does: one line, no blanks, keys sorted, no escapes that are not needed"


def check_call(values: Mapping[str, Any], wrong: Callable[[str, str, str], None]) -> None:
    """It has its arguments only, and a tool of a server that was added; `wrong` as in `Backend.check`."""
    if values.get("inputs"):
        wrong("TG176", "inputs", "inputs must be left out: a call has its arguments only")
    if values.get("outputs_expected"):
        wrong("TG176", "outputs_expected", "outputs_expected must be left out of a call")
    if values.get("server") == "threegate":
        wrong("TG173", "server", "server must be one that the operator added, not one of ThreeGate")
    if "tool" in values and not _AT_SERVER.fullmatch(values["tool"]):
        wrong("TG174", "tool", "tool must be a name of A-Z a-z 0-9 _ . - at the server")


def read_call(reading: Reading, keys: Sequence[str]) -> ToolCall | None:
    """The call; None where the section or one of the keys is not well-formed."""
    # A tool's arguments may mention anything, paths and installations too: a call is not a program that runs here.
    arguments = reading.block("Arguments (JSON)", "TG224", "json", check_arguments, mentions_all=True)
    if arguments is None or not reading.values.keys() >= set(keys):
        return None
    return ToolCall(**{name: reading.values[name] for name in keys}, arguments_json=arguments.rstrip("\n"))


def check_arguments(text: str) -> tuple[Problem, ...]:
    """Problems of the Arguments (JSON) of a call: one object, and its own canonical rendering (RFC 8785), so the bytes
    that are shown, hashed and sent to the server are the same. `text` ends with a newline. Never raises; linear time.
    """
    data = text.encode()
    try:
        value = loads_strict(data, max_bytes=limits.TOOL_ARGUMENTS_BYTES)
    except StrictJSONError as error:
        return (Problem("TG225", 1, 1, f"the arguments are not JSON that can be sent: {error}"),)
    if not isinstance(value, dict):
        return (Problem("TG225", 1, 1, "the arguments are not an object; write {…}, or {} for none"),)
    if canonical_bytes(value) + b"\n" != data:
        return (Problem("TG225", 1, 1, f"the arguments are not in canonical form; {_CANONICAL}"),)
    return ()
