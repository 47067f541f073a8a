"""How much of the trail the files of one owner may fill.

Invariant: within a minute no owner's files cause more events than the limit; the rest is counted and reported
once, so that a flood is visible and cannot hide anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from threegate.core import limits
from threegate.trail.payloads.payload import Owner


@dataclass
class EventBudget:
    """How many events an owner's files may cause per minute; the rest is counted and reported once."""

    _minute: int = 0
    _used: dict[Owner, int] = field(default_factory=dict)

    def has_room(self, owner: Owner) -> bool:
        """Whether `take` would return True."""
        same = int(time.monotonic() // 60) == self._minute
        return not same or self._used.get(owner, 0) < limits.TRAIL_EVENTS_PER_OWNER_MINUTE

    def take(self, owner: Owner) -> bool:
        """Whether one more event for this owner may be written now."""
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._used = minute, {}
        self._used[owner] = self._used.get(owner, 0) + 1
        return self._used[owner] <= limits.TRAIL_EVENTS_PER_OWNER_MINUTE

    def suppressed(self) -> dict[Owner, int]:
        """By owner, how many events of the past minute were not written; each reported once."""
        if not self._used or int(time.monotonic() // 60) == self._minute:
            return {}
        over = {
            owner: used - limits.TRAIL_EVENTS_PER_OWNER_MINUTE
            for owner, used in self._used.items()
            if used > limits.TRAIL_EVENTS_PER_OWNER_MINUTE
        }
        self._used = {}
        return over
