"""The only way from this program to a person's terminal, except for the applications (`tui/`) and the jail's streams.

Invariant: one call of `say` is one line and never more, whatever its text is made of: a line break in it is foreign,
like an escape sequence, and is shown as an escape. Several lines are a list, each of which is one line. On a terminal a
line that is too long continues indented, so that no row begins with foreign text, unless our own words are indented
too. `tests/whole/test_messages.py` finds every other print.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from threegate.approval.shown.escaped_lines import WIDTH, painted_lines, safe

_CONTINUED: Final = "  "
_LEAST_COLUMNS: Final = 20
_WORDS: Final = re.compile(r" *[^ ]+| +$")
_COPIED: Final = re.compile(r"(\w+ +)?[\w%+,./:=?@#&~-]+( [\w%+,./:=?@#&~-]+)*").fullmatch
"""A command or link that a person copies. It has no colon before a space, as all messages on stderr have."""


def say(text: str = "", *, err: bool = False, copied: bool = False) -> None:
    """Print one line, to stdout or stderr. One that is `copied` (a link, a command) is not folded on a terminal."""
    _write([text], sys.stderr if err else sys.stdout, folds=not copied or _COPIED(text) is None or ": " in text)


def put(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines of a screen, in color if the terminal supports it and the user wants it."""
    _write(lines, sys.stderr if err else sys.stdout, folds=True)


def prompt(question: str, *, err: bool = False) -> None:
    """Print a question, below an empty line, and leave the cursor behind it."""
    stream = sys.stderr if err else sys.stdout
    stream.write("\n".join(["", *_rows(question.rstrip(), stream, folds=True)]) + " ")
    stream.flush()


def emit_data(text: str | bytes) -> None:
    """Write data to stdout: as it is for another program; on a terminal each of its lines is made safe."""
    if sys.stdout.isatty():
        whole = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
        _write(whole.removesuffix("\n").split("\n"), sys.stdout, folds=False)
    elif isinstance(text, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


def terminal_columns(*, err: bool = False) -> int:
    """The width of the terminal that stdout or stderr is; 0 if it is none, or has no width."""
    return _columns(sys.stderr if err else sys.stdout)


def terminal_size(*, err: bool = False) -> tuple[int, int]:
    """Columns and rows of the terminal that stdout or stderr is; 0 for what it does not say. Raises OSError if none."""
    return os.get_terminal_size((sys.stderr if err else sys.stdout).fileno())


def redraw(rows: int | None = None, *, err: bool = False) -> None:
    """On a terminal, erase the last rows that were printed there, or everything."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        stream.write("\x1b[H\x1b[2J" if rows is None else f"\x1b[{rows}F\x1b[J" if rows else "")
        stream.flush()


def passing(text: str, *, err: bool = False) -> None:
    """On a terminal, write one of our rows in the place of the one that the cursor is in, and leave it there."""
    stream = sys.stderr if err else sys.stdout
    space = (_columns(stream) or WIDTH) - 1
    stream.write(f"\r{'':{space}}\r{safe(text)[:space]}")
    stream.flush()


def rows_for(lines: Iterable[str], *, err: bool = False) -> list[str]:
    """The rows that `put` makes of lines; a line that is one row stays the same value, with its colours."""
    stream = sys.stderr if err else sys.stdout
    found: list[str] = []
    for line in lines:
        rows = _rows(line, stream, folds=True)
        found += [line] if len(rows) == 1 else rows
    return found


def folded(line: str, columns: int) -> Iterator[str]:
    """A safe line as rows of at most `columns` cells; all but the first are indented. Broken between words if possible.

    A character that is not ASCII counts as two cells, because terminals differ in the width of some.
    """
    row = ""
    for word in _WORDS.findall(line):
        if row and _cells(row) + _cells(word) > columns:
            yield row
            row, word = _CONTINUED, word.lstrip(" ")
        while _cells(row) + _cells(word) > columns:
            fits = _fitting(word, columns - _cells(row))
            yield row + word[:fits]
            row, word = _CONTINUED, word[fits:]
        row += word
    yield row


def _cells(text: str) -> int:
    return len(text) if text.isascii() else len(text) + sum(char > "\x7f" for char in text)


def _fitting(word: str, columns: int) -> int:
    """How many characters of a word that is longer fit into so many cells."""
    number = used = 0
    while (used := used + (1 if word[number].isascii() else 2)) <= columns:
        number += 1
    return number


def _write(lines: Iterable[str], stream: TextIO, *, folds: bool) -> None:
    colours = stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    lines = list(lines)
    for line, coloured in zip(lines, painted_lines(lines) if colours else lines, strict=True):
        first, *rest = _rows(line, stream, folds=folds)
        # A line that was changed or folded no longer has the columns that its colours were computed for.
        if colours and not rest and first == line:
            first = coloured
        stream.write("".join(f"{row}\n" for row in (first, *rest)))
    stream.flush()


def _rows(line: str, stream: TextIO, *, folds: bool) -> list[str]:
    """One line made safe for a stream, as rows of its terminal."""
    text = safe(line)
    if stream.encoding and stream.encoding.lower() != "utf-8":  # what it cannot spell is written as an escape
        text = text.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
    columns = _columns(stream) if folds else 0
    return list(folded(text, max(columns, _LEAST_COLUMNS))) if columns else [text]


def _columns(stream: TextIO) -> int:
    return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
