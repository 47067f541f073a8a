"""A terminal for programs that need one: a pty with a screen by pyte, which a test reads and types into.

The program is the leader of its session and the pty its controlling terminal, as in a window. Every byte that it sends
is kept, so that a test can look for sequences that must not get through.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte

from tests.support import wait_until

_WHOLE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[P_^X\]][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[P_^X\]])")
"""One control sequence, to its end."""
_UNKNOWN = re.compile(rb"\x1b(?:\[[<>=][0-?]*[ -/]*[@-~]|\[\?[0-9;]*(?:\$p|[mu])|[P_^X][^\x1b]*\x1b\\)")
"""What pyte would print or fail on: keyboard protocols, queries of modes, DCS, APC, PM and SOS."""


class _Screen(pyte.Screen):
    """A screen whose answers to the program's questions go back, if it answers any."""

    answer: Callable[[str], None] | None = None

    def write_process_input(self, data: str) -> None:
        if self.answer is not None:
            self.answer(data)


class Terminal:
    """One program on a pty of `columns` times `rows`. `answers`: cursor position and attributes are told when asked.
    `account` is for `Popen`.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        columns: int = 120,
        rows: int = 40,
        answers: bool = True,
        **account: Any,
    ) -> None:
        self.sent = b""
        """Every byte of the program."""
        self._screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._master, follower = pty.openpty()
        if answers:
            self._screen.answer = lambda text: self.type(text)
        self._size(columns, rows)
        self.process = subprocess.Popen(
            argv, cwd=cwd, env=dict(environment), stdin=follower, stdout=follower, stderr=follower,
            start_new_session=True, preexec_fn=_take_terminal, **account,
        )  # fmt: skip
        os.close(follower)
        self._ending, self._end = os.pipe()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Hang up: whatever is left of the program is ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._end)
        self._reader.join()
        os.close(self._ending)
        os.close(self._master)

    def shown(self) -> str:
        """The screen as text, one line a row."""
        with self._lock:
            return "\n".join(self._screen.display)

    def type(self, text: str) -> None:
        """Send keys."""
        os.write(self._master, text.encode())

    def press(self, key: str, times: int = 1, seconds: float = 0.5) -> None:
        """Press a key as a person does: a page that is passed over in a hurry was not seen, two keys at once are one
        paste.
        """
        for _ in range(times):
            self.type(key)
            time.sleep(seconds)

    def resize(self, columns: int, rows: int) -> None:
        """Change the window; the program gets SIGWINCH."""
        with self._lock:
            self._screen.resize(rows, columns)
        self._size(columns, rows)

    def wait_for(self, pattern: str, seconds: float = 60) -> None:
        """Wait until a regular expression is found on the screen."""

        def found() -> bool:
            # In this order: what it wrote last is on the screen before its end is seen.
            ended = self.process.poll()
            there = re.search(pattern, self.shown()) is not None
            assert there or ended is None, f"no {pattern!r}; exit {ended}; the screen:\n{self.shown()}"
            return there

        wait_until(found, lambda: f"{pattern!r}; the screen:\n{self.shown()}", seconds)

    def wait_end(self, seconds: float = 30) -> int:
        """The exit code of the program."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end; the screen:\n{self.shown()}") from None

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        held = b""
        while self._ending not in select.select([self._master, self._ending], [], [])[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                return
            self.sent += data
            data = held + data
            starts = (found.start() for found in re.finditer(b"\x1b", data))
            whole = next((start for start in starts if not _WHOLE.match(data, start)), len(data))
            data, held = data[:whole], data[whole:]
            with self._lock:
                self._stream.feed(_UNKNOWN.sub(b"", data))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
