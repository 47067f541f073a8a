"""The streams between a person and a jailed agent: a separate pty on a terminal, otherwise pipes.

Invariant: the agent never has a descriptor of the launcher. Its output to a terminal goes through `TerminalFilter`;
what a person types goes only to its pty, so Ctrl-C stops the program inside and not the launcher. The main thread,
which checks for a stop, waits for no peer that may not read: it writes to the agent's pty only as much as that takes at
once, and each output has a thread that forwards it. At the end every terminal that the agent wrote to is reset, and
unread input is discarded before any question.
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
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from subprocess import PIPE
from typing import Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.plugins.agents.terminal_filter import TerminalFilter
from threegate.runners.jail.jail import Jail, JailProcess

_PIECE: Final = 1 << 16
_LOOK_SECONDS: Final = 0.2
_LAST_OUTPUT_SECONDS: Final = 1.0
_CLEAR: Final = b"\x1b[2J\x1b[H"
"""The assumed state of a terminal application at start: the cursor position reported by the filter."""
_CTRL_C: Final = b"\x03"


def has_terminal() -> bool:
    """Whether both ends are terminals."""
    return os.isatty(0) and os.isatty(1)


def run_in_jail(
    jail: Jail, argv: Sequence[str], *, started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    """Run to the end with the streams of this process; return its exit code, or 128 plus the signal's number.

    `started` is called once it is running; `stopped` is polled for whether to stop it. Raises Unavailable, and
    KeyboardInterrupt for a Ctrl-C that an agent which does not read would never get.
    """
    return _on_terminal(jail, argv, started, stopped) if has_terminal() else _on_pipes(jail, argv, started, stopped)


def _wait(process: JailProcess, stopped: Callable[[], bool]) -> int:
    while process.poll() is None:
        if stopped():
            process.kill()
        with suppress(Exception):
            process.wait(_LOOK_SECONDS)
    code = process.returncode
    return 128 - code if code < 0 else code


class _Forwarding(threading.Thread):
    """Forwards one output of the agent until its end. Only this thread waits for the reader of `target`, who may have
    stopped reading: nobody may wait for the thread without a limit.
    """

    def __init__(
        self, source: int, target: int, *, first: bytes = b"", answer: Callable[[bytes], object] = lambda data: None
    ) -> None:
        """`first` is written before the agent's output; `answer` gets our answers to the agent's questions."""
        super().__init__(name="output", daemon=True)
        self._source, self._target, self._first, self._answer = source, target, first, answer
        self._screen = TerminalFilter() if os.isatty(target) else None
        self.ended, self._ending = os.pipe()
        """`ended` is readable once the output has ended."""

    def run(self) -> None:
        """Read, filter if it reaches a terminal, write; at the end, reset that terminal."""
        with suppress(OSError):  # EIO: the other end of the pty is closed everywhere
            _write(self._target, self._first)
            while piece := self._read():
                if self._screen is not None:
                    piece = self._screen.feed(piece)
                    self._answer(self._screen.take_answers())
                _write(self._target, piece)
        if self._screen is not None:
            with suppress(OSError):
                _write(self._target, self._screen.reset())
        os.close(self._ending)

    def _read(self) -> bytes:
        # The pty does not block, because what is typed is written to it.
        select.select([self._source], [], [])
        return os.read(self._source, _PIECE)

    def finish(self, process: JailProcess) -> bool:
        """Wait briefly for the last output, then end whatever still holds the stream; whether all of it was written."""
        self.join(_LAST_OUTPUT_SECONDS)
        with suppress(Unavailable):  # reported when the run's changes are read
            process.wait_empty()
        self.join(_LAST_OUTPUT_SECONDS)
        if self.is_alive():
            return False
        os.close(self.ended)
        return True


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


# ---- pipes


def _on_pipes(
    jail: Jail, argv: Sequence[str], started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    process = jail.start(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    started(process)
    assert process.stdin and process.stdout and process.stderr
    outputs = [_Forwarding(source.fileno(), target) for source, target in ((process.stdout, 1), (process.stderr, 2))]
    threading.Thread(target=_feed, args=(process,), daemon=True).start()
    for output in outputs:
        output.start()
    code = _wait(process, stopped)
    for output in outputs:
        output.finish(process)
    return code


def _feed(process: JailProcess) -> None:
    """Forward our input, and its end."""
    assert process.stdin
    with suppress(OSError, ValueError):
        while piece := os.read(0, _PIECE):
            process.stdin.write(piece)
            process.stdin.flush()
    with suppress(OSError, ValueError):
        process.stdin.close()


# ---- a terminal


def _on_terminal(
    jail: Jail, argv: Sequence[str], started: Callable[[JailProcess], None], stopped: Callable[[], bool]
) -> int:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    _copy_size(ours)
    try:
        process = jail.start(argv, stdin=theirs, stdout=theirs, stderr=theirs, terminal=True)
    except BaseException:  # Ctrl-C, too: nobody else knows of this descriptor
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    started(process)
    output = _Forwarding(ours, 1, first=_CLEAR, answer=lambda answers: _offer(ours, answers))
    with _raw(), _resizes(ours):
        try:
            output.start()
            _type(ours, process, output.ended, stopped)
            return _wait(process, stopped)
        finally:
            if output.ident is None or output.finish(process):  # else it may still read, and the number is taken
                os.close(ours)


def _type(ours: int, process: JailProcess, ended: int, stopped: Callable[[], bool]) -> None:
    """Forward what is typed until the agent has closed its terminal or ended.

    Raises KeyboardInterrupt for Ctrl-C while the agent's terminal takes nothing more: nothing in there would see it.
    """
    left, listened = b"", [0, ended]
    while process.poll() is None:
        if stopped():
            process.kill()
            return
        readable = select.select(listened, [ours] if left else [], [], _LOOK_SECONDS)[0]
        if ended in readable:
            return
        if 0 in readable:
            typed = _read_typed()
            if not typed:
                listened.remove(0)
            left += typed
        left = left[_offer(ours, left) :]
        if _CTRL_C in left:
            process.kill()
            raise KeyboardInterrupt
        left = left[: limits.AGENT_TYPED_BYTES]


def settled(stopped: Callable[[], int]) -> bool:
    """Whether a person may be asked something on our terminal now: the agent's last output and the reset were written,
    and nobody has typed for SILENCE_SECONDS. What was typed is dropped; somebody who goes on is not waited for longer
    than TYPED_AHEAD_SECONDS.
    """
    if any(isinstance(thread, _Forwarding) for thread in threading.enumerate()):
        return False  # the terminal takes nothing more
    until = time.monotonic() + limits.TYPED_AHEAD_SECONDS
    before = termios.tcgetattr(0)
    tty.setcbreak(0)  # line by line, nothing would be seen before Enter; and what is typed is not shown
    try:
        while not stopped() and time.monotonic() < until:
            if not select.select([0], [], [], limits.SILENCE_SECONDS)[0]:
                return True
            if not _read_typed():
                break
        return False
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, before)


def _read_typed() -> bytes:
    """What was typed; empty at its end, also if the terminal has gone."""
    try:
        return os.read(0, _PIECE)
    except OSError:
        return b""


def _offer(ours: int, data: bytes) -> int:
    """Write to the agent's terminal what it takes without waiting; return how much that was."""
    try:
        return os.write(ours, data) if data else 0
    except BlockingIOError:
        return 0
    except OSError:  # nobody is on the other end
        return len(data)


@contextmanager
def _raw() -> Iterator[None]:
    """Our terminal in raw mode; restored and drained at the end."""
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcflush(0, termios.TCIFLUSH)
            termios.tcsetattr(0, termios.TCSANOW, before)


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
