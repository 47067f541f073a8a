"""The change of each file for the page: rows of a table, and which files have pages of their own.

Invariant: the rows of a file, page after page, are every row of its change with every character of it; nothing is cut.
Foreign words are only in `TableRow.text` of a row with a mark, already escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Literal, NamedTuple

from threegate.approval.shown.escaped_lines import shown, visible
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.file_diff import Fold, TextChange
from threegate.core.screen_parts import FileDiff, Item, Note, Section


class TableRow(NamedTuple):
    """A row. `mark` is a space, a minus or a plus; empty: the text is ours. A number is 0 where it is not shown."""

    mark: Literal["", " ", "-", "+"]
    old: int
    new: int
    text: str


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file's change on a page."""

    number: int
    """Its place on the page, from 1."""
    key: str
    """32 hex digits for an address: of the path and of what it was and becomes."""
    diff: FileDiff
    lines: int
    """Lines of its table that are shown, folded ones aside."""
    pages: tuple[tuple[TableRow, ...], ...]
    here: bool
    """Whether its lines are on the page of the request; otherwise on pages of their own."""

    @property
    def added(self) -> int:
        """Lines that it adds."""
        return self.diff.text.added if self.diff.text is not None else 0

    @property
    def removed(self) -> int:
        """Lines that it removes."""
        return self.diff.text.removed if self.diff.text is not None else 0


@dataclass(frozen=True, slots=True)
class Block:
    """Items that are shown together: facts in a table, our lines, or one file."""

    kind: Literal["facts", "notes", "file"]
    items: tuple[Item, ...] = ()
    file: ShownFile | None = None


@dataclass(frozen=True, slots=True)
class PagePart:
    """A section as the page shows it."""

    title: str
    folded: str
    blocks: tuple[Block, ...]


def page_parts(sections: Iterable[Section]) -> list[PagePart]:
    """The sections, with what is known of each file; files are numbered through all of them."""
    parts = []
    number, left = 0, limits.PAGE_DIFFS_ROWS
    for section in sections:
        blocks: list[Block] = []
        for kind, items in groupby(section.items, _kind):
            if kind != "file":
                blocks.append(Block(kind, tuple(items)))
                continue
            for item in items:
                assert isinstance(item, FileDiff)
                number += 1
                file = _shown_file(number, item, left)
                left -= len(file.pages[0]) if file.here and file.pages else 0
                blocks.append(Block("file", file=file))
        parts.append(PagePart(section.title, section.folded, tuple(blocks)))
    return parts


def files_of(parts: Iterable[PagePart]) -> list[ShownFile]:
    """The files, in order."""
    return [block.file for block in chain.from_iterable(part.blocks for part in parts) if block.file is not None]


def about_blocks(items: Sequence[Item]) -> list[Block]:
    """What is to be known of a file, as blocks."""
    return [Block(kind, tuple(found)) for kind, found in groupby(items, _kind)]


def _kind(item: Item) -> Literal["facts", "notes", "file"]:
    return "file" if isinstance(item, FileDiff) else "notes" if isinstance(item, Note) else "facts"


def _shown_file(number: int, diff: FileDiff, left: int) -> ShownFile:
    pages = tuple(table_pages(diff.text)) if diff.text is not None else ()
    rows = sum(map(len, pages))
    lines = sum(bool(row.old or row.new) for page in pages for row in page)
    key = sha256_hex("\0".join((diff.label, diff.path, diff.before, diff.after)).encode("utf-8", "surrogateescape"))
    return ShownFile(number, key[:32], diff, lines, pages, here=len(pages) <= 1 and rows <= left)


def table_pages(text: TextChange) -> Iterator[tuple[TableRow, ...]]:
    """The rows in pages of at most PAGE_DIFF_ROWS rows and about PAGE_DIFF_CHARS characters."""
    page: list[TableRow] = []
    chars = 0
    for row in _rows(text):
        if page and (len(page) == limits.PAGE_DIFF_ROWS or chars + len(row.text) > limits.PAGE_DIFF_CHARS):
            yield tuple(page)
            page, chars = [], 0
        page.append(row)
        chars += len(row.text)
    if page:
        yield tuple(page)


def _rows(text: TextChange) -> Iterator[TableRow]:
    for row in text.rows():
        if isinstance(row, Fold):
            yield TableRow("", 0, 0, f"{row.lines} equal lines")
            continue
        old, new = row.old, row.new
        words = shown(visible(row.text))
        # A browser is slow with one cell of a megabyte; what goes on has no number.
        for start in range(0, len(words) or 1, limits.PAGE_DIFF_CELL_CHARS):
            yield TableRow(row.mark, old, new, words[start : start + limits.PAGE_DIFF_CELL_CHARS])
            old = new = 0
        if not row.ends:
            yield TableRow("", 0, 0, "the file ends here, without a line end")
