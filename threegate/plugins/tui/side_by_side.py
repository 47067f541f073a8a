"""Removed and added lines of a file in the same rows, where the screen has room for both.

Invariant: both halves are whole. The right half begins in the same column in every row, on every terminal: what some
terminals draw wider than others gets a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from threegate.approval.shown.escaped_lines import DiffRow, FoldRow, PartRow, cells, with_one_number


class PairRow(str):
    """A row with a line that was removed on the left and one that was added on the right, or one of both. `gap` blanks
    are between them.
    """

    left: str | None
    right: str | None
    gap: int

    @classmethod
    def of(cls, left: str | None, right: str | None, half: int) -> PairRow:
        """Both halves, each of at most `half` columns."""
        gap = half + 1 - cell_len(left or "") if right is not None else 0
        row = cls((left or "") + " " * gap + (right or ""))
        row.left, row.right, row.gap = left, right, gap
        return row

    @property
    def halves(self) -> Iterator[str]:
        """What the row shows: one or two lines."""
        return (half for half in (self.left, self.right) if half is not None)


def half_of(columns: int) -> int:
    """Columns of a half."""
    return (columns - 1) // 2


def side_by_side(rows: Sequence[str], columns: int) -> list[str]:
    """The rows of a diff that were made for `half_of(columns)` and one more number, in pairs."""
    half = half_of(columns)
    made: list[str] = []
    removed: list[list[str]] = []
    added: list[list[str]] = []

    def flush() -> None:
        for old, new in zip_longest(removed, added, fillvalue=()):
            for left, right in zip_longest(old, new):
                made.extend(_pair(left, right, half))
        removed.clear()
        added.clear()

    for row in rows:
        if isinstance(row, DiffRow | PartRow) and row.mark == " ":
            flush()
            made.extend(_pair(row, row, half))
        elif isinstance(row, DiffRow | PartRow):
            if row.mark == "-" and added:
                flush()
            side = removed if row.mark == "-" else added
            if side and isinstance(first := side[-1][0], DiffRow | PartRow) and first.numbers == row.numbers:
                side[-1].append(row)
            else:
                side.append([row])
        elif isinstance(row, FoldRow) or not (removed or added):
            flush()
            made.append(row)
        else:  # our line about the end of the text, below its last line
            (added or removed)[-1].append(row)
    flush()
    return made


def _pair(left: str | None, right: str | None, half: int) -> Iterator[PairRow]:
    left = with_one_number(left, old=True) if isinstance(left, DiffRow) else left
    right = with_one_number(right, old=False) if isinstance(right, DiffRow) else right
    if left is not None and right is not None and cells(left) != cell_len(left):
        yield PairRow.of(left, None, half)
        left = None
    yield PairRow.of(left, right, half)
