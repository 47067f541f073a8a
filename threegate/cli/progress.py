"""What a person sees while something takes longer than a moment: one line on stderr that goes away again.

Invariant: nothing is written unless stderr is a terminal that can take a line back; a short act shows nothing, and what
the command prints is the same with and without.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_SECONDS = 1.0


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show `what` with the time that has passed, from the second second on until the block is left."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, done), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, done: threading.Event) -> None:
    if done.wait(_PATIENCE_SECONDS):
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        line.add_task(what, total=None)
        done.wait()
