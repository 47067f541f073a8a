"""Untrusted text on a terminal: escaped, wrapped, counted, and never where our own words stand.

Invariant: every line that carries foreign text begins with our gutter, holds only printable characters, and is
at most `width` cells wide; what is left out is counted in a line of ours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from threegate.cli.context import safe

WIDTH = 80
GUTTER = "| "
_MORE = "threegate show prints it whole, or --full here"


def cells(text: str) -> int:
    """How many columns a terminal needs for text that `safe` gave."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """One escaped line, cut into pieces of at most `width` cells; an empty line gives one empty piece."""
    piece, used = "", 0
    for char in safe(text, keep_newlines=False):
        size = cells(char)
        if used + size > width:
            yield piece
            piece, used = "", 0
        piece += char
        used += size
    yield piece


def quoted(text: str, *, width: int = WIDTH, limit: int | None = None, indent: int = 2) -> list[str]:
    """Foreign text behind the gutter. With a limit of lines, the rest is counted and how to see it is said."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines.extend(wrapped(line, width - indent - len(GUTTER)))
    return clipped([" " * indent + GUTTER + line for line in lines], limit, indent)


def clipped(lines: list[str], limit: int | None, indent: int = 2) -> list[str]:
    """At most `limit` lines, and one that counts the others."""
    if limit is None or len(lines) <= limit:
        return lines
    left = len(lines) - limit
    return [*lines[:limit], f"{' ' * indent}> {left} more lines of {len(lines)}; {_MORE}"]


def numbered(text: str, *, width: int = WIDTH, limit: int | None = None) -> list[str]:
    """Code with line numbers; a wrapped line's pieces go on behind an empty number."""
    source = text.removesuffix("\n").split("\n")
    size = len(str(len(source)))
    lines = []
    for number, line in enumerate(source, start=1):
        label = str(number).rjust(size)
        for piece in wrapped(line, width - size - 3 - len(GUTTER)):
            lines.append(f"  {label} {GUTTER}{piece}")
            label = " " * size
    return clipped(lines, limit)


def field(label: str, value: str, *, width: int = WIDTH, limit: int | None = 12) -> list[str]:
    """``label      | value``; long values go on below, still behind the gutter."""
    head = label.ljust(12) if len(label) < 13 else f"{label} "
    pieces = [
        piece for line in value.split("\n") for piece in wrapped(line, width - len(head) - len(GUTTER) - 2)
    ]
    first, *rest = pieces
    lines = [f"  {head}{GUTTER}{first}", *(f"  {' ' * len(head)}{GUTTER}{piece}" for piece in rest)]
    return clipped(lines, limit)
