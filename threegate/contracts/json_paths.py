"""A compiled JSONPath and its possible results; `path_compiler.py` makes one. Using it needs no library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

Absence = Literal["empty list", "no such key", "other"]
"""Why a path selects nothing: it goes through lists that are empty, objects on its way lack a key, or anything else."""


class _Missing:
    """There is no value at a path. A singleton, compared by identity."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "(missing)"


MISSING: Final = _Missing()


class PathTooWide(ValueError):
    """A path selects or visits more values than the limit. The rule that uses it fails."""


class BadPath(ValueError):
    """The text is not a path that is supported here."""


class Path:
    """A compiled path. `get` exists for singular paths; `select` always works and raises PathTooWide. Where it selects
    nothing, `absence` says why.
    """

    __slots__ = ("absence", "get", "keys", "normal", "select", "text")

    def __init__(
        self,
        text: str,
        keys: tuple[str | int, ...] | None,
        normal: Any,
        get: Callable[[Any], Any] | None,
        select: Callable[[Any], list[Any]],
        absence: Callable[[Any], Absence],
    ) -> None:
        self.text = text
        self.keys = keys
        self.normal = normal
        """Equal for two spellings of one path."""
        self.get = get
        self.select = select
        self.absence = absence


def selected(path: Path, root: Any) -> list[Any] | None:
    """What a path selects; None if it selects more than the limit."""
    try:
        return path.select(root)
    except PathTooWide:
        return None
