"""The change of one file's text, as every screen shows it: numbered lines, what differs, and what is folded.

Invariant: only lines, and parts of long lines, that are equal in both texts are folded. The lines are the file's own,
unescaped: whoever shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from threegate.core import limits

CONTEXT: Final = 3
"""Equal lines that are shown before and behind what differs."""


class Piece(NamedTuple):
    """`old[old_start:old_end]` becomes `new[new_start:new_end]`; at most one of the two is empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


_NAMED: Final = 8
"""Lines of one kind that a note names; the others are counted, and each has its sign."""

Span = tuple[int, int]
"""Characters of a line, from the first to before the last."""


class Mark(NamedTuple):
    """What a person must not miss, in our words. `line` is a number of the new text, or of the old one for what was
    `removed`; 0 where the file as a whole is meant.
    """

    line: int
    what: str
    removed: bool = False

    @property
    def said(self) -> str:
        """It with its line."""
        return f"{'old ' * self.removed}line {self.line}: {self.what}" if self.line else self.what


def said_of(marks: Iterable[Mark]) -> Iterator[str]:
    """The marks as notes above the lines: one for each thing that is marked, with the first of its lines."""
    found: dict[tuple[str, bool], list[str]] = {}
    for mark in marks:
        lines = found.setdefault((mark.what, mark.removed), [])
        if mark.line:
            lines.append(f"{mark.line}")
    for (what, removed), lines in found.items():
        more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
        head = f"{'old ' * removed}line{'s' * (len(lines) > 1)} {', '.join(lines[:_NAMED])}{more}: " if lines else ""
        yield f"{head}{what}"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of one of the texts or of both. `old` and `new` are its numbers there, from 1; 0 where it is not."""

    mark: Literal[" ", "-", "+"]
    old: int
    new: int
    text: str
    ends: bool = True
    """Whether a line end follows; only the last line of a text may have none."""
    changed: tuple[Span, ...] = ()
    """What of it the lines that it replaces, or that replace it, do not have; nothing where that is all of it. An
    empty span is where they have something more.
    """

    def shown(self) -> tuple[Span, ...]:
        """What of the line is shown: all of it, or of a long one what changed and what is around that. All else is
        equal in both texts.
        """
        size = len(self.text)
        if size <= limits.DIFF_LINE_CHARS or (self.mark != " " and not self.changed):
            return ((0, size),)
        found: list[Span] = []
        for start, end in self.changed or ((0, 0),):
            low, high = max(0, start - limits.DIFF_AROUND_CHARS), min(size, end + limits.DIFF_AROUND_CHARS)
            if found and low <= found[-1][1]:
                low = found.pop()[0]
            found.append((low, high))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Fold:
    """So many equal lines that are not shown here."""

    lines: int


@dataclass(frozen=True, slots=True)
class TextChange:
    """Two texts as lines without their line ends, and the pieces that differ, in order."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    pieces: tuple[Piece, ...]
    old_ends: bool = True
    new_ends: bool = True
    """Whether a line end follows the last line."""
    old_changed: Mapping[int, tuple[Span, ...]] = field(default_factory=dict, hash=False)
    new_changed: Mapping[int, tuple[Span, ...]] = field(default_factory=dict, hash=False)
    """Place of a line, from 0 → what of it changed, where that is not all of it."""

    @property
    def removed(self) -> int:
        """Lines that only the old text has."""
        return sum(piece.old_end - piece.old_start for piece in self.pieces)

    @property
    def added(self) -> int:
        """Lines that only the new text has."""
        return sum(piece.new_end - piece.new_start for piece in self.pieces)

    def rows(self, context: int | None = CONTEXT) -> Iterator[DiffLine | Fold]:
        """What is shown, in order: each line that differs, with `context` equal lines around; None for all of them."""
        at = to = 0
        for piece in self.pieces:
            yield from self._equal(at, to, piece.old_start - at, context, first=at == 0, last=False)
            for number in range(piece.old_start, piece.old_end):
                yield self._line("-", number, -1)
            for number in range(piece.new_start, piece.new_end):
                yield self._line("+", -1, number)
            at, to = piece.old_end, piece.new_end
        yield from self._equal(at, to, len(self.old) - at, context, first=at == 0, last=True)

    def _equal(
        self, at: int, to: int, count: int, context: int | None, *, first: bool, last: bool
    ) -> Iterator[DiffLine | Fold]:
        """Equal lines from `old[at]` and `new[to]`; nothing differs before the first and behind the last of them."""
        lead, tail = (0 if first else context or 0), (0 if last else context or 0)
        if context is None or count <= lead + tail + 1:
            lead, tail = count, 0
        for number in range(lead):
            yield self._line(" ", at + number, to + number)
        if count > lead + tail:
            yield Fold(count - lead - tail)
        for number in range(count - tail, count):
            yield self._line(" ", at + number, to + number)

    def _line(self, mark: Literal[" ", "-", "+"], old: int, new: int) -> DiffLine:
        text = self.new[new] if new >= 0 else self.old[old]
        ends = (self.old_ends or old != len(self.old) - 1) and (self.new_ends or new != len(self.new) - 1)
        changed = self.new_changed.get(new, ()) if mark == "+" else self.old_changed.get(old, ()) if mark == "-" else ()
        return DiffLine(mark, old + 1, new + 1, text, ends, changed)
