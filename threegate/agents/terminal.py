"""The streams between a person and a jailed agent: a pty of our own on a terminal, otherwise pipes.

Invariant: the agent never has a descriptor of ours. Its output to a terminal goes through `TerminalFilter`;
what a person types goes only to its pty, so Ctrl-C stops the program inside and nothing of ours. At the end
the terminal is reset, and unread input is discarded before any question.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from subprocess import PIPE
from typing import Final

from threegate.agents.terminal_filter import RESET, TerminalFilter
from threegate.jail.jail import Jail, JailProcess

_PIECE: Final = 1 << 16
_LAST_OUTPUT_SECONDS: Final = 1.0
_CLEAR: Final = b"\x1b[2J\x1b[H"
"""The assumed state of a terminal application at start: the cursor position reported by the filter."""


def has_terminal() -> bool:
    """Whether both ends are terminals."""
    return os.isatty(0) and os.isatty(1)


def run_in_jail(
    jail: Jail, argv: Sequence[str], *, started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    """Run to the end with the streams of this process; return its exit code, or 128 plus the signal's number.

    `started` is called once it is running; `stopped` is polled for whether to stop it. Raises Unavailable.
    """
    return _on_terminal(jail, argv, started, stopped) if has_terminal() else _on_pipes(jail, argv, started, stopped)


def _wait(process: JailProcess, stopped: Callable[[], bool]) -> int:
    while process.poll() is None:
        if stopped():
            process.kill()
        with suppress(Exception):
            process.wait(0.2)
    code = process.returncode
    return 128 - code if code < 0 else code


# ---- pipes


def _on_pipes(
    jail: Jail, argv: Sequence[str], started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    process = jail.start(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    started(process)
    assert process.stdin and process.stdout and process.stderr
    threads = [
        threading.Thread(target=_copy, args=(source.fileno(), target, os.isatty(target)), daemon=True)
        for source, target in ((process.stdout, 1), (process.stderr, 2))
    ]
    threading.Thread(target=_feed, args=(process,), daemon=True).start()
    for thread in threads:
        thread.start()
    code = _wait(process, stopped)
    for thread in threads:
        thread.join(_LAST_OUTPUT_SECONDS)
    return code


def _copy(source: int, target: int, filtered: bool) -> None:
    """Forward output, through the filter if it reaches a terminal."""
    screen = TerminalFilter()
    with suppress(OSError):
        while piece := os.read(source, _PIECE):
            _write(target, screen.feed(piece) if filtered else piece)


def _feed(process: JailProcess) -> None:
    """Forward our input, and its end."""
    assert process.stdin
    with suppress(OSError, ValueError):
        while piece := os.read(0, _PIECE):
            process.stdin.write(piece)
            process.stdin.flush()
    with suppress(OSError, ValueError):
        process.stdin.close()


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


# ---- a terminal


def _on_terminal(
    jail: Jail, argv: Sequence[str], started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    ours, theirs = pty.openpty()
    try:
        _copy_size(ours)
        try:
            process = jail.start(argv, stdin=theirs, stdout=theirs, stderr=theirs, terminal=True)
        finally:
            os.close(theirs)
        started(process)
        with _raw(), _resizes(ours):
            _write(1, _CLEAR)
            _converse(ours, process, stopped)
        return _wait(process, stopped)
    finally:
        os.close(ours)


def _converse(ours: int, process: JailProcess, stopped: Callable[[], bool]) -> None:
    """Forward bytes both ways until the agent has closed its end."""
    screen = TerminalFilter()
    listened = [ours, 0]
    while True:
        if stopped():
            process.kill()
            return
        readable = select.select(listened, [], [], 0.2)[0]
        if ours in readable:
            try:
                piece = os.read(ours, _PIECE)
            except OSError:  # EIO: the other end is closed everywhere
                return
            if not piece:
                return
            _write(1, screen.feed(piece))
            _write(ours, screen.take_answers())
        elif process.poll() is not None:
            return
        if 0 in readable:
            typed = os.read(0, _PIECE)
            if typed:
                _write(ours, typed)
            else:
                listened.remove(0)


@contextmanager
def _raw() -> Iterator[None]:
    """Our terminal in raw mode; restored, reset and drained at the end."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        with suppress(OSError):
            _write(1, RESET.encode())
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)
            termios.tcsetattr(0, termios.TCSAFLUSH, before)


@contextmanager
def _resizes(ours: int) -> Iterator[None]:
    before = signal.signal(signal.SIGWINCH, lambda number, frame: _copy_size(ours))
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _copy_size(ours: int) -> None:
    """Give the pty the size of our terminal; the kernel notifies its programs."""
    with suppress(OSError):
        size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        fcntl.ioctl(ours, termios.TIOCSWINSZ, size)
