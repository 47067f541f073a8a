"""What the daemon says while it works: one line a fact, on stderr, with ids and without payload."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime


class Log:
    """Writes lines for a person, or JSON lines for a journal."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._lock = threading.Lock()

    def say(self, event: str, **facts: str | int | None) -> None:
        """One line. Values are escaped; nothing of a request's content is ever given here."""
        if self._quiet:
            return
        if self._as_json:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"time": now, "event": event, **facts}, ensure_ascii=True)
        else:
            shown = " ".join(f"{name}={_plain(value)}" for name, value in facts.items() if value is not None)
            line = f"{event:<12} {shown}"
        with self._lock:
            try:
                sys.stderr.write(line + "\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                self._quiet = True


def _plain(value: str | int | None) -> str:
    text = str(value)[:300]
    return text if text.isascii() and text.isprintable() else ascii(text)
