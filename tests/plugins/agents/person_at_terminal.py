"""Somebody who runs an agent at a terminal: a pty whose other end is the test."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.plugins.agents.people import Person, as_account

HEADLESS_SECONDS = 60


class Screen:
    """The person's terminal: what was written to it, and keys that they press."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master, self.process, self.seen = master, process, b""

    def wait_for(self, text: bytes, seconds: float = HEADLESS_SECONDS, *, count: int = 1) -> None:
        until = time.monotonic() + seconds
        while self.seen.count(text) < count:
            assert time.monotonic() < until, self.seen
            self.look()

    def look(self) -> bool:
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return False
            self.seen += piece
        return True

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        until = time.monotonic() + HEADLESS_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < until, self.seen
            self.look()
        while select.select([self.master], [], [], 0.1)[0] and self.look():
            pass
        return self.process.returncode

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def on_terminal(
    who: Person,
    *program: str,
    options: Sequence[str] = ("--propose", "never"),
    words: Sequence[str] | None = None,
    **streams: Any,
) -> Iterator[Screen]:
    """Run an agent, or the command with these `words`, as somebody who sits at a terminal of 40 rows and 100 columns.
    `streams` replaces some of theirs.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = who.command(*(words or who.words(*program, options=options)))
    process = subprocess.Popen(
        ["setsid", *([] if streams else ["--ctty"]), *command], env=who.environ(), cwd=who.home,
        **{"stdin": slave, "stdout": slave, "stderr": slave, **streams}, **as_account(who.account),
    )  # fmt: skip
    try:
        yield Screen(master, process)
    finally:
        os.close(slave)
        process.kill()
        process.wait()
        os.close(master)
