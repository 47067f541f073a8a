"""inotify as a hint: something may have changed, check again.

Invariant: nothing depends on a hint. A lost event, a queue overflow or a platform without inotify only makes
the daemon wait for its next regular turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


class FolderWatch:
    """Sets `wake` whenever a name in one of the folders changes."""

    def __init__(self, folders: Iterable[Path], wake: threading.Event) -> None:
        self._wake = wake
        self._observer: Any = None
        self._hint: Any = None
        self._followed: dict[Path, Any] = {}
        self.problem: str | None = None
        """Why there are no hints, or None."""
        try:
            self._start(folders)
        except (OSError, ImportError, RuntimeError) as error:
            self.problem = f"no file system hints ({error}); checking once a second"

    def follow(self, folders: set[Path]) -> None:
        """Watch exactly these besides the first ones; one that cannot be watched gives no hints."""
        if self._observer is None or folders == self._followed.keys():
            return
        for gone in self._followed.keys() - folders:
            self._observer.unschedule(self._followed.pop(gone))
        for new in folders - self._followed.keys():
            with suppress(OSError):
                self._followed[new] = self._observer.schedule(self._hint, str(new), event_filter=self._changes)

    def _start(self, folders: Iterable[Path]) -> None:
        from watchdog import events
        from watchdog.observers import Observer

        library = logging.getLogger("watchdog")  # would print to the terminal for a hint that arrives after the end
        library.addHandler(logging.NullHandler())
        library.propagate = False
        wake = self._wake

        class Hint(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                wake.set()

        # Read-only access is not a hint. The kernel filters it out: our own reading would wake the watching
        # threads.
        self._changes = [
            events.FileCreatedEvent,
            events.FileModifiedEvent,
            events.FileClosedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
        ]
        observer = Observer()
        self._hint = Hint()
        for folder in folders:
            observer.schedule(self._hint, str(folder), event_filter=self._changes)
        # The process may end while it blocks in the kernel.
        observer.daemon = True
        observer.start()
        self._observer = observer

    def close(self) -> None:
        """Stop watching."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=2)
