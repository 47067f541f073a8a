"""What the requests used that ran here: how often and when, by requester, host, program and folder of the inputs.

Invariant: a pure function of the events. Counted is only a run that succeeded, of a request that an operator signed by
itself: nothing that ran under a grant or was signed in a batch, and nothing that was refused, failed or was stopped. At
most PAST_USES counts are kept; what ran longest ago is forgotten first, and then `forgotten` is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from threegate.core import limits
from threegate.trail.event import trail_text
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved, Claimed, Finished

Kind = Literal["requester", "host", "url", "program", "folder"]
"""``host``: the request could reach it; ``url``: an address in its code, command or Inputs has it."""
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_TIME_CHARS: Final = len("2026-11-22T05:06:07.123Z")


class Ran(NamedTuple):
    """How often, and the times of the first and the last run's end, as the trail writes them."""

    runs: int
    first: str
    last: str

    def and_(self, other: Ran) -> Ran:
        """Both together."""
        return Ran(self.runs + other.runs, min(self.first, other.first), max(self.last, other.last))


class PastUses:
    """The counts. Values are as the trail has them: look them up by `by` and `by_all`, which take the text itself."""

    def __init__(self) -> None:
        self.runs = 0
        """How many runs were counted."""
        self.forgotten = False
        """Whether counts were dropped, so that a value may have run although nothing is known of it."""
        self._counts: dict[tuple[Kind, str], dict[str, Ran]] = {}
        """By requester, for each kind and value."""
        self._size = 0

    def take(self, history: RequestHistory, finished: Finished, time: str) -> None:
        """The end of a run, before its request's history has it."""
        approved, claimed = Approved.of(history.approved), Claimed.of(history.claimed)
        signed_alone = (
            approved is not None
            and claimed is not None
            and approved.approval_sha256 is not None
            and approved.approval_sha256 == claimed.approval_sha256
            and approved.batch_sha256 is None
            and approved.grant is None
            and claimed.grant is None
        )
        if not signed_alone or finished.status != "succeeded" or history.end is not None:
            return
        uses = approved.uses if approved is not None else None
        if uses is None or uses.requester is None:  # an earlier version approved it
            return
        self.runs += 1
        once = Ran(1, time, time)
        used: dict[Kind, tuple[str, ...]] = {
            "requester": (uses.requester,),
            "host": uses.hosts or (),
            "url": uses.urls or (),
            "program": (uses.program,) if uses.program else (),
            "folder": uses.folders or (),
        }
        for kind, values in used.items():
            for value in dict.fromkeys(values):
                self._count(kind, value, uses.requester, once)
        if self._size > limits.PAST_USES:
            self._forget()

    def _count(self, kind: Kind, value: str, requester: str, ran: Ran) -> None:
        by = self._counts.setdefault((kind, value), {})
        known = by.get(requester)
        self._size += known is None
        by[requester] = ran if known is None else known.and_(ran)

    def _forget(self) -> None:
        """Drop the tenth that ran longest ago."""
        rows = sorted(self._rows(), key=lambda row: row[3].last)
        self._counts, self._size, self.forgotten = {}, 0, True
        for row in rows[limits.PAST_USES // 10 :]:
            self._count(*row)

    def _rows(self) -> Iterator[tuple[Kind, str, str, Ran]]:
        for (kind, value), by in self._counts.items():
            for requester, ran in by.items():
                yield kind, value, requester, ran

    def by(self, requester: str, kind: Kind, value: str) -> Ran | None:
        """What of one requester ran with this value; None if nothing did, or nothing is known of it any more."""
        return self._counts.get((kind, trail_text(value)), {}).get(trail_text(requester))

    def by_all(self, kind: Kind, value: str) -> Ran | None:
        """The same of all requesters together."""
        return _together(self._counts.get((kind, trail_text(value)), {}))

    def hosts(self) -> Iterator[tuple[str, Ran]]:
        """Each host that a run could reach, as the trail has it."""
        for (kind, value), by in self._counts.items():
            ran = _together(by)
            if kind == "host" and ran is not None:
                yield value, ran

    def copy(self) -> PastUses:
        """The same as it is now; runs that end later do not change it."""
        uses = PastUses()
        uses.runs, uses.forgotten, uses._size = self.runs, self.forgotten, self._size
        uses._counts = {key: dict(by) for key, by in self._counts.items()}
        return uses

    def to_json(self) -> list[Any]:
        """All of it, for the index file."""
        return [self.runs, self.forgotten, [[*row[:3], *row[3]] for row in self._rows()]]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """What `to_json` gave. Raises ValueError for anything else: the index is then made again."""
        uses = cls()
        if not (type(value) is list and [type(part) for part in value] == [int, bool, list]):
            raise ValueError("not counts of runs")
        uses.runs, uses.forgotten, rows = value
        for row in rows:
            if not (type(row) is list and [type(part) for part in row] == [str, str, str, int, str, str]):
                raise ValueError("not a count of runs")
            kind, text, requester, count, first, last = row
            if kind not in _KINDS or count < 1 or not len(first) == len(last) == _TIME_CHARS:
                raise ValueError("not a count of runs")
            uses._count(kind, text, requester, Ran(count, first, last))
        return uses


def _together(by: Mapping[str, Ran]) -> Ran | None:
    found: Ran | None = None
    for ran in by.values():
        found = ran if found is None else found.and_(ran)
    return found
