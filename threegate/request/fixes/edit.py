"""How fixes are made and applied: whole lines, so that any program can do it without understanding the
format.

Invariant: no two fixes of a list concern the same line (except inserts, which keep their order), so the order
in which they are applied does not matter as long as it starts at the last line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from threegate.core import limits
from threegate.request.report import Fix

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings


@dataclass(frozen=True, slots=True)
class Draft:
    """What a maker of fixes sees: the lines of the file, its name, and what the reader compared with."""

    lines: tuple[str, ...]
    name: str
    settings: RequestSettings
    now: datetime

    @property
    def end(self) -> int:
        """Number of the line that closes the front matter; 0 when none does."""
        return next((number for number, line in enumerate(self.lines[1:], start=2) if line == "---"), 0)

    def line(self, number: int) -> str:
        """A line by its number from 1; empty where there is none, or where it is too long to be a slip of the pen."""
        line = self.lines[number - 1] if 1 <= number <= len(self.lines) else ""
        return line if len(line) <= limits.FIX_LINE_CHARS else ""


def split_lines(text: str) -> tuple[str, ...]:
    """The lines that fixes count: split at LF or CRLF."""
    return tuple(text.replace("\r\n", "\n").split("\n"))


def apply_fixes(text: str, fixes: Iterable[Fix]) -> str:
    """The text with the fixes applied; line ends become LF. A `rename` changes no text."""
    lines = list(split_lines(text))
    ordered = sorted((fix for fix in fixes if fix.op != "rename"), key=lambda fix: (fix.line, fix.op != "insert"))
    for fix in reversed(ordered):
        new = [] if fix.op == "delete" else fix.text.split("\n")
        lines[fix.line - 1 : fix.line - (fix.op == "insert")] = new
    return "\n".join(lines)
