"""Records of practice: how the operators decided, derived only from the trail.

This works on the stream of events: memory grows with what is waiting or being stopped, and with
PRACTICE_DECISIONS reasons, not with the trail. Nothing is guessed: a decision of an earlier version has no
reading time.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from threegate.core import limits
from threegate.trail.event import Event, format_time
from threegate.trail.payloads import (
    Approved,
    Cancelled,
    CancelRequested,
    Countersigned,
    Covering,
    CoveringEnded,
    Finished,
    Rejected,
    SessionKilled,
)


@dataclass(slots=True)
class OperatorPractice:
    """What one operator decided. `seconds` are those of decisions whose reading was measured, the newest ones."""

    approved: int = 0
    rejected: int = 0
    sent_back: int = 0
    """Drafts for which changes were asked."""
    taken_in_part: int = 0
    """Drafts of which a part took the place."""
    countersigned: int = 0
    grouped: int = 0
    """Of the approved ones: by a decision on a group, which is read once."""
    unasked: int = 0
    """Approvals with ``--yes``: there was no prompt."""
    measured: int = 0
    whole: int = 0
    """Of the measured ones: every line was on the screen."""
    seconds: list[int] = field(default_factory=list)

    def read(self, seconds: int | None, whole: bool | None) -> None:
        """One decision's reading, if it was measured."""
        if seconds is None:
            return
        self.measured += 1
        self.whole += bool(whole)
        self.seconds.append(seconds)
        del self.seconds[: -limits.PRACTICE_DECISIONS]

    def to_json(self) -> dict[str, Any]:
        """Counts, the median of the seconds and the share read whole (null: never measured)."""
        return {
            "approved": self.approved,
            "approved_in_groups": self.grouped,
            "rejected": self.rejected,
            "changes_requested": self.sent_back,
            "taken_in_part": self.taken_in_part,
            "countersigned": self.countersigned,
            "not_asked": self.unasked,
            "measured": self.measured,
            "median_seconds": statistics.median(self.seconds) if self.seconds else None,
            "share_read_whole": round(self.whole / self.measured, 3) if self.measured else None,
        }


@dataclass(slots=True)
class DrillPractice:
    """How drills went: drafts that must not be approved."""

    on: bool = False
    since: str = ""
    """When they were switched on or off last; empty: never."""
    by: str = ""
    caught: int = 0
    missed: int = 0
    undecided: int = 0
    """Expired, withdrawn or lost."""
    seconds: list[int] = field(default_factory=list)
    """From shown to decided, the newest ones."""
    missed_kinds: Counter[str] = field(default_factory=Counter)
    by_operator: dict[str, list[int]] = field(default_factory=dict)
    """Caught and missed of each."""

    def take(self, name: str, outcome: str | None, planted: str | None, read_seconds: int | None) -> None:
        """One that is over: who decided, how, what was planted, and from shown to decided."""
        if outcome not in ("caught", "missed"):
            self.undecided += 1
            return
        missed = outcome == "missed"
        self.caught += not missed
        self.missed += missed
        self.by_operator.setdefault(name, [0, 0])[missed] += 1
        if missed and planted:
            self.missed_kinds[planted] += 1
        if read_seconds is not None:
            self.seconds.append(read_seconds)
            del self.seconds[: -limits.PRACTICE_DECISIONS]

    def to_json(self) -> dict[str, Any]:
        """Counts, the share that was caught and the median of the seconds (null: none yet), and what was missed."""
        decided = self.caught + self.missed
        return {
            "caught": self.caught,
            "missed": self.missed,
            "undecided": self.undecided,
            "catch_rate": round(self.caught / decided, 3) if decided else None,
            "median_seconds": statistics.median(self.seconds) if self.seconds else None,
            "missed_kinds": dict(self.missed_kinds.most_common()),
            "operators": {
                name: {"caught": caught, "missed": missed}
                for name, (caught, missed) in sorted(self.by_operator.items())
            },
        }

    def lines(self) -> list[tuple[str, str]]:
        """Label and value of each line; none before the first drill is over."""
        decided = self.caught + self.missed
        lines = []
        if decided:
            time = f"; {statistics.median(self.seconds):g} s (median)" if self.seconds else ""
            rate = f"{self.caught} of {decided} caught ({self.caught / decided:.0%}){time}"
            lines.append(("drills", rate))
        lines += [
            (f"drills of {name}", f"{caught} caught, {missed} missed")
            for name, (caught, missed) in sorted(self.by_operator.items())
        ]
        lines += [("missed in a drill", f"{kind} ({count})") for kind, count in self.missed_kinds.most_common()]
        if self.undecided:
            lines.append(("drills left", f"{self.undecided} ended without a decision"))
        return lines


@dataclass(slots=True)
class GrantPractice:
    """A standing grant: who gave it, how often it may be used, and what ran under it."""

    given_by: str
    max_uses: int | None
    revoked: bool = False
    approved: int = 0

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "given_by": self.given_by,
            "max_uses": self.max_uses,
            "revoked": self.revoked,
            "approved_under_it": self.approved,
        }


@dataclass(slots=True)
class Practice:
    """The records of a time. `take` wants the events in order."""

    first: str = ""
    """Events before this time are not counted."""
    operators: dict[str, OperatorPractice] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    """Reasons of rejections, in the operators' own words."""
    drills: DrillPractice = field(default_factory=DrillPractice)
    expired: int = 0
    """Drafts that were not decided on in time."""
    grants: dict[str, GrantPractice] = field(default_factory=dict)
    stops: Counter[str] = field(default_factory=Counter)
    """How often something was stopped: ``cancelled``, and for kills the scope."""
    stop_seconds: list[float] = field(default_factory=list)
    """Durations from the order to cancel a run until it ended, newest first."""
    too_late: int = 0
    """Orders to cancel a run that had already ended by itself."""
    _stopping: dict[str, datetime] = field(default_factory=dict)
    _word: str | None = None
    """Nonce of the last countersignature."""

    def take(self, event: Event) -> None:
        """The next event."""
        payload = event.payload
        payload.tally(self, event)
        match payload:
            case Covering():
                self.grants[payload.grant or ""] = GrantPractice(_operator(event), payload.max_uses)
            case CoveringEnded() if payload.grant in self.grants:
                self.grants[payload.grant].revoked = True
            case CancelRequested() if event.request_id is not None:
                self._stopping.setdefault(event.request_id, event.when)
        if event.time < self.first:
            return
        match payload:
            case Approved() if payload.grant is not None:
                if payload.grant in self.grants:
                    self.grants[payload.grant].approved += 1
            case Approved():
                who = self._of(payload.approved_by or _operator(event))
                who.approved += 1
                who.grouped += payload.batch_sha256 is not None
                who.unasked += payload.asked is False
                if not payload.batch_index:
                    who.read(payload.read_seconds, payload.read_whole)
            case Countersigned():
                who = self._of(payload.countersigned_by or _operator(event))
                who.countersigned += 1
                if payload.nonce is None or payload.nonce != self._word:  # one signature may cover several
                    who.read(payload.read_seconds, payload.read_whole)
                self._word = payload.nonce
            case Rejected() if event.actor == "daemon":
                self.expired += 1
            case Rejected():
                who = self._of(_operator(event))
                who.read(payload.read_seconds, payload.read_whole)
                who.sent_back += payload.reason == "changes_requested"
                who.taken_in_part += payload.reason == "superseded"
                plain = payload.reason not in ("changes_requested", "superseded")
                who.rejected += plain
                if (
                    plain
                    and payload.message
                    and (payload.message in self.reasons or len(self.reasons) < limits.PRACTICE_DECISIONS)
                ):
                    self.reasons[payload.message] += 1
            case Cancelled():
                self.stops["cancelled"] += 1
                if (asked := self._stopping.pop(event.request_id or "", None)) is not None:
                    self.stop_seconds.append((event.when - asked).total_seconds())
                    del self.stop_seconds[: -limits.PRACTICE_DECISIONS]
            case Finished():
                self.too_late += self._stopping.pop(event.request_id or "", None) is not None
            case SessionKilled() if payload.scope != "close":
                self.stops[f"killed {payload.scope or 'session'}"] += 1

    def _of(self, name: str) -> OperatorPractice:
        return self.operators.setdefault(name, OperatorPractice())

    def to_json(self) -> dict[str, Any]:
        """All records, names sorted."""
        return {
            "since": self.first or None,
            "operators": {name: found.to_json() for name, found in sorted(self.operators.items())},
            "rejection_reasons": dict(self.reasons.most_common()),
            "drafts_expired": self.expired,
            "drills": self.drills.to_json(),
            "grants": {name: found.to_json() for name, found in sorted(self.grants.items())},
            "stops": dict(sorted(self.stops.items())),
            "stop_seconds": {
                "median": statistics.median(self.stop_seconds) if self.stop_seconds else None,
                "longest": max(self.stop_seconds, default=None),
            },
            "cancelled_too_late": self.too_late,
        }


def practice_of(events: Iterable[Event], *, since: datetime | None = None) -> Practice:
    """The records of events that the caller reads in order."""
    practice = Practice(format_time(since) if since else "")
    for event in events:
        practice.take(event)
    return practice


def practice_lines(practice: Practice) -> list[tuple[str, str]]:
    """Label and value, for a terminal and for the report's page."""
    lines: list[tuple[str, str]] = []
    for name, found in sorted(practice.operators.items()):
        groups = f" ({found.grouped} in groups)" if found.grouped else ""
        told = [f"{found.approved} approved{groups}, {found.rejected} rejected, {found.countersigned} countersigned"]
        more = (("sent back for changes", found.sent_back), ("taken in part", found.taken_in_part))
        told[0] += "".join(f", {count} {what}" for what, count in more if count)
        if found.measured:
            told.append(
                f"{statistics.median(found.seconds):g} s from shown to decided (median), "
                f"{found.whole} of {found.measured} read whole"
            )
        if found.unasked:
            told.append(f"{found.unasked} without being asked (--yes)")
        lines.append((f"decisions of {name}", "; ".join(told)))
    for text, count in practice.reasons.most_common(limits.PRACTICE_REASONS):
        lines.append(("rejected because", f"{text} ({count})"))
    if practice.expired:
        lines.append(("decided by nobody", f"{practice.expired} drafts, refused after approval.draft_ttl"))
    lines += practice.drills.lines()
    for name, grant in sorted(practice.grants.items()):
        ended = ", revoked" if grant.revoked else ""
        told_of = f"of {grant.given_by}{ended}: {grant.approved} approved under it, at most {grant.max_uses}"
        lines.append((f"grant {name[:12]}", told_of))
    for what, count in sorted(practice.stops.items()):
        lines.append(("stops", f"{count} {what}"))
    if practice.stop_seconds:
        lines.append(
            (
                "time to stop",
                f"{statistics.median(practice.stop_seconds):.1f} s (median), {max(practice.stop_seconds):.1f} s "
                "(longest) from the order to the end of the run",
            )
        )
    if practice.too_late:
        lines.append(("stopped too late", f"{practice.too_late} runs had ended by themselves"))
    return lines


def _operator(event: Event) -> str:
    return event.actor.removeprefix("operator:")
