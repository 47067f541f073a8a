"""A progress line on stderr for work that takes more than a second; it is erased at the end.

Invariant: nothing is written unless stderr is a terminal that can erase a line, and a command prints the same
with and without it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_END_SECONDS = 1.0


@contextmanager
def busy(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show `what` with the elapsed time, from the second second until the block is left.

    The block may report its progress: how many are done, and out of how many, or 0 where that is not known.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda done, of: None
        return
    text = [what]

    def tell(done: int, of: int) -> None:
        text[0] = f"{what}: {done} of {of}" if of else f"{what}: {done}"

    done = threading.Event()
    thread = threading.Thread(target=_show, args=(text, done), name="progress", daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        done.set()
        thread.join(_END_SECONDS)  # a stopped terminal takes nothing more: nobody waits for it


def _show(text: list[str], done: threading.Event) -> None:
    if done.wait(_PATIENCE_SECONDS):
        return
    # late: only work that takes long on a terminal needs it
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(text[0], total=None)
        while not done.wait(_LOOK_SECONDS):
            line.update(task, description=text[0])
