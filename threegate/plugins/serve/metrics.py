"""The metrics of docs/metrics.md: what the trail, the decision log and the folders say in numbers.

Invariant: a label is a rule id, a code, a status or a word of ThreeGate, never text from outside; anything else,
and labels beyond the limit, are counted as `other`.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from threegate.aana.decision_log import VERDICT_TYPES
from threegate.aana.vocabulary import ROUTES
from threegate.core import limits, version
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

# A `_created` sample would be the time of this process: everything here survives a restart instead.
disable_created_metrics()  # type: ignore[no-untyped-call]

_RUN_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 3600.0)
_WAIT_SECONDS: Final = (1.0, 5.0, 30.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0, 259200.0)
_RULE = re.compile(r"[A-Z]{2,4}[0-9]{2,4}")
_CODE = re.compile(r"[a-z][a-z_]{0,40}")
_SURFACES = ("api", "guard", "cli", "http", "mcp", "daemon")
_OTHER: Final = "other"


class Metrics:
    """All metrics of one workspace. `add` and `decided` count; the gauges of the folders are set by who reads them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"threegate_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"threegate_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"threegate_{name}_seconds", text, labels, buckets=bounds, registry=self.registry)

        build = gauge("build_info", "Version and commit; always 1.", "version", "commit")
        build.labels(version.__version__, version.commit()).set(1)
        self.daemon_running = gauge("daemon_running", "1 while a daemon works on the workspace.")
        self.requests = gauge("requests", "Files in each folder that is a state.", "state")
        self.oldest = gauge("oldest_request_seconds", "Age of the oldest file that waits or runs.", "state")
        self._verdicts = counter("verdicts", "Drafts that gate 1 looked at.", "verdict")
        self._findings = counter("findings", "Findings of gate 1, by rule.", "rule")
        self._decisions = counter("decisions", "Decisions of gate 3a.", "surface", "route")
        self._waits = counter("waits", "Approved requests that had to wait.", "reason")
        self._refusals = counter("refusals", "Approved requests that were refused.", "reason")
        self._runs = counter("runs", "Runs that ended.", "backend", "status")
        self._run_seconds = histogram("run", "Wall time of runs.", _RUN_SECONDS, "backend")
        for backend in (*BACKENDS, _OTHER):
            self._run_seconds.labels(backend)  # a backend without a run has a histogram of zeros
        self._approval_seconds = histogram("approval", "From the first valid verdict to the approval.", _WAIT_SECONDS)
        self._queue_seconds = histogram("queue", "From the approval to the claim.", _WAIT_SECONDS)
        self._events = counter("trail_events", "Events of the trail.", "type")
        self._last_event = gauge("trail_last_event_timestamp_seconds", "Time of the last event.")
        self._uncheckpointed = gauge("trail_uncheckpointed_events", "Events since the last signed trail checkpoint.")
        self._unkept = Gauge(
            "threegate_trail_unkept_events",
            "Events since the head that is kept outside of the workspace.",
            registry=None,
        )
        self._rules, self._reasons, self._statuses = _Labels(_RULE), _Labels(_CODE), _Labels(_CODE)
        self._seq = 0
        self.workspace_id = ""
        self._open: OrderedDict[str, dict[str, Any]] = OrderedDict()
        """What is known of each request that has not ended; the oldest are forgotten beyond the limit."""

    def add(self, event: Event) -> None:
        """Count the next event of the trail."""
        payload, moment = event.payload, parse_time(event.time)
        self._seq = event.seq
        self._events.labels(event.type).inc()
        if event.seq == 1:
            self.workspace_id = event.prev
        self._last_event.set(moment.timestamp())
        self._uncheckpointed.inc()
        match payload:
            case TreeAnnounced(size=int(size)):
                self._uncheckpointed.set(event.seq - size)
            case Validated():
                self._verdicts.labels("valid" if payload.valid else "invalid").inc()
                for rule in payload.rules:
                    self._findings.labels(self._rules.label(rule)).inc()
            case Waiting():
                self._waits.labels(self._reasons.label(payload.reason)).inc()
            case Refused():
                self._refusals.labels(self._reasons.label(payload.reason)).inc()
        if event.request_id is not None:
            self._of_request(event.request_id, payload, moment)

    def _of_request(self, request_id: str, payload: Payload, moment: datetime) -> None:
        known = self._open.setdefault(request_id, {})
        match payload:
            case Validated(valid=True):
                known.setdefault("valid", moment)
            case Approved():
                if "valid" in known:
                    _observe(self._approval_seconds, (moment - known["valid"]).total_seconds())
                known["approved"] = moment
            case Claimed() if "approved" in known:
                _observe(self._queue_seconds, (moment - known["approved"]).total_seconds())
            case Started():
                known["backend"] = _one_of(payload.backend, tuple(BACKENDS))
            case Finished() | Interrupted() | Cancelled() if "backend" in known:
                backend = known["backend"]
                self._runs.labels(backend, self._statuses.label(payload.result_status)).inc()
                if payload.wall_ms is not None:
                    _observe(self._run_seconds.labels(backend), payload.wall_ms / 1000)
        if isinstance(payload, End):
            del self._open[request_id]
        elif len(self._open) > limits.METRICS_OPEN_REQUESTS:
            self._open.popitem(last=False)

    def decided(self, line: bytes) -> None:
        """Count a line of the decision log if it is a decision of gate 3a; a line that cannot be read is `other`."""
        try:
            value = json.loads(line)
            if value.get("type") in VERDICT_TYPES:
                return
            surface, route = value["surface"], value["route"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            surface = route = None
        self._decisions.labels(_one_of(surface, _SURFACES), _one_of(route, ROUTES)).inc()

    def kept(self, seq: int | None) -> None:
        """Set the last event whose hash is kept outside of the workspace; None: there is no such metric."""
        with suppress(KeyError):  # it was not registered
            self.registry.unregister(self._unkept)
        if seq is not None:
            self._unkept.set(max(0, self._seq - seq))
            self.registry.register(self._unkept)


class _Labels:
    """Codes of one form as labels, at most METRICS_LABELS of them."""

    def __init__(self, form: re.Pattern[str]) -> None:
        self._form = form
        self._known: set[str] = set()

    def label(self, value: object) -> str:
        if not isinstance(value, str) or not self._form.fullmatch(value):
            return _OTHER
        if len(self._known) < limits.METRICS_LABELS:
            self._known.add(value)
        return value if value in self._known else _OTHER


def _observe(histogram: Histogram, seconds: float) -> None:
    histogram.observe(max(0.0, seconds))  # a clock that was set back counts as no time


def _one_of(value: object, words: tuple[str, ...]) -> str:
    return value if isinstance(value, str) and value in words else _OTHER
