"""The daemon's log: one line per fact, on stderr, with ids and without payload.

Invariant: a line names what happened, to which file or request, and for which reason; never a word of a request, an
input or a result. Names and reasons may contain foreign text, so anything that looks like a secret is masked in them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from threegate.approval.shown.escaped_lines import safe
from threegate.approval.shown.messages import say
from threegate.core.errors import is_disk_full
from threegate.core.secretscan.scan import mask_secrets

_TEXT_CHARS = 300
_READ_CHARS = 4096
_ERROR, _WARNING, _NOTICE, _INFORMATION = 3, 4, 5, 6
_PRIORITIES = {
    "stopped": _ERROR,
    "settings": _WARNING,
    "contracts": _WARNING,
    "fixed": _WARNING,
    "full": _WARNING,
    "watching": _WARNING,
    "notice": _WARNING,
    "grants": _WARNING,
    "alone": _WARNING,
    "metrics": _WARNING,
    "witness": _WARNING,
    "unreadable": _NOTICE,
    "waiting": _NOTICE,
    "recovered": _NOTICE,
    "orphan": _NOTICE,
    "interrupting": _NOTICE,
    "reloaded": _NOTICE,
}
"""syslog(3) priorities of events; all others are information."""


LineForm = Literal["auto", "text", "json", "none"]
"""How lines are written; auto: JSON when stderr is the journal, else text."""


class Log:
    """Writes lines for a person, or JSON lines for a journal."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, journal: bool = False) -> None:
        """`journal`: give each line its priority before it, as sd-daemon(3) says."""
        self._as_json = as_json
        self._quiet = quiet
        self._journal = journal
        self._about: dict[str, str] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, form: LineForm, environment: Mapping[str, str]) -> Log:
        """The requested log, or the one that fits the destination of stderr."""
        journal = _is_journal(environment.get("JOURNAL_STREAM", ""))
        as_json = form == "json" or (form == "auto" and journal)
        return cls(as_json=as_json, quiet=form == "none", journal=journal)

    def about(self, **ids: str) -> None:
        """Ids that every following JSON line includes: workspace and boot."""
        self._about = ids

    def say(self, event: str, **facts: str | int | None) -> None:
        """Write one line. Values are escaped and masked; never pass a request's content."""
        if self._quiet:
            return
        priority = _PRIORITIES.get(event, _INFORMATION)
        given = {name: _masked(value) for name, value in facts.items() if value is not None}
        if self._as_json:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            if "request" in given:
                given["request_id"] = given.pop("request")
            line = json.dumps(
                {"time": now, "priority": priority, "event": event, **given, **self._about}, ensure_ascii=True
            )
        else:
            shown = " ".join(f"{name}={safe(str(value))}" for name, value in given.items())
            line = f"{event:<12} {shown}"
        if self._journal:
            line = f"<{priority}>{line}"
        with self._lock:
            try:
                if self._as_json or self._journal:
                    sys.stderr.write(line + "\n")
                    sys.stderr.flush()
                else:
                    say(line, err=True)
            except (OSError, ValueError) as error:
                self._quiet = not is_disk_full(error)  # later lines may find space


def _is_journal(stream: str) -> bool:
    """Whether stderr is the journal's stream, by the device and inode that systemd sets."""
    try:
        facts = os.fstat(2)
    except OSError:
        return False
    return stream == f"{facts.st_dev}:{facts.st_ino}"


def _masked(value: str | int) -> str | int:
    if isinstance(value, int):
        return value
    # Masked before it is cut: half a secret is not recognised as one.
    return mask_secrets(value[:_READ_CHARS])[:_TEXT_CHARS]
