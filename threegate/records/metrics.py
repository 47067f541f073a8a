"""What is counted: the numbers that the trail and the decision log fold into.

Invariant: a label is a rule id, a code, a status or a word of ours, never text from outside; what does not look like one,
and what would be too many of them, is counted as `other`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from threegate.aana.vocabulary import ROUTES
from threegate.core import limits
from threegate.trail import Event
from threegate.trail.event import parse_time

RUN_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0)
WAIT_SECONDS: Final = (1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0, 259200.0)
_RULE = re.compile(r"[A-Z]{2,4}[0-9]{2,4}")
_CODE = re.compile(r"[a-z][a-z_]{0,40}")
_SURFACES = ("api", "guard", "cli", "http", "mcp", "daemon")
_BACKENDS = ("monty", "ERA")
_ENDS = ("finished", "interrupted", "cancelled")
OTHER: Final = "other"


@dataclass
class Histogram:
    """How many values were at most each bound, the sum, and how many there were."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    """One for each bound, not cumulated, and one for what is beyond the last."""
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one value (seconds); a clock that went back counts as nothing."""
        value = max(0.0, value)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


@dataclass
class Counts:
    """Everything that the trail and the decision log say in numbers. Grows only."""

    events: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By surface and route."""
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By backend and status."""
    run_seconds: dict[str, Histogram] = field(
        default_factory=lambda: {name: Histogram(RUN_SECONDS) for name in (*_BACKENDS, OTHER)}
    )
    approval_seconds: Histogram = field(default_factory=lambda: Histogram(WAIT_SECONDS))
    """From the first valid verdict to the approval: how long people take."""
    queue_seconds: Histogram = field(default_factory=lambda: Histogram(WAIT_SECONDS))
    """From the approval to the claim."""
    seq: int = 0
    last_event: datetime | None = None
    last_trail_checkpoint: int = 0
    workspace_id: str = ""
    _open: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    def add(self, event: Event) -> None:
        """Take the next event of the trail."""
        kind, data = event.type, event.data
        self.seq = event.seq
        self.events[kind] += 1
        if event.seq == 1:
            self.workspace_id = event.prev
        self.last_event = moment = parse_time(event.time)
        if kind in ("checkpoint", "rotated") and type(data.get("size")) is int:
            self.last_trail_checkpoint = data["size"]
        if kind == "validated":
            self.verdicts["valid" if data.get("valid") is True else "invalid"] += 1
            for rule in data.get("rules") or ():
                self.rules[_label(rule, _RULE, self.rules)] += 1
        elif kind == "waiting":
            self.waits[_label(data.get("reason"), _CODE, self.waits)] += 1
        elif kind == "refused":
            self.refusals[_label(data.get("reason"), _CODE, self.refusals)] += 1
        if event.request_id is not None:
            self._of_request(event.request_id, kind, data, moment)

    def _of_request(self, request_id: str, kind: str, data: Any, moment: datetime) -> None:
        known = self._open.setdefault(request_id, {})
        if kind == "validated" and data.get("valid") is True:
            known.setdefault("valid", moment)
        elif kind == "approved":
            if "valid" in known:
                self.approval_seconds.add((moment - known["valid"]).total_seconds())
            known["approved"] = moment
        elif kind == "claimed" and "approved" in known:
            self.queue_seconds.add((moment - known["approved"]).total_seconds())
        elif kind == "started":
            known["backend"] = _one_of(data.get("backend"), _BACKENDS)
        elif kind in _ENDS and "backend" in known:
            backend = known["backend"]
            status = _label(data.get("status") or kind, _CODE, self.runs)
            self.runs[backend, status] += 1
            if type(wall := data.get("wall_ms")) is int:
                self.run_seconds[backend].add(wall / 1000)
        if kind in (*_ENDS, "refused", "rejected"):
            del self._open[request_id]
        elif len(self._open) > limits.METRICS_OPEN_REQUESTS:
            self._open.popitem(last=False)

    def decided(self, line: bytes) -> None:
        """Take a line of the decision log; one that is none counts as `other`."""
        try:
            value = json.loads(line)
            surface, route = value["surface"], value["route"]
        except (ValueError, KeyError, TypeError, RecursionError):
            surface = route = None
        self.decisions[_one_of(surface, _SURFACES), _one_of(route, ROUTES)] += 1


@dataclass(frozen=True, slots=True)
class Picture:
    """The numbers of one moment."""

    counts: Counts
    requests: dict[str, int]
    """Files in each folder that is a state."""
    oldest_seconds: dict[str, float]
    """Age of the oldest of those that wait or run."""
    trail_kept_seq: int | None
    """Number of the last event whose hash is kept outside of the workspace."""
    daemon_runs: bool


def _label(value: object, form: re.Pattern[str], known: Counter[Any]) -> str:
    """A code as a label: one of the right form, as long as there are not too many."""
    if not isinstance(value, str) or not form.fullmatch(value):
        return OTHER
    return value if value in known or len(known) < limits.METRICS_LABELS else OTHER


def _one_of(value: object, words: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in words else OTHER
