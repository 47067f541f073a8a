"""The screen of a request on a terminal, page by page, before the question about it.

Invariant: it is read to its end only once every row was on a terminal that is large enough to read, and the rows that
came last still are when the question stands below them; keys that were typed before it is shown do nothing. The same
rows stay on the terminal, in order, for who goes forward only.

The terminal application is not used for this: it is a plugin, takes the whole terminal, and its list of seen lines is
of a window that moves freely. Here one only moves over rows that were shown, so the last row is seen last.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from threegate.approval.shown import messages
from threegate.approval.shown.escaped_lines import HEIGHT, LEAST_HEIGHT, LEAST_WIDTH, WIDTH
from threegate.approval.shown.time_read import Reader
from threegate.core import limits
from threegate.core.errors import InvalidInput

_LOOK_SECONDS: Final = 0.2
"""How often the size of the terminal is looked at."""
_ESCAPE_SECONDS: Final = 0.05
"""How long the rest of a key is waited for that sends several bytes."""
_PAGE, _BACK, _DOWN, _UP, _LEAVE = "page", "back", "down", "up", "leave"
_KEYS: Final = {
    b" ": _PAGE, b"\x1b[6~": _PAGE, b"b": _BACK, b"\x1b[5~": _BACK, b"j": _DOWN, b"\n": _DOWN, b"\x1b[B": _DOWN,
    b"k": _UP, b"\x1b[A": _UP, b"q": _LEAVE, b"\x04": _LEAVE, b"": _LEAVE,
}  # fmt: skip


def read_to_end(render: Callable[[int], Sequence[str]], reader: Reader, *, err: bool = False) -> bool:
    """Show lines that are made for a width until the last one was on the screen; whether the person stayed until then.

    `reader` records when. Raises InvalidInput on a terminal that is too small from the start.
    """
    columns, height = _size(err)
    if _too_small(columns, height):
        raise InvalidInput(f"this terminal is {columns} by {height}: {_NEEDED}")
    with _keys_at_once():
        return _Paging(render, reader, err).to_end()


class _Paging:
    """The rows that were made for the terminal's width, and how many of them were shown."""

    def __init__(self, render: Callable[[int], Sequence[str]], reader: Reader, err: bool) -> None:
        self._render, self._reader, self._err = render, reader, err
        self._size = (0, 0)
        self._rows: list[str] = []
        self._shown = 0
        """The number of the last row on the screen, from 1."""
        self._seen = 0
        """The same of the last row that was ever on it."""
        self._dumb = os.environ.get("TERM", "dumb") == "dumb"

    def to_end(self) -> bool:
        """Show, and do what the keys say."""
        self._fit()
        while self._seen < len(self._rows) or _too_small(*self._size):
            key = _key()
            if _size(self._err) != self._size:
                self._fit()
            elif key == _LEAVE:
                messages.passing("", err=self._err)
                return False
            elif key is not None and not _too_small(*self._size):
                page = self._page - limits.QUESTION_ROWS
                self._move({_PAGE: page, _BACK: -page, _DOWN: 1, _UP: -1}[key])
        messages.passing("", err=self._err)
        return True

    @property
    def _page(self) -> int:
        """How many rows fit above the row that says where one is."""
        return self._size[1] - 1

    def _fit(self) -> None:
        """Show the rows for the terminal's size; for another width they are other rows, and none of them was seen."""
        before, self._size = self._size, _size(self._err)
        if _too_small(*self._size):
            messages.passing(_NEEDED[: self._size[0] - 1], err=self._err)
            return
        if before != (0, 0):
            self._erase_all()
        width = min(self._size[0], WIDTH)
        if min(before[0], WIDTH) != width or not self._rows:
            lines = self._render(width)
            self._reader.shows(lines)
            self._rows = messages.rows_for(lines, err=self._err)
            self._shown = self._seen = 0
            fits = len(self._rows) <= self._page + 1 - limits.QUESTION_ROWS
            self._shown = len(self._rows) if fits else min(self._page, len(self._rows) - 1)
        self._show(max(0, self._shown - self._page))

    def _move(self, by: int) -> None:
        """Further down, or back up but not above the first row."""
        first = min(self._page, self._seen)
        before, self._shown = self._shown, max(first, min(self._shown + by, len(self._rows)))
        if self._shown >= before:
            self._show(before)
        else:
            messages.passing("", err=self._err)
            if not self._dumb:
                messages.redraw(min(before, self._page), err=self._err)
            self._show(max(0, self._shown - self._page))

    def _show(self, start: int) -> None:
        """Print the rows from `start` on, and below them where one is."""
        messages.passing("", err=self._err)
        messages.put(self._rows[start : self._shown], err=self._err)
        self._seen = max(self._seen, self._shown)
        total = len(self._rows)
        if self._seen < total:
            says = (
                f"lines {max(0, self._shown - self._page) + 1}-{self._shown} of {total}, {total - self._seen} not seen"
            )
            text = f"{says}: space reads on, j k one line, q leaves"
            if len(text) >= self._size[0]:
                text = f"to {self._shown} of {total}: space j k, q leaves"
            messages.passing(text, err=self._err)

    def _erase_all(self) -> None:
        if self._dumb:
            messages.passing("", err=self._err)
        else:
            messages.redraw(err=self._err)


_NEEDED: Final = f"make it {LEAST_WIDTH} columns and {LEAST_HEIGHT} rows or more to read and decide"


def _size(err: bool) -> tuple[int, int]:
    """Columns and rows of the terminal, or the usual ones where it does not say."""
    columns, rows = messages.terminal_size(err=err)
    return columns or WIDTH, rows or HEIGHT


def _too_small(columns: int, rows: int) -> bool:
    return columns < LEAST_WIDTH or rows < LEAST_HEIGHT


@contextmanager
def _keys_at_once() -> Iterator[None]:
    """Keys are read as they are pressed and not shown; what was typed before or is left is thrown away."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)  # throws away what was typed
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSAFLUSH, before)


def _key() -> str | None:
    """What the next key does; None if it does nothing, or there was none for a short time."""
    keyboard = sys.stdin.fileno()
    if not select.select([keyboard], [], [], _LOOK_SECONDS)[0]:
        return None
    pressed = _read(keyboard, 1)
    if pressed == b"\x1b" and select.select([keyboard], [], [], _ESCAPE_SECONDS)[0]:
        pressed += _read(keyboard, 3)
    return _KEYS.get(pressed)


def _read(keyboard: int, size: int) -> bytes:
    try:
        return os.read(keyboard, size)
    except OSError:  # the terminal is gone
        return b""
