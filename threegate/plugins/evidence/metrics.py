"""What is counted: the numbers derived from the trail and the decision log.

Invariant: a label is a rule id, a code, a status or a word of ours, never text from outside; anything else,
and labels beyond the limit, are counted as `other`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from threegate.aana.decision_log import VERDICT_TYPES
from threegate.aana.vocabulary import ROUTES
from threegate.core import limits
from threegate.request.backend import BACKENDS
from threegate.trail.event import Event, parse_time
from threegate.trail.payloads import (
    Approved,
    Cancelled,
    Claimed,
    End,
    Finished,
    Interrupted,
    Payload,
    Refused,
    Started,
    TreeAnnounced,
    Validated,
    Waiting,
)

RUN_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0)
WAIT_SECONDS: Final = (1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0, 259200.0)
_RULE = re.compile(r"[A-Z]{2,4}[0-9]{2,4}")
_CODE = re.compile(r"[a-z][a-z_]{0,40}")
_SURFACES = ("api", "guard", "cli", "http", "mcp", "daemon")
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
class TrailCounts:
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
        default_factory=lambda: {name: Histogram(RUN_SECONDS) for name in (*BACKENDS, OTHER)}
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
        payload = event.payload
        self.seq = event.seq
        self.events[event.type] += 1
        if event.seq == 1:
            self.workspace_id = event.prev
        self.last_event = moment = parse_time(event.time)
        match payload:
            case TreeAnnounced(size=int(size)):
                self.last_trail_checkpoint = size
            case Validated():
                self.verdicts["valid" if payload.valid else "invalid"] += 1
                for rule in payload.rules:
                    self.rules[_label(rule, _RULE, self.rules)] += 1
            case Waiting():
                self.waits[_label(payload.reason, _CODE, self.waits)] += 1
            case Refused():
                self.refusals[_label(payload.reason, _CODE, self.refusals)] += 1
        if event.request_id is not None:
            self._of_request(event.request_id, payload, moment)

    def _of_request(self, request_id: str, payload: Payload, moment: datetime) -> None:
        known = self._open.setdefault(request_id, {})
        match payload:
            case Validated(valid=True):
                known.setdefault("valid", moment)
            case Approved():
                if "valid" in known:
                    self.approval_seconds.add((moment - known["valid"]).total_seconds())
                known["approved"] = moment
            case Claimed() if "approved" in known:
                self.queue_seconds.add((moment - known["approved"]).total_seconds())
            case Started():
                known["backend"] = _one_of(payload.backend, tuple(BACKENDS))
            case Finished() | Interrupted() | Cancelled() if "backend" in known:
                backend = known["backend"]
                self.runs[backend, _label(payload.result_status, _CODE, self.runs)] += 1
                if payload.wall_ms is not None:
                    self.run_seconds[backend].add(payload.wall_ms / 1000)
        if isinstance(payload, End):
            del self._open[request_id]
        elif len(self._open) > limits.METRICS_OPEN_REQUESTS:
            self._open.popitem(last=False)

    def decided(self, line: bytes) -> None:
        """Take a line of the decision log: a decision of gate 3a is counted, and one that is no line counts as
        `other`.
        """
        try:
            value = json.loads(line)
            if value.get("type") in VERDICT_TYPES:
                return
            surface, route = value["surface"], value["route"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            surface = route = None
        self.decisions[_one_of(surface, _SURFACES), _one_of(route, ROUTES)] += 1


@dataclass(frozen=True, slots=True)
class Picture:
    """The numbers at one point in time."""

    counts: TrailCounts
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
