"""What using a compiled JSONPath needs, without the library that compiles one (`path_compiler.py`)."""

from __future__ import annotations

from typing import Final


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
