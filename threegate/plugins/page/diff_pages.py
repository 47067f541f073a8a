"""The change of each file for the page: rows of a table, and which files have pages of their own.

Invariant: the rows of a file, page after page, are every row of its change with every character of it that a terminal
shows (`DiffLine.shown`); nothing that differs is cut.
Foreign words are only in `TableRow.words` of a row with a mark, already escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Literal, NamedTuple

from threegate.approval.shown.escaped_lines import CodeLine, DiffRow, colours_of, lexer_of, shown, visible
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.file_diff import DiffLine, Fold, Mark, TextChange
from threegate.core.screen_parts import FileDiff, Item, Note, Section
from threegate.core.syntax_colours import LexerProcess


class Words(NamedTuple):
    """A part of a line, and whether it is what changed within the line; otherwise it may have a style of code."""

    text: str
    changed: bool = False
    style: str = ""


class TableRow(NamedTuple):
    """A row. `mark` is a space, a minus or a plus; empty: the words are ours. A number is 0 where it is not shown."""

    mark: Literal["", " ", "-", "+"]
    old: int
    new: int
    words: tuple[Words, ...]
    marks: tuple[int, ...] = ()
    """Places in `FileDiff.marks` of what a person must not miss of this line."""

    @property
    def text(self) -> str:
        """All of its words."""
        return "".join(words.text for words in self.words)


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

    def page_of(self, mark: int) -> int:
        """The page that has the line of a mark, from 1; 0 if none has, as when the whole file is meant."""
        return next((at for at, page in enumerate(self.pages, 1) if any(mark in row.marks for row in page)), 0)


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
    pages = tuple(table_pages(diff.text, diff.marks)) if diff.text is not None else ()
    rows = sum(map(len, pages))
    lines = sum(bool(row.old or row.new) for page in pages for row in page)
    key = sha256_hex("\0".join((diff.label, diff.path, diff.before, diff.after)).encode("utf-8", "surrogateescape"))
    return ShownFile(number, key[:32], diff, lines, pages, here=len(pages) <= 1 and rows <= left)


def table_pages(text: TextChange, marks: Sequence[Mark] = ()) -> Iterator[tuple[TableRow, ...]]:
    """The rows in pages of at most PAGE_DIFF_ROWS rows and about PAGE_DIFF_CHARS characters."""
    page: list[TableRow] = []
    chars = 0
    for row in _rows(text, marks):
        size = len(row.text)
        if page and (len(page) == limits.PAGE_DIFF_ROWS or chars + size > limits.PAGE_DIFF_CHARS):
            yield tuple(page)
            page, chars = [], 0
        page.append(row)
        chars += size
    if page:
        yield tuple(page)


def with_colours(parts: Sequence[PagePart]) -> list[PagePart]:
    """The same with colours in the files whose lines are on the page of the request."""
    with LexerProcess() as process:
        return [
            replace(
                part,
                blocks=tuple(
                    block
                    if block.file is None or not block.file.here
                    else replace(block, file=_of_page(block.file, 1, process))
                    for block in part.blocks
                ),
            )
            for part in parts
        ]


def page_with_colours(file: ShownFile, page: int) -> ShownFile:
    """The same with colours on one of its pages, from 1."""
    with LexerProcess() as process:
        return _of_page(file, page, process)


def _of_page(file: ShownFile, page: int, process: LexerProcess) -> ShownFile:
    lexer = lexer_of(file.diff.path)
    if not lexer or not file.pages:
        return file
    rows = list(file.pages[page - 1])
    places = [at for at, row in enumerate(rows) if row.mark]
    numbers = (0, 0)
    lines: list[CodeLine] = []
    for at in places:
        numbers = (rows[at].old, rows[at].new) if rows[at].old or rows[at].new else numbers
        line = DiffRow(rows[at].text)
        line.start, line.lexer, line.mark, line.numbers = 0, lexer, rows[at].mark, numbers
        lines.append(line)
    for at, found in zip(places, colours_of(process, lines) if lines else (), strict=False):
        rows[at] = rows[at]._replace(words=tuple(_styled(rows[at].words, found)))
    return replace(file, pages=(*file.pages[: page - 1], tuple(rows), *file.pages[page:]))


def _styled(words: Iterable[Words], colours: Iterable[tuple[int, int, str]]) -> Iterator[Words]:
    """The words in pieces with their styles; what changed keeps its own look."""
    spans, start = list(colours), 0
    for part in words:
        at, end = start, start + len(part.text)
        for low, high, style in () if part.changed else spans:
            if max(low, at) < min(high, end):
                if at < low:
                    yield Words(part.text[at - start : low - start])
                at = max(low, at)
                yield Words(part.text[at - start : min(high, end) - start], style=style)
                at = min(high, end)
        if at < end:
            yield part._replace(text=part.text[at - start :])
        start = end


def _rows(text: TextChange, marks: Sequence[Mark]) -> Iterator[TableRow]:
    marked: dict[tuple[bool, int], tuple[int, ...]] = {}
    for place, mark in enumerate(marks):
        if mark.line:
            marked[mark.removed, mark.line] = (*marked.get((mark.removed, mark.line), ()), place)
    for row in text.rows():
        if isinstance(row, Fold):
            yield TableRow("", 0, 0, (Words(f"{row.lines} equal lines"),))
            continue
        old, new = row.old, row.new
        said = marked.get((True, old) if row.mark == "-" else (False, new), ())
        at = 0
        for start, end in row.shown():
            yield from _left_out(start - at)
            # A browser is slow with one cell of a megabyte; what goes on has no number.
            for words in _cells(_words(row, start, end)):
                yield TableRow(row.mark, old, new, words, said)
                old, new, said = 0, 0, ()
            at = end
        yield from _left_out(len(row.text) - at)
        if not row.ends:
            yield TableRow("", 0, 0, (Words("the file ends here, without a line end"),))


def _left_out(size: int) -> Iterator[TableRow]:
    if size:
        yield TableRow("", 0, 0, (Words(f"{size} equal characters of this line"),))


def _words(line: DiffLine, low: int, high: int) -> Iterator[Words]:
    """The escaped words of a part of a line, with what changed within it."""
    at, column = low, 0
    spans = ((max(low, start), min(high, end)) for start, end in line.changed)
    for start, end in (*((start, end) for start, end in spans if start < end), (high, high)):
        for part, changed in ((line.text[at:start], False), (line.text[start:end], True)):
            if part:
                seen = visible(part, column)
                column += len(seen)
                yield Words(shown(seen), changed)
        at = end


def _cells(words: Iterable[Words]) -> Iterator[tuple[Words, ...]]:
    """The same in cells of at most PAGE_DIFF_CELL_CHARS characters; at least one."""
    cell: list[Words] = []
    room = limits.PAGE_DIFF_CELL_CHARS
    for text, changed, _ in words:
        while text:
            if not room:
                yield tuple(cell)
                cell, room = [], limits.PAGE_DIFF_CELL_CHARS
            part, text = text[:room], text[room:]
            cell.append(Words(part, changed))
            room -= len(part)
    yield tuple(cell)
