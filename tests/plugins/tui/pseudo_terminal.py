"""A program on a pseudo-terminal, and what is on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyte


class PseudoTerminal:
    """A command on a terminal, and what is on its screen."""

    def __init__(
        self, words: Sequence[str], size: tuple[int, int], environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self._parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self._process = subprocess.Popen(
            ["setsid", "-c", "-w", *words],
            stdin=child, stdout=child, stderr=child, close_fds=True, env=dict(environment), cwd=folder,
        )  # fmt: skip
        os.close(child)
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self.wrote = b""

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, words: str, seconds: float = 90) -> None:
        """Read on until the screen shows these words."""
        self.wait_until(lambda: words in self.text(), repr(words), seconds)

    def wait_until(self, holds: Callable[[], bool], what: str, seconds: float = 90) -> None:
        """Read on until something holds."""
        end = time.monotonic() + seconds
        while not holds():
            ready, _, _ = select.select([self._parent], [], [], max(0, end - time.monotonic()))
            assert ready, f"{what} never came:\n{self.text()}"
            try:
                self._read()
            except OSError:
                raise AssertionError(f"it ended before {what}:\n{self.text()}") from None

    def settle(self, seconds: float = 0.5) -> None:
        """Read on until nothing was written for so long."""
        while select.select([self._parent], [], [], seconds)[0]:
            self._read()

    def type(self, keys: str) -> None:
        os.write(self._parent, keys.encode())

    def page_to_the_end(self) -> None:
        """Read the open request to its end."""
        self.press_until("all seen", " ")

    def press_until(self, words: str, key: str) -> None:
        """Press a key each half a second: a page passed over in a hurry was not seen, and a key that follows another
        one too soon decides nothing.
        """
        while words not in self.text():
            self.type(key)
            end = time.monotonic() + 0.5
            while select.select([self._parent], [], [], max(0, end - time.monotonic()))[0]:
                self._read()

    def _read(self) -> None:
        chunk = os.read(self._parent, 65536)
        self.wrote += chunk
        self._stream.feed(chunk)

    def end(self) -> int:
        while True:
            try:
                chunk = os.read(self._parent, 65536)
            except OSError:
                break
            if not chunk:
                break
            self.wrote += chunk
            self._stream.feed(chunk)
        os.close(self._parent)
        return self._process.wait(30)
