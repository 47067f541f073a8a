"""Signals as calls in a separate thread: a handler that takes a lock could wait for the very thread it
interrupted.

Invariant: between the arrival of a signal and the call, no lock of this process is taken; the interpreter
writes one byte.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

_END = b"\0"


@contextmanager
def signals_to(react: Callable[[signal.Signals], None], numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """While the block lasts, call `react` for each of these signals that arrives. Only from the main thread."""
    numbers = frozenset(numbers)
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)

    def work() -> None:
        while (byte := os.read(reading, 1)) not in (b"", _END):
            if (number := byte[0]) in numbers:
                react(signal.Signals(number))

    thread = threading.Thread(target=work, name="signals", daemon=True)
    former = {number: signal.signal(number, _nothing) for number in numbers}
    waking = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in former.items():
            signal.signal(number, handler)
        os.set_blocking(writing, True)
        os.write(writing, _END)
        thread.join()
        os.close(reading)
        os.close(writing)


def _nothing(_number: int, _frame: object) -> None:
    """Called by the interpreter; only the byte in the pipe matters."""
