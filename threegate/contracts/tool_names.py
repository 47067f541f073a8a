"""Which contract speaks for a tool: its own, else the one of the longest wildcard (`github.*`) above its name.

Invariant: a tool has one contract or none; a wildcard stands for tools that no other contract describes, counts them as
one tool, and is never named where somebody could take it for more than that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

T = TypeVar("T")

OURS: Final = "threegate."
"""Backends begin so; no wildcard stands for one."""
WILDCARD: Final = ".*"
SERVED: Final = re.compile(r"[a-z][a-z0-9-]{0,15}\..+")
"""The name of a server's tool, as calls have it: what is called is pinned, so its contract says nothing of `implements`."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def resolve(contracts: Mapping[str, T], tool: str) -> T | None:
    """What `contracts`, by name, has for a tool; None when nothing speaks for it."""
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
    """(code, message) of what is wrong with naming a tool in a rule; None when the name is good."""
    if name not in contracts:
        return "UNKNOWN_TOOL_REFERENCE", f"no contract describes {name!r}"
    if name.endswith(WILDCARD):
        own = next((other for other in contracts if other != name and other.startswith(name[:-1])), None)
        if own is not None:
            return "AMBIGUOUS_TOOL", f"{own!r} has a contract of its own, and {name!r} does not stand for it"
    return None
