"""The change of one file's text, as every screen shows it: numbered lines, what differs, and what is folded.

Invariant: only lines that are equal in both texts are folded. The lines are the file's own, unescaped: whoever shows
them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

CONTEXT: Final = 3
"""Equal lines that are shown before and behind what differs."""


class Piece(NamedTuple):
    """`old[old_start:old_end]` becomes `new[new_start:new_end]`; at most one of the two is empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of one of the texts or of both. `old` and `new` are its numbers there, from 1; 0 where it is not."""

    mark: Literal[" ", "-", "+"]
    old: int
    new: int
    text: str
    ends: bool = True
    """Whether a line end follows; only the last line of a text may have none."""


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
        return DiffLine(mark, old + 1, new + 1, text, ends)
