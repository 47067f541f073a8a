"""The rows of an open request: which file each is of, what is marked, and what must be read.

Invariant: every line must be on the screen but lines that are equal in both texts of a file, and what counts those. A
line of a file is known by its path, the digests of the file before and after, and its numbers, whatever the width; any
other line by its text, among the lines of the same request at the same width. What has been on the screen is kept until
the application ends, and nothing that was not painted in full is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.approval.shown.escaped_lines import (
    WIDTH,
    CodeLine,
    DiffRow,
    FileLines,
    FoldRow,
    diff_lines,
    goes_on,
    with_one_number,
)
from threegate.core.file_diff import CONTEXT, Fold, TextChange
from threegate.core.screen_parts import FileDiff
from threegate.plugins.tui.side_by_side import PairRow, half_of, side_by_side

Key = Hashable
Render = Callable[[FileLines], list[str]]
"""All lines of a request, with what puts the lines of its files."""

PAIR_COLUMNS: Final = 150
"""From this many columns on, removed and added lines are side by side."""
_BOTH_NUMBERS: Final = 100
"""On fewer columns, a line of a file has one number: the one after the change, or before it for what was removed."""
_FEWEST: Final = 22
"""Rows of a screen on which equal lines take no more than a page and a half of all that is read."""
_ROWS_FOR_ALL: Final = 120
"""Further rows with which they could take as much room as what differs."""
_BREAK: Final = -1
"""In place of a number of equal lines: none, and what is left out is a sign in the row that follows."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A file of the request: the rows from `first` to before `end`."""

    item: FileDiff
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class RequestRows:
    """The lines of a request; `keys` says for each what is read with it, nothing if it need not be."""

    lines: Sequence[str]
    keys: Sequence[tuple[Key, ...]]
    files: tuple[FilePlace, ...] = ()
    marks: tuple[int, ...] = ()
    """Rows with what a person must not miss."""

    def file_at(self, row: int) -> int:
        """Which file a row is of; -1 for none."""
        number = bisect_right(self.files, row, key=lambda place: place.first) - 1
        return number if number >= 0 and row < self.files[number].end else -1

    def row_of(self, key: Key) -> int | None:
        """The first row with this."""
        return next((row for row, keys in enumerate(self.keys) if key in keys), None)

    def hits(self, words: str) -> list[int]:
        """Rows that have these words, in any case; a line that is wrapped is searched as a whole."""
        words = words.casefold()
        return [row for row in range(len(self.lines)) if words and self._has(row, words)]

    def _has(self, row: int, words: str) -> bool:
        line = self.lines[row]
        below = self.lines[row + 1] if row + 1 < len(self.lines) else ""
        if isinstance(line, PairRow):
            sides = ((line.left, below.left), (line.right, below.right)) if isinstance(below, PairRow) else (
                (line.left, None), (line.right, None)
            )  # fmt: skip
            return any(_begins_in(half, after, words) for half, after in sides if half is not None)
        return _begins_in(line, below, words)


class FileHead(str):
    """The first row of a file."""

    item: FileDiff
    rows: int
    """How many rows the file has."""


def request_rows(
    render: Render, *, request: str, width: int = WIDTH, columns: int, height: int, unfolded: bool = False
) -> RequestRows:
    """The rows of the request with this digest. Lines of files may take `columns`, all others were made for `width`.
    The lower the screen, the fewer equal lines are around what differs; `unfolded` shows all of them.
    """
    texts: list[TextChange] = []

    def noting(item: FileDiff, head: list[str]) -> list[str]:
        if item.text is not None:
            texts.append(item.text)
        return _file(item, head, columns, None if unfolded else _BREAK)

    lines = render(noting)
    if texts and not unfolded:
        must = sum(map(bool, _keys(lines, request, width)))
        context = _context(texts, must, height)
        if context != _BREAK:
            lines = render(lambda item, head: _file(item, head, columns, context))
    return RequestRows(lines, list(_keys(lines, request, width)), tuple(_places(lines)), tuple(_marks(lines)))


def _context(texts: Sequence[TextChange], must: int, height: int) -> int:
    """How many equal lines: as many as take a page and a half, and more of a high screen."""
    most = 3 * height // 2 + must * max(0, height - _FEWEST) // _ROWS_FOR_ALL
    for context in range(CONTEXT, _BREAK, -1):
        if sum(isinstance(row, Fold) or row.mark == " " for text in texts for row in text.rows(context)) <= most:
            return context
    return _BREAK


def _file(item: FileDiff, head: list[str], columns: int, context: int | None) -> list[str]:
    rows: list[str] = []
    if item.text is not None:
        rows = _rows(item, item.text, columns, context)
    first = FileHead(head[0])
    first.item, first.rows = item, len(head) + len(rows)
    return [first, *head[1:], *rows]


def _rows(item: FileDiff, text: TextChange, columns: int, context: int | None) -> list[str]:
    """The lines of a file; on a narrow screen with one number each, and on a wide one two in a row."""
    pairs, one = columns >= PAIR_COLUMNS, columns < _BOTH_NUMBERS
    saved = 1 + len(str(max(len(text.old), len(text.new)))) if pairs or one else 0
    width = (half_of(columns) if pairs else columns) + saved
    rows = diff_lines(text, width=width, context=0 if context == _BREAK else context, marks=item.marks, path=item.path)
    if context == _BREAK:
        rows = list(_broken(rows))
    if pairs:
        return side_by_side(rows, columns)
    if one:
        return [with_one_number(row, old=row.mark == "-") if isinstance(row, DiffRow) else row for row in rows]
    return rows


def _broken(rows: Sequence[str]) -> Iterator[str]:
    """Without the rows that count equal lines: what follows one has a sign in its head."""
    left_out = False
    for row in rows:
        if isinstance(row, FoldRow):
            left_out = True
            continue
        if left_out and isinstance(row, DiffRow):
            signed = DiffRow(f"{row[:1]}>{row[2:]}")
            vars(signed).update(vars(row))
            row, left_out = signed, False
        yield row


def _parts(line: str) -> Iterator[str]:
    return line.halves if isinstance(line, PairRow) else iter((line,))


def code_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines with halves as lines of their own; an equal line that is in both comes once."""
    known: object = None
    for part in (part for line in lines for part in _parts(line)):
        if not isinstance(part, CodeLine):
            yield part
        elif part.colours is not known:
            known = part.colours
            yield part


def _keys(lines: Sequence[str], request: str, width: int) -> Iterator[tuple[Key, ...]]:
    occurred: Counter[str] = Counter()
    file: Key = ()
    for line in lines:
        if isinstance(line, FileHead):
            item = line.item
            file = (item.path, item.before, item.after, "" if item.before or item.after else request)
        keys: list[Key] = []
        for part in _parts(line):
            if isinstance(part, DiffRow):
                if part.mark != " ":
                    keys.append((file, part.mark, part.numbers))
            elif not isinstance(part, FoldRow):
                occurred[part] += 1
                keys.append((request, width, str(part), occurred[part]))
        yield tuple(keys)


def _places(lines: Sequence[str]) -> Iterator[FilePlace]:
    for row, line in enumerate(lines):
        if isinstance(line, FileHead):
            yield FilePlace(line.item, row, row + line.rows)


def _marks(lines: Sequence[str]) -> Iterator[int]:
    """Heads of files that are marked as a whole, and lines that are."""
    for row, line in enumerate(lines):
        if isinstance(line, FileHead):
            if any(not mark.line for mark in line.item.marks):
                yield row
        elif any(isinstance(part, DiffRow) and part.said for part in _parts(line)):
            yield row


def _content(line: str) -> str:
    return line[line.start :] if isinstance(line, CodeLine) else line


def _begins_in(line: str, below: str | None, words: str) -> bool:
    """Whether the words begin in this row, and end there or in the next one of the same line."""
    here = _content(line).casefold()
    if below is not None and goes_on(line, below):
        return -1 < (here + _content(below).casefold()).find(words) < len(here)
    return words in here


class Progress:
    """What is still to be read of the rows on the screen, whole and by file."""

    def __init__(self, rows: RequestRows, seen: set[Key]) -> None:
        self._rows, self._seen = rows, seen
        self.unseen = {row for row, keys in enumerate(rows.keys) if any(key not in seen for key in keys)}
        """Rows to be read, when they were put on the screen."""
        self._left: Counter[Key] = Counter(key for row in self.unseen for key in rows.keys[row])
        self.unread: Counter[int] = Counter(rows.file_at(row) for row in self.unseen)
        """Rows to be read by file."""

    def painted(self, row: int) -> None:
        """One of these rows was on the screen; a line of several rows was read once all of them were."""
        self.unread[self._rows.file_at(row)] -= 1
        for key in self._rows.keys[row]:
            self._left[key] -= 1
            if not self._left[key]:
                self._seen.add(key)
