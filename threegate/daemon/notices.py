"""Notices: the operator hears that a draft waits, the requester that a request has ended ([notify] extra).

Invariant: a notice carries file names, ids and states only, never a word of a request or a result; sending happens beside
the daemon's work, and a notice that cannot be sent stops nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from threegate.core.settings import NotifySettings
from threegate.daemon.log import Log

_WAITING = 256
"""Notices that may wait to be sent; what comes beyond is counted and said in the log."""


class Notices:
    """Sends notices in a thread of its own. Without URLs in the settings it does nothing and imports nothing."""

    def __init__(self, settings: NotifySettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._queue: queue.Queue[tuple[tuple[str, ...], str, str] | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        if settings.urls or settings.requester_hook:
            self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
            self._thread.start()

    def draft_waits(self, file_name: str) -> None:
        """A valid draft waits for an operator."""
        self._put(self._settings.urls, "A request waits for approval", f"{file_name}: threegate review")

    def ended(self, request_id: str, status: str) -> None:
        """A request came to its end."""
        hook = self._settings.requester_hook
        self._put((hook,) if hook else (), "A request has ended", f"{request_id}: {status}")

    def close(self, seconds: float = 5.0) -> None:
        """Send what waits, for a short while, and end."""
        if self._thread is not None:
            try:
                self._queue.put(None, timeout=seconds)
            except queue.Full:
                return
            self._thread.join(seconds)

    def _put(self, urls: Sequence[str], title: str, body: str) -> None:
        if self._thread is None or not urls:
            return
        try:
            self._queue.put_nowait((tuple(urls), title, body))
        except queue.Full:
            self._log.say("notice", what="too many notices wait; one was dropped")

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            urls, title, body = item
            problem = send(urls, title, body)
            if problem is not None:
                self._log.say("notice", what=problem)


def send(urls: Sequence[str], title: str, body: str) -> str | None:
    """Send one notice; returns one line when it could not be sent. The URLs may hold secrets and are never said."""
    try:
        import apprise
    except ImportError:
        return "apprise is not installed: pip install 'threegate[notify]'"
    targets = apprise.Apprise()
    for url in urls:
        if not targets.add(url):
            return "a URL of the notify settings is none that apprise knows"
    try:
        done = targets.notify(title=title, body=body)
    except (OSError, ValueError, TypeError) as error:
        return f"a notice could not be sent ({type(error).__name__})"
    return None if done else "a notice could not be sent"
