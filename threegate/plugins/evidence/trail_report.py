"""`threegate audit report`: the page's data, gathered from the verified trail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from threegate.audit.audit_verify import verify_workspace
from threegate.audit.practice import Practice, practice_lines
from threegate.core import durable, limits
from threegate.core.errors import TrailError
from threegate.core.workspace import Workspace
from threegate.plugins.evidence.report_page import GROUPS, render_page
from threegate.trail.event import Event, format_time
from threegate.trail.payloads import (
    Approved,
    Claimed,
    Cleared,
    End,
    Finished,
    Interrupted,
    Started,
    Waiting,
    under_grant,
)
from threegate.trail.story import readable
from threegate.trail.trail import Trail

_MOST_BARS = 62
_PROBLEMS_SHOWN = 20


@dataclass(slots=True)
class _Told:
    """One request as shown on the page."""

    id: str
    when: str
    state: str = "draft"
    group: str = "open"
    story: list[tuple[int, str, str, str]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        payload = event.payload
        self.story.append((event.seq, event.time, event.actor, readable(payload.sentence())))
        if isinstance(payload, (Approved, Waiting, Claimed, Started)) and self.group == "open":
            self.state = event.type
        match payload:
            case Finished():
                self.state = payload.result_status
                self.group = "succeeded" if self.state == "succeeded" else "failed"
                self._fact("Duration", f"{payload.wall_ms} ms" if payload.wall_ms is not None else "")
                self._fact("Exit code", payload.exit_code)
                self._fact("Image", payload.image)
                self.outputs = dict(payload.outputs or {})
            case End():
                self.state = event.type
                self.group = "failed" if isinstance(payload, Interrupted) else "refused"
                self._fact("Reason", payload.reason or payload.message)
            case Approved():
                self._fact("Approved by", payload.approved_by)
                if payload.grant is not None:
                    self._fact("Approved", under_grant(payload.grant, payload.approved_by))
                self._fact("Request sha256", payload.request_sha256)
                self._fact("Approval sha256", payload.approval_sha256)
                self._fact("In the batch", payload.batch_sha256)
                self._fact("Policy sha256", payload.policy_sha256)
            case Cleared():
                self._fact("AANA route", payload.route)
            case Started():
                self._fact("Backend", payload.backend)

    def _fact(self, name: str, value: object) -> None:
        if value not in (None, ""):
            self.facts[name] = str(value)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "when": self.when,
            "state": self.state,
            "group": self.group,
            "story": self.story,
            "facts": list(self.facts.items()),
            "outputs": sorted(self.outputs.items()),
        }


@dataclass(slots=True)
class _Gathered:
    """Takes the events in order. Whole stories are kept of the newest requests only, of the others day and outcome.

    Memory: about 6 KB for each of `limits.REPORT_REQUESTS` requests, and 60 bytes for each one that there ever was.
    """

    first: str
    """Requests whose first event is older are left out."""
    events: int = 0
    _told: dict[str, _Told] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)
    """Keyed hashes of all ids (Python's own): a late event of an old request begins no new one."""
    _open: dict[str, _Told] = field(default_factory=dict)
    """Requests that left the list and have not ended."""
    _counted: Counter[tuple[str, str]] = field(default_factory=Counter)

    def take(self, event: Event) -> None:
        """The next event."""
        self.events += 1
        request_id = event.request_id
        if request_id is None:
            return
        item = self._told.get(request_id)
        if item is not None:
            item.take(event)
        elif (late := self._open.get(request_id)) is not None:
            late.take(event)
            late.story.clear()
            if late.group != "open":
                self._count(self._open.pop(request_id))
        elif (mark := hash(request_id)) not in self._seen:
            self._seen.add(mark)
            if event.time >= self.first:
                self._told[request_id] = item = _Told(request_id, event.time)
                item.take(event)
                self._shorten()

    def _shorten(self) -> None:
        if len(self._told) <= limits.REPORT_REQUESTS:
            return
        oldest = self._told.pop(next(iter(self._told)))
        if oldest.group == "open":
            oldest.story.clear()
            self._open[oldest.id] = oldest
        else:
            self._count(oldest)

    def _count(self, item: _Told) -> None:
        self._counted[item.when[:10], item.group] += 1

    def newest_first(self) -> list[_Told]:
        """The requests that are listed."""
        return sorted(self._told.values(), key=lambda item: item.when, reverse=True)

    def counts(self) -> Counter[tuple[str, str]]:
        """How many requests began on each day, by outcome."""
        items = (*self._told.values(), *self._open.values())
        return self._counted + Counter((item.when[:10], item.group) for item in items)


def write_report(workspace: Workspace, out: Path, *, since: datetime | None = None) -> int:
    """Write the page; return how many requests it shows. Raises OSError."""
    result = verify_workspace(workspace)
    problems = [str(item) for item in result.problems[:_PROBLEMS_SHOWN]]
    if result.problem_count > len(problems):
        problems.append(f"and {result.problem_count - len(problems)} more")
    gathered = _Gathered(format_time(since) if since else "")
    practice = Practice(gathered.first)
    try:
        for event in Trail(workspace).events():
            gathered.take(event)
            practice.take(event)
    except TrailError as error:
        problems.append(f"this covers the trail up to the first line that does not verify: {error}")
    requests, counts = gathered.newest_first(), gathered.counts()
    total = sum(counts.values())
    groups = {key: sum(number for (_, group), number in counts.items() if group == key) for key, _ in GROUPS}
    verdict = (
        (
            f"The trail verifies: {result.lines} events, {result.checkpoints} signed trail checkpoints, head "
            f"{result.head[:16]}"
        )
        if result.ok
        else f"THE TRAIL DOES NOT VERIFY: {result.problem_count} problems"
    )
    page = render_page(
        title=f"ThreeGate report: {workspace.root.name}",
        made=f"{workspace.root} · {result.workspace_id} · made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        verdict=verdict,
        problems=problems,
        tiles=[
            ("Requests", str(total)),
            *((name, str(groups[key])) for key, name in GROUPS),
            ("Events", str(gathered.events)),
        ],
        days=day_bars(counts),
        practice=practice_lines(practice),
        requests=[item.to_json() for item in requests],
        note=""
        if total == len(requests)
        else f"The newest {len(requests)} of {total} requests are listed; numbers and chart count all of them. "
        "An older one is shown by: threegate audit show --request ID",
    )
    durable.overwrite(out.absolute(), page.encode())
    return total


def day_bars(counted: Mapping[tuple[str, str], int]) -> list[tuple[str, Mapping[str, int]]]:
    """Counts by day and group, without gaps; by week or more where there are too many days for bars."""
    if not counted:
        return []
    first, last = (date.fromisoformat(pick(day for day, _ in counted)) for pick in (min, max))
    span = (last - first).days + 1
    width = max(1, -(-span // _MOST_BARS))
    if width > 1:
        width = -(-width // 7) * 7
    bars: list[tuple[str, dict[str, int]]] = [
        ((first + timedelta(days=start)).strftime("%m-%d" if span < 300 else "%Y-%m-%d"), {})
        for start in range(0, span, width)
    ]
    for (day, group), number in counted.items():
        counts = bars[(date.fromisoformat(day) - first).days // width][1]
        counts[group] = counts.get(group, 0) + number
    return [(label, counts) for label, counts in bars]
