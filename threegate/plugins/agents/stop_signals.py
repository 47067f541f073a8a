"""Whether a run was asked to stop, from the first import on.

Invariant: a first Ctrl-C is never lost. As an exception it could be, because C code that calls Python while
modules are loading (the import lock, a schema being built) may swallow it. So it is recorded here, and
checked where stopping is safe.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Whether a signal asked to stop: its number, or 0. A first Ctrl-C also asks; a second one interrupts."""
    asked = [0]

    def ask(number: int, frame: object) -> None:
        if asked[0] and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked[0] = number

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield lambda: asked[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
