"""Parts as lines of a terminal. Untrusted text is escaped, wrapped, counted, and never where our own words are.

Invariant: every line with foreign text begins with a gutter and no line in our own words has one, so neither can look
like the other; all lines contain only printable characters and are at most `width` cells wide; left-out lines are
counted in a line of their own. The first lines of the short screen name what it leaves out, and the full
screen leaves out nothing.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Self

from threegate.core.file_diff import CONTEXT, DiffLine, Fold, Mark, Span, TextChange, said_of
from threegate.core.printable import escape_of, is_plain, stands_alone
from threegate.core.screen_parts import Fact, Field, FileDiff, Item, Listing, Note, Section
from threegate.core.syntax_colours import STYLES, LexerProcess

WIDTH = 80
HEIGHT = 24
"""Rows of a list, off a terminal."""
LEAST_WIDTH = 40
"""Columns. On a narrower terminal, no question is asked."""
LEAST_HEIGHT = 10
"""Rows. On a terminal with fewer, no line of a request counts as seen."""
GUTTER = "| "
TAB = 4
"""Columns from one tab stop of a file's line to the next."""
_TAB = "\u2192"
_TABS = re.compile(f"[\t{_TAB}\udc80-\udcff]")
_LEXERS = {
    ending: lexer
    for lexer, endings in (
        ("python", "py pyi"),
        ("javascript", "js mjs cjs jsx"),
        ("typescript", "ts mts cts tsx"),
        ("bash", "sh bash zsh"),
        ("go", "go"),
        ("rust", "rs"),
        ("ruby", "rb"),
        ("java", "java"),
        ("c", "c h"),
        ("cpp", "cc cpp cxx hpp hh"),
        ("csharp", "cs"),
        ("php", "php"),
        ("yaml", "yml yaml"),
        ("json", "json"),
        ("toml", "toml"),
        ("ini", "ini cfg"),
        ("html", "html htm"),
        ("css", "css"),
        ("sql", "sql"),
        ("make", "mk makefile"),
        ("docker", "dockerfile"),
    )
    for ending in endings.split()
}
"""Which lexer colours a file, by its ending or its name without one."""
_MORE = "--full shows all"
_ODD = re.compile(r"[^ -~]")


Coloured = tuple[int, int, str]
"""Characters from the first to before the last, and a style of `syntax_colours.STYLES`."""


class CodeLine(str):
    """A line of code on the screen; `start` is the column where the code begins."""

    start: int
    lexer: str = ""
    """The name of the lexer for its colours; nothing for a text without."""
    colours: list[Coloured]
    """Of its code, counted from `start`, in order; nothing until they are known. The rows that are made of this one
    share the list.
    """

    def __new__(cls, text: str) -> Self:
        """A line without colours."""
        line = super().__new__(cls, text)
        line.colours = []
        return line

    @classmethod
    def of(cls, head: str, piece: str) -> CodeLine:
        """Our own head (number and gutter) and a piece of escaped code."""
        line = cls(head + piece)
        line.start = len(head)
        return line


class DiffRow(CodeLine):
    """A line of a diff on the screen. `mark` is what it is: a space, a minus or a plus; no word of the file is before
    `start`.
    """

    mark: str
    numbers: tuple[int, int]
    """Of the line, before and after; 0 where it is not. The rows of one long line have the same."""
    digits: int
    """Columns of each of the two numbers."""
    said: tuple[str, ...] = ()
    """What a person must not miss of the line, in our words. Its row begins with an exclamation mark."""
    changed: tuple[Span, ...] = ()
    """Which columns show what changed within the line; nothing where all of it did."""


def with_one_number(row: DiffRow, *, old: bool) -> DiffRow:
    """The row with only the number before, or after."""
    at, size = 2, row.digits
    first, second = row[at : at + size], row[at + size + 1 : at + 2 * size + 1]
    made = DiffRow(f"{row[:at]}{first if old else second}{row[at + 2 * size + 1 :]}")
    vars(made).update(vars(row))
    made.start = row.start - size - 1
    made.changed = tuple((start - size - 1, end - size - 1) for start, end in row.changed)
    return made


def goes_on(line: str, below: str) -> bool:
    """Whether the row below has more of the same line of code."""
    if isinstance(line, DiffRow):
        return isinstance(below, DiffRow) and (below.mark, below.numbers) == (line.mark, line.numbers)
    return (
        isinstance(line, CodeLine) and isinstance(below, CodeLine) and not any(map(str.isdigit, below[: below.start]))
    )


class FoldRow(str):
    """A line that counts equal lines of a file which are not shown."""


class EndRow(str):
    """A line below the last one of a text that ends without a line end."""


class PartRow(str):
    """A line that counts equal characters of a long line; `mark` and `numbers` are those of the long line's rows."""

    mark: str
    numbers: tuple[int, int]


FileLines = Callable[[FileDiff, list[str]], list[str]]
"""A file and the lines of its head → the lines of all of it."""


class Title(str):
    """A heading."""


class Cut(str):
    """A line that counts the lines left out; `left` is their number."""

    left: int

    @classmethod
    def of(cls, text: str, left: int) -> Cut:
        """The line and its number."""
        line = cls(text)
        line.left = left
        return line


def safe(text: str) -> str:
    """`text` as one line, with everything that a terminal would interpret or hide made visible as \\x.., \\u...."""
    return _ODD.sub(lambda found: _safe(found[0]), text)


@lru_cache(4096)
def _safe(char: str) -> str:
    return char if is_plain(char) else escape_of(char)


@lru_cache(4096)
def _shown(char: str) -> str:
    return char if is_plain(char) and stands_alone(char) else escape_of(char)


def shown(text: str) -> str:
    """Like `safe`, and also write as an escape what reverses lines or joins with its neighbour."""
    return _ODD.sub(lambda found: _shown(found[0]), text)


def cells(text: str) -> int:
    """The most columns that a terminal needs for text that `shown` returned (some draw ambiguous characters wide)."""
    return len(text) if text.isascii() else sum(1 + (unicodedata.east_asian_width(char) in "WFA") for char in text)


def wrapped(text: str, width: int) -> Iterator[str]:
    """One escaped line, cut into pieces of at most `width` cells; an empty line gives one empty piece."""
    text = shown(text)
    if text.isascii():
        yield from (text[start : start + width] for start in range(0, len(text) or 1, width))
        return
    piece, used = "", 0
    for char in text:
        size = cells(char)
        if used + size > width:
            yield piece
            piece, used = "", 0
        piece += char
        used += size
    yield piece


def quoted(text: str, *, width: int = WIDTH, limit: int | None = None) -> list[str]:
    """Foreign text behind the gutter. With a limit of lines, the rest is counted, with a hint at how to see it."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines.extend(wrapped(line, width - 2 - len(GUTTER)))
    return clipped([f"  {GUTTER}{line}" for line in lines], limit)


def clipped(lines: list[str], limit: int | None) -> list[str]:
    """At most `limit` lines, and one that counts the others. A single extra line is shown rather than counted."""
    if limit is None or len(lines) <= limit + 1:
        return lines
    left = len(lines) - limit
    return [*lines[:limit], Cut.of(f"  > {left} more lines of {len(lines)}: {_MORE}", left)]


def own(text: str, *, width: int = WIDTH, indent: int = 2) -> list[str]:
    """Our own words, wrapped between words if possible."""
    return [" " * indent + piece for piece in _between_words(text, width - indent)]


def fact(label: str, value: str, *, width: int = WIDTH) -> list[str]:
    """``label      value``: both are ours, so no gutter stands between them."""
    head = f"  {label.ljust(12)} "
    pieces = [piece for line in value.split("\n") for piece in _between_words(line, width - len(head))]
    return [f"{head}{pieces[0]}", *(f"{' ' * len(head)}{piece}" for piece in pieces[1:])]


def _between_words(text: str, width: int) -> list[str]:
    text = shown(text)
    if not text.isascii():
        return list(wrapped(text, width))  # which counts the columns of wide characters
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def numbered(text: str, *, width: int = WIDTH, limit: int | None = None, first: int = 1) -> list[str]:
    """Code with line numbers starting at `first`; a wrapped line continues behind an empty number."""
    source = text.removesuffix("\n").split("\n")
    size = len(str(first + len(source) - 1))
    lines: list[str] = []
    for number, line in enumerate(source, start=first):
        label = str(number).rjust(size)
        for piece in wrapped(line, width - size - 3 - len(GUTTER)):
            row = CodeLine.of(f"  {label} {GUTTER}", piece)
            row.lexer = "python"
            lines.append(row)
            label = " " * size
    return clipped(lines, limit)


def lexer_of(path: str) -> str:
    """The name of the lexer for a file, by its ending; nothing where there is none."""
    return _LEXERS.get(path.rpartition("/")[2].lower().rpartition(".")[2], "")


def diff_lines(
    text: TextChange,
    *,
    width: int = WIDTH,
    context: int | None = CONTEXT,
    marks: Iterable[Mark] = (),
    path: str = "",
) -> list[str]:
    """A file's change: the line's numbers before and after, our mark, the gutter, the file's own words."""
    marked: dict[tuple[bool, int], tuple[str, ...]] = {}
    for mark in marks:
        marked[mark.removed, mark.line] = (*marked.get((mark.removed, mark.line), ()), mark.what)
    size = len(str(max(len(text.old), len(text.new))))
    lexer = lexer_of(path)
    lines: list[str] = []
    for row in text.rows(context):
        if isinstance(row, Fold):
            lines.append(FoldRow(f"  > {row.lines} equal lines"))
            continue
        label = f"{row.old or '':>{size}} {row.new or '':>{size}}"
        said = marked.get((row.mark == "-", row.old if row.mark == "-" else row.new), ())
        at = 0
        for start, end in row.shown():
            lines += _equal_part(row, start - at)
            at = end
            text_shown, changed = _escaped(
                row.text[start:end], [(low - start, high - start) for low, high in row.changed]
            )
            place = 0
            for piece in wrapped(text_shown, width - 2 * size - 6 - len(GUTTER)):
                line = DiffRow(f"{'!' if said else ' '} {label} {row.mark} {GUTTER}{piece}")
                line.start, line.mark, line.said, line.lexer = len(line) - len(piece), row.mark, said, lexer
                line.numbers, line.digits = (row.old, row.new), size
                line.changed = _within(changed, place, place + len(piece), line.start)
                lines.append(line)
                label, said, place = " " * len(label), (), place + len(piece)
        lines += _equal_part(row, len(row.text) - at)
        if not row.ends:
            lines.append(EndRow("  > the file ends here, without a line end"))
    return lines


def _equal_part(line: DiffLine, size: int) -> list[str]:
    if not size:
        return []
    row = PartRow(f"  > {size} equal characters of this line")
    row.mark, row.numbers = line.mark, (line.old, line.new)
    return [row]


def _escaped(text: str, changed: Iterable[Span]) -> tuple[str, list[Span]]:
    """A part of a file's line as it is shown, and where in it the spans are."""
    made, at, column = [], 0, 0
    spans: list[Span] = []
    for start, end in (*changed, (len(text), len(text))):
        start, end = max(at, min(start, len(text))), max(at, min(end, len(text)))
        for low, high in ((at, start), (start, end)):
            made.append(shown(visible(text[low:high], column)))
            column += len(made[-1])
        spans.append((column - len(made[-1]), column))
        at = end
    return "".join(made), [span for span in spans if span[0] < span[1]]


def _within(spans: Iterable[Span], low: int, high: int, shift: int) -> tuple[Span, ...]:
    """The parts of spans that are between two places, moved to their column."""
    cut = ((max(start, low), min(end, high)) for start, end in spans)
    return tuple((start - low + shift, end - low + shift) for start, end in cut if start < end)


def visible(text: str, column: int = 0) -> str:
    """Part of a line of a file, from a column on: tabs as an arrow up to their next stop, an arrow of the file itself
    as an escape, bytes that are not UTF-8 as ``\\xff``.
    """
    if _TABS.search(text) is None:
        return text
    made: list[str] = []
    for char in text:
        if char == "\t":
            char = _TAB.ljust(TAB - column % TAB)
        elif char == _TAB:
            char = escape_of(char)
        elif "\udc80" <= char <= "\udcff":
            char = escape_of(chr(ord(char) - 0xDC00))
        made.append(char)
        column += len(char)
    return "".join(made)


def field(label: str, value: str, *, width: int = WIDTH, limit: int | None = 12) -> list[str]:
    """``label | value``; a long value continues below, behind the gutter."""
    head = label.ljust(12) if len(label) < 13 else f"{label} "
    pieces = [piece for line in value.split("\n") for piece in wrapped(line, width - len(head) - len(GUTTER) - 2)]
    first, *rest = pieces
    lines = [f"  {head}{GUTTER}{first}", *(f"  {' ' * len(head)}{GUTTER}{piece}" for piece in rest)]
    return clipped(lines, limit)


def fitted(line: str, *, width: int = WIDTH) -> list[str]:
    """Fit a line that was made without a width: foreign text stays behind its gutter, ours keeps its indent."""
    head, gutter, text = line.partition(GUTTER)
    if not gutter:
        indent = len(line) - len(line.lstrip())
        return own(line.strip(), width=width, indent=indent)
    pieces = wrapped(text, width - len(head) - len(GUTTER))
    return [f"{head if number == 0 else ' ' * len(head)}{GUTTER}{piece}" for number, piece in enumerate(pieces)]


def painted(line: str) -> str:
    """A line of the screen in color: removing the SGR sequences gives `line`. What changed in a line is in reverse."""
    if isinstance(line, Title):
        return f"\x1b[1m{line}\x1b[0m"
    start, colours = (line.start, line.colours) if isinstance(line, CodeLine) else (0, [])
    reverse = [(low, high, "7") for low, high in line.changed] if isinstance(line, DiffRow) else []
    spans = [*((low + start, high + start, STYLES[style]) for low, high, style in colours), *reverse]
    cuts = sorted({0, len(line), *(place for span in spans for place in span[:2])})
    made = []
    for low, high in pairwise(cuts):
        given = ";".join(style for first, last, style in spans if first <= low and high <= last)
        made.append(f"\x1b[{given}m{line[low:high]}\x1b[0m" if given else line[low:high])
    return "".join(made)


def painted_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a screen in colour: removing the SGR sequences gives the lines."""
    with LexerProcess() as process:
        for rows in texts_of_code(lines):
            for row, found in zip(rows, colours_of(process, rows), strict=False):
                row.colours[:] = found
    return [painted(line) for line in lines]


def texts_of_code(lines: Iterable[str]) -> Iterator[list[CodeLine]]:
    """The rows that are coloured as one text: those of a listing, or of a file, with all that is folded in it."""
    rows: list[CodeLine] = []
    for line in lines:
        if isinstance(line, FoldRow | PartRow | EndRow):
            continue
        code = line if isinstance(line, CodeLine) and line.lexer else None
        if rows and (code is None or code.lexer != rows[0].lexer):
            yield rows
            rows = []
        if code is not None:
            rows.append(code)
    if rows:
        yield rows


def colours_of(process: LexerProcess, rows: Sequence[CodeLine]) -> list[list[Coloured]]:
    """The colours of each row of a text; none at all where it stays plain. Removed lines are read after all others, so
    that neither opens a string or a comment in the other.
    """
    order = sorted(range(len(rows)), key=lambda at: isinstance(row := rows[at], DiffRow) and row.mark == "-")
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    for place, at in enumerate(order):
        end = "\n" if place and not goes_on(rows[order[place - 1]], rows[at]) else ""
        parts += (end, rows[at][rows[at].start :])
        starts.append(size + len(end))
        size = starts[-1] + len(parts[-1])
    found = process.colours(rows[0].lexer, "".join((*parts, "\n")))  # some lexers know a comment by its line end
    if found is None:
        return []
    made: list[list[Coloured]] = [[] for _ in rows]
    low = place = 0
    for style, text in found:
        high = low + len(text)
        while style and place < len(order):
            at, start = order[place], starts[place]
            end_of_row = start + len(rows[at]) - rows[at].start
            if start >= high:
                break
            if max(low, start) < min(high, end_of_row):
                made[at].append((max(low, start) - start, min(high, end_of_row) - start, style))
            if end_of_row > high:
                break
            place += 1
        low = high
    return made


def render_sections(
    sections: Iterable[Section], *, width: int = WIDTH, full: bool = False, files: FileLines | None = None
) -> list[str]:
    """Parts as lines, in order; what is left out is named below the first heading. `files` puts the lines of a file
    below its head in another way.
    """
    first: list[str] = []
    rest: list[str] = []
    cuts: list[str] = []
    for section in sections:
        if section.folded and not full:
            rest += ["", *own(f"{section.folded}: --full shows them", width=width)]
            continue
        titles = [Title(line) for line in own(f"== {section.title}", width=width, indent=0)]
        (rest if first else first).extend(("", *titles))
        for item in section.items:
            lines = _item(item, width, full, files)
            cuts += [f"{line.left} lines of {_called(item)}" for line in lines if isinstance(line, Cut)]
            rest += lines
    if cuts:
        first += own(f"left out below: {', '.join(cuts)}; --full shows all", width=width)
    return first + rest


def _called(item: Item) -> str:
    return "a note" if isinstance(item, Note) else item.label


def _item(item: Item, width: int, full: bool, files: FileLines | None = None) -> list[str]:
    if isinstance(item, Field):
        return field(item.label, item.value, width=width, limit=None if full else item.most)
    if isinstance(item, Fact):
        return fact(item.label, item.value, width=width)
    if isinstance(item, Note):
        return own(item.text, width=width)
    if isinstance(item, FileDiff):
        lines = field(item.label, item.path, width=width, limit=None)
        if item.old_path:
            lines += field("was", item.old_path, width=width, limit=None)
        for note in said_of(item.marks):
            lines += own(note, width=width)
        for part in item.about:
            lines += _item(part, width, full)
        if files is not None:
            return files(item, lines)
        return lines + (
            diff_lines(item.text, width=width, marks=item.marks, path=item.path) if item.text is not None else []
        )
    head = own(item.head, width=width) if item.head else []
    if isinstance(item, Listing):
        return head + numbered(item.text, width=width, limit=None if full else item.most)
    return head + quoted(item.text, width=width, limit=None if full else item.most)
