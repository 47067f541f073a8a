"""Undecided drafts are refused after `approval.draft_ttl`.

Invariant: old drafts are found by their file's change time; whether one is refused is decided under the
trail's lock, where it is known whether an approval of the same draft was recorded (`acts/reject.py`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from pathlib import Path

from threegate.acts.reject import expire_draft
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.daemon.log import Log
from threegate.launch.context import Context
from threegate.review.reviewed_draft import expiry, read_draft


class DraftExpiry:
    """Checks the drafts now and then, and refuses a few in each turn."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._looked = -inf
        self._kept: dict[Path, int] = {}
        """Old drafts that cannot be decided on, by their change time: not read again until they change."""

    def turn(self, context: Context) -> int:
        """Refuse expired drafts, at most DRAFTS_EXPIRED of them; return how many. Raises TrailError,
        Unavailable, OSError.
        """
        ttl, now = context.policy.settings.approval.draft_ttl, time.monotonic()
        if not ttl or now - self._looked < limits.DRAFTS_LOOK_SECONDS:
            return 0
        drafts: dict[Path, int] = {}
        with suppress(OSError):  # a folder that cannot be read, which the inbox scan reports
            # Only the change time here; `expire_draft` decides, under the trail's lock.
            for path in context.workspace.draft_paths():
                with suppress(FileNotFoundError):  # it was decided on just now
                    drafts[path] = path.lstat().st_ctime_ns
        moment = time.time()
        due = [
            (path, changed)
            for path, changed in drafts.items()
            if self._kept.get(path) != changed and expiry(changed, ttl).timestamp() <= moment
        ]
        self._kept = {path: changed for path, changed in self._kept.items() if path in drafts}
        refused = 0
        for path, changed in due[: limits.DRAFTS_EXPIRED]:
            try:
                done = expire_draft(context, read_draft(context.workspace, path))
            except InvalidInput:
                done = None  # it is gone or cannot be read: the inbox scan reports that
            if done is None:
                self._kept[path] = changed
            else:
                refused += 1
                self._log.say("expired", file=path.name, what="not decided in time")
        if len(due) <= limits.DRAFTS_EXPIRED:
            self._looked = now
        return refused
