"""How fixes are made and applied: whole lines, so that any program can do it without understanding the
format.

Invariant: no two fixes of a list concern the same line (except inserts, which keep their order), so the order
in which they are applied does not matter as long as it starts at the last line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from threegate.core import limits
from threegate.request.frame import Frame, find_frame, section_names, section_of
from threegate.request.report import Fix
from threegate.request.sections import lines_outside_fences

if TYPE_CHECKING:
    from threegate.core.settings import RequestSettings


_FIELD = {"inputs": "name", "outputs_expected": "path"}


@dataclass(frozen=True)
class Draft:
    """What a maker of fixes sees: the lines of the file, its name, and what the reader compared with."""

    lines: tuple[str, ...]
    name: str
    settings: RequestSettings
    now: datetime

    @property
    def end(self) -> int:
        """Number of the line that closes the front matter, or that follows it if nothing closes it; 0 if nothing is
        known of it."""
        frame = self.frame
        return 0 if frame is None else frame.last + 1

    @cached_property
    def frame(self) -> Frame | None:
        """Where the front matter and the body are."""
        return find_frame(self.lines)

    @cached_property
    def headings(self) -> dict[int, str]:
        """The sections that there are, by the number of the line of their headings, in the one form or another."""
        start = 0 if self.frame is None else self.frame.body
        lines = lines_outside_fences(self.lines[start:])
        return {start + index + 1: name for index, line in lines if (name := section_of(line)) is not None}

    def line(self, number: int) -> str:
        """A line by its number from 1; empty where there is none, or where it is too long to be a slip of the pen."""
        line = self.lines[number - 1] if 1 <= number <= len(self.lines) else ""
        return line if len(line) <= limits.FIX_LINE_CHARS else ""

    def span(self, name: str) -> range:
        """The numbers of the lines of a section, with its heading: up to the next of the one form. Empty if it is not
        there."""
        exact = {f"## {known}" for known in section_names()}
        found = sorted(number for number, known in self.headings.items() if known == name)
        if not found:
            return range(0)
        below = range(found[0] + 1, len(self.lines) + 1)
        end = next((number for number in below if self.line(number).rstrip() in exact), len(self.lines) + 1)
        return range(found[0], end)

    def filled(self, name: str) -> list[int]:
        """Numbers of the lines below a section's heading that are not empty."""
        return [number for number in self.span(name)[1:] if self.lines[number - 1].strip()]

    def declared(self, key: str) -> list[str] | None:
        """Names of the files that a list of the front matter has, without their folder; empty where there is no such
        list. None where they are not clear."""
        lines = self.lines[: max(self.end - 1, 0)]
        start = next((index for index, line in enumerate(lines) if line.startswith(f"{key}:")), None)
        if start is None:
            return []
        below = lines[start + 1 :]
        length = next((index for index, line in enumerate(below) if line[:1] not in (" ", "-", "")), len(below))
        text = "\n".join((lines[start], *below[:length]))
        names = re.findall(
            rf"\b{_FIELD[key]}:[ ]*[\"']?(?:/out/)?([A-Za-z0-9][A-Za-z0-9._/-]*)[\"']?[ ]*(?:[,}}\n]|$)", text
        )
        if not names and re.fullmatch(rf"{key}:[ ]*(?:\[[ ]*\]|null|none|~)?\s*", text):
            return []
        return names if len(names) == len(re.findall(rf"\b{_FIELD[key]}:", text)) and names else None


def split_lines(text: str) -> tuple[str, ...]:
    """The lines that fixes count: split at LF or CRLF."""
    return tuple(text.replace("\r\n", "\n").split("\n"))


def in_place(fixes: Iterable[Fix]) -> list[Fix]:
    """Sorted by line; what is put before a line comes before what becomes of it."""
    return sorted(fixes, key=lambda fix: (fix.line, fix.op != "insert"))


def apply_fixes(text: str, fixes: Iterable[Fix]) -> str:
    """The text with the fixes applied; line ends become LF. A `rename` changes no text."""
    lines = list(split_lines(text))
    for fix in reversed(in_place(fix for fix in fixes if fix.op != "rename")):
        new = [] if fix.op == "delete" else fix.text.split("\n")
        lines[fix.line - 1 : fix.line - (fix.op == "insert")] = new
    return "\n".join(lines)


class _Line(NamedTuple):
    """A line of the text as it is now. `number` is the line of the file that it was, 0 for one that was put in; `rule`
    is the rule of the last fix that changed it."""

    text: str
    number: int
    rule: str = ""


class Edited:
    """A file while several rounds of fixes change it: in the end they are one list of fixes of the file as it was."""

    def __init__(self, text: str, name: str) -> None:
        """Begin with the file."""
        self._before = split_lines(text)
        self._lines = [_Line(line, number) for number, line in enumerate(self._before, start=1)]
        self._deleted: dict[int, str] = {}
        self._rename: Fix | None = None
        self.name = name

    @property
    def text(self) -> str:
        """As it is now."""
        return "\n".join(line.text for line in self._lines)

    def apply(self, fixes: Sequence[Fix]) -> None:
        """Apply fixes of the text as it is now."""
        for fix in reversed(in_place(fixes)):
            if fix.op == "rename":
                self._rename, self.name = fix, fix.text
                continue
            at = fix.line - 1
            number = 0 if fix.op == "insert" else self._lines[at].number
            texts = [] if fix.op == "delete" else fix.text.split("\n")
            if number and not texts:
                self._deleted[number] = fix.rule
            new = [_Line(text, 0 if more else number, fix.rule) for more, text in enumerate(texts)]
            self._lines[at : at + (fix.op != "insert")] = new

    def fixes(self) -> tuple[Fix, ...]:
        """What was changed, as fixes of the file as it was, sorted by line."""
        changed = [*self._changed(), *(Fix(rule, "delete", line) for line, rule in self._deleted.items())]
        return (*(() if self._rename is None else (self._rename,)), *in_place(changed))

    def _changed(self) -> Iterator[Fix]:
        last = 0
        pieces: list[tuple[int, str, str]] = []
        for line in self._lines:
            if not line.number:
                pieces.append((last + 1, line.rule, line.text))
                continue
            last = line.number
            if line.text != self._before[last - 1]:
                yield Fix(line.rule, "replace", last, line.text)
        for (number, rule), group in groupby(pieces, key=lambda piece: piece[:2]):
            yield Fix(rule, "insert", number, "\n".join(text for _, _, text in group))
