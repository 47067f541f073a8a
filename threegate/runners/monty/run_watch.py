"""One thread that looks at all Monty runs of a runner, beat after beat.

Invariant: a run that was added is looked at every BEAT until it is removed, whatever becomes of the others; when
`remove` has returned nothing looks at it any more, so that its process may be given back.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

BEAT: Final = 0.02
"""Seconds between two looks."""


class Watched(Protocol):
    """What is looked at. `look` may be called at any time between `add` and `remove`, from the watch's thread."""

    def look(self) -> None: ...


class RunWatch:
    """The thread is there while something is watched, and waits without a beat while nothing is."""

    def __init__(self) -> None:
        self._runs: list[Watched] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, run: Watched) -> None:
        """Look at this one from now on."""
        with self._changed:
            self._runs.append(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="monty-watch", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, run: Watched) -> None:
        """Look at it no more; waits for a look that is being taken."""
        with self._changed:
            self._runs.remove(run)

    def close(self) -> None:
        """End the thread, unless something is still watched; the next `add` begins another."""
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
