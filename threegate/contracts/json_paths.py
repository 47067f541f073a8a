"""What using a compiled JSONPath needs, without the library that compiles one (`path_compiler.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from threegate.contracts.path_compiler import Path


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


def selected(path: Path, root: Any) -> list[Any] | None:
    """What a path selects; None if it selects more than the limit."""
    try:
        return path.select(root)
    except PathTooWide:
        return None
