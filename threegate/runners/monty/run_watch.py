"""One thread that checks all Monty runs of a runner at a fixed interval.

Invariant: an added run is checked every BEAT until it is removed, whatever happens to the others; when
`remove` has returned, it is no longer checked, so that its process may be reused.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

BEAT: Final = 0.02
"""Seconds between two checks."""


class Watched(Protocol):
    """What is checked. `look` may be called at any time between `add` and `remove`, from the watch's
    thread.
    """

    def look(self) -> None: ...


class RunWatch:
    """The thread exists while something is watched, and blocks while nothing is."""

    def __init__(self) -> None:
        self._runs: list[Watched] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, run: Watched) -> None:
        """Check this one from now on."""
        with self._changed:
            self._runs.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="monty-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, run: Watched) -> None:
        """Stop checking it; waits for a check in progress."""
        with self._changed:
            self._runs.remove(run)

    def close(self) -> None:
        """Stop the thread, unless something is still watched; the next `add` starts another."""
        with self._changed:
            if not self._runs:
                self._thread = None
                self._changed.notify()

    def _work(self) -> None:
        own = threading.current_thread()
        while True:
            with self._changed:
                while not self._runs and self._thread is own:
                    self._changed.wait()
                if self._thread is not own:
                    return
                for run in self._runs:
                    try:
                        run.look()
                    except Exception:  # noqa: BLE001, S112 - the others must be looked at, and this one again at the next beat
                        continue
            time.sleep(BEAT)
