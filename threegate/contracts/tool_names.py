"""Which contract applies to a tool: its own, else the one with the longest wildcard (`github.*`) that matches
its name.

Invariant: a tool has one contract or none; a wildcard covers tools that no other contract describes, counts
them as one tool, and is never used where it could be mistaken for more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

T = TypeVar("T")

OURS: Final = "threegate."
"""Prefix of the backends; no wildcard matches one."""
WILDCARD: Final = ".*"
SERVED: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\..+")
"""The name of a server's tool, as calls use it: the tool is pinned, so its contract needs no `implements`."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,128}")
"""A server, a dot and a tool of it are 129 characters at most."""


def resolve(contracts: Mapping[str, T], tool: str) -> T | None:
    """The entry for a tool in `contracts`, by name; None if none applies."""
    found = contracts.get(tool)
    if found is not None and not tool.endswith(WILDCARD):
        return found
    if not _NAME.fullmatch(tool) or tool.startswith(OURS) or tool.endswith("."):
        return None
    above = tool.rpartition(".")[0]
    while above and found is None:
        found = contracts.get(above + WILDCARD)
        above = above.rpartition(".")[0]
    return found


def bad_reference(name: str, contracts: Iterable[str]) -> tuple[str, str] | None:
    """(code, message) if a tool's name is used wrongly in a rule; None if it is right."""
    if name not in contracts:
        return "UNKNOWN_TOOL_REFERENCE", f"no contract describes {name!r}"
    if name.endswith(WILDCARD):
        own = next((other for other in contracts if other != name and other.startswith(name[:-1])), None)
        if own is not None:
            return "AMBIGUOUS_TOOL", f"{own!r} has a contract of its own, and {name!r} does not stand for it"
    return None
