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
from collections.abc import Iterable, Iterator
from functools import lru_cache

from threegate.core.file_diff import CONTEXT, Fold, Mark, TextChange
from threegate.core.printable import escape_of, is_plain, stands_alone
from threegate.core.screen_parts import Fact, Field, FileDiff, Item, Listing, Note, Section

WIDTH = 80
HEIGHT = 24
"""Rows of a list, off a terminal."""
LEAST_WIDTH = 40
"""Columns. On a narrower terminal, no question is asked."""
GUTTER = "| "
TAB = 4
"""Columns from one tab stop of a file's line to the next."""
_MORE = "--full shows all"
_ODD = re.compile(r"[^ -~]")


class CodeLine(str):
    """A line of code on the screen; `start` is the column where the code begins."""

    start: int

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
    said: tuple[str, ...] = ()
    """What a person must not miss of the line, in our words. Its row begins with an exclamation mark."""


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
            lines.append(CodeLine.of(f"  {label} {GUTTER}", piece))
            label = " " * size
    return clipped(lines, limit)


def diff_lines(
    text: TextChange, *, width: int = WIDTH, context: int | None = CONTEXT, marks: Iterable[Mark] = ()
) -> list[str]:
    """A file's change: the line's numbers before and after, our mark, the gutter, the file's own words."""
    marked: dict[tuple[bool, int], tuple[str, ...]] = {}
    for mark in marks:
        marked[mark.removed, mark.line] = (*marked.get((mark.removed, mark.line), ()), mark.what)
    size = len(str(max(len(text.old), len(text.new))))
    lines: list[str] = []
    for row in text.rows(context):
        if isinstance(row, Fold):
            lines.append(f"  > {row.lines} equal lines")
            continue
        label = f"{row.old or '':>{size}} {row.new or '':>{size}}"
        said = marked.get((row.mark == "-", row.old if row.mark == "-" else row.new), ())
        for piece in wrapped(visible(row.text), width - 2 * size - 6 - len(GUTTER)):
            line = DiffRow(f"{'!' if said else ' '} {label} {row.mark} {GUTTER}{piece}")
            line.start, line.mark, line.said = len(line) - len(piece), row.mark, said
            lines.append(line)
            label, said = " " * len(label), ()
        if not row.ends:
            lines.append("  > the file ends here, without a line end")
    return lines


def visible(text: str, column: int = 0) -> str:
    """A line of a file, or a part of it from a column on: tabs with a mark, up to their next stop; bytes that are not
    UTF-8 as ``\\xff``.
    """
    made = ""
    for char in text:
        if char == "\t":
            made += "\u2192".ljust(TAB - (column + len(made)) % TAB)
        else:
            made += escape_of(chr(ord(char) - 0xDC00)) if "\udc80" <= char <= "\udcff" else char
    return made


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
    """A line of the screen in color: removing the SGR sequences gives `line`."""
    if isinstance(line, Title):
        return f"\x1b[1m{line}\x1b[0m"
    if isinstance(line, CodeLine):
        return line[: line.start] + _highlighted(line[line.start :])
    return line


def _highlighted(code: str) -> str:
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import PythonLexer

    text: str = highlight(code, PythonLexer(stripnl=False, ensurenl=False), TerminalFormatter(bg="dark"))
    return text.removesuffix("\n")


def render_sections(sections: Iterable[Section], *, width: int = WIDTH, full: bool = False) -> list[str]:
    """Parts as lines, in order; what is left out is named below the first heading."""
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
            lines = _item(item, width, full)
            cuts += [f"{line.left} lines of {_called(item)}" for line in lines if isinstance(line, Cut)]
            rest += lines
    if cuts:
        first += own(f"left out below: {', '.join(cuts)}; --full shows all", width=width)
    return first + rest


def _called(item: Item) -> str:
    return "a note" if isinstance(item, Note) else item.label


def _item(item: Item, width: int, full: bool) -> list[str]:
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
        for mark in item.marks:
            lines += own(mark.said, width=width)
        for part in item.about:
            lines += _item(part, width, full)
        return lines + (diff_lines(item.text, width=width, marks=item.marks) if item.text is not None else [])
    head = own(item.head, width=width) if item.head else []
    if isinstance(item, Listing):
        return head + numbered(item.text, width=width, limit=None if full else item.most)
    return head + quoted(item.text, width=width, limit=None if full else item.most)
