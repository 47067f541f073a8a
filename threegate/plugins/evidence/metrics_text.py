"""The numbers in Prometheus' text form ([metrics] extra).

Invariant: every name and label is written here; docs/metrics.md and the dashboard are tested against the
output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from threegate.core import version
from threegate.plugins.evidence.metrics import Histogram, Picture


class _Once(Collector):
    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def collect(self) -> Iterable[Metric]:
        return _families(self._picture)


def render(picture: Picture) -> bytes:
    """The text for one set of numbers (UTF-8)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(picture))
    return generate_latest(registry)


def _families(picture: Picture) -> Iterator[Metric]:
    counts = picture.counts
    build = GaugeMetricFamily("threegate_build_info", "Version and commit; always 1.", labels=["version", "commit"])
    build.add_metric([version.__version__, version.commit()], 1)
    yield build
    yield GaugeMetricFamily(
        "threegate_daemon_running", "1 while a daemon works on the workspace.", value=int(picture.daemon_runs)
    )
    requests = GaugeMetricFamily("threegate_requests", "Files in each folder that is a state.", labels=["state"])
    for state, number in picture.requests.items():
        requests.add_metric([state], number)
    yield requests
    oldest = GaugeMetricFamily(
        "threegate_oldest_request_seconds", "Age of the oldest file that waits or runs.", labels=["state"]
    )
    for state, seconds in picture.oldest_seconds.items():
        oldest.add_metric([state], seconds)
    yield oldest
    yield _counter("threegate_verdicts", "Drafts that gate 1 looked at.", ["verdict"], counts.verdicts.items())
    yield _counter("threegate_findings", "Findings of gate 1, by rule.", ["rule"], counts.rules.items())
    yield _pairs("threegate_decisions", "Decisions of gate 3a.", ["surface", "route"], counts.decisions.items())
    yield _counter("threegate_waits", "Approved requests that had to wait.", ["reason"], counts.waits.items())
    yield _counter("threegate_refusals", "Approved requests that were refused.", ["reason"], counts.refusals.items())
    yield _pairs("threegate_runs", "Runs that ended.", ["backend", "status"], counts.runs.items())
    runs = HistogramMetricFamily("threegate_run_seconds", "Wall time of runs.", labels=["backend"])
    for backend, histogram in counts.run_seconds.items():
        runs.add_metric([backend], _buckets(histogram), histogram.sum)
    yield runs
    for name, text, one in (
        ("approval", "From the first valid verdict to the approval.", counts.approval_seconds),
        ("queue", "From the approval to the claim.", counts.queue_seconds),
    ):
        yield HistogramMetricFamily(f"threegate_{name}_seconds", text, buckets=_buckets(one), sum_value=one.sum)
    yield _counter("threegate_trail_events", "Events of the trail.", ["type"], counts.events.items())
    yield GaugeMetricFamily(
        "threegate_trail_last_event_timestamp_seconds",
        "Time of the last event.",
        value=counts.last_event.timestamp() if counts.last_event else 0,
    )
    yield GaugeMetricFamily(
        "threegate_trail_uncheckpointed_events",
        "Events since the last signed trail checkpoint.",
        value=counts.seq - counts.last_trail_checkpoint,
    )
    if picture.trail_kept_seq is not None:
        yield GaugeMetricFamily(
            "threegate_trail_unkept_events",
            "Events since the head that is kept outside of the workspace.",
            value=max(0, counts.seq - picture.trail_kept_seq),
        )


def _counter(name: str, text: str, labels: list[str], items: Iterable[tuple[str, int]]) -> Metric:
    return _pairs(name, text, labels, (((label,), number) for label, number in items))


def _pairs(name: str, text: str, labels: list[str], items: Iterable[tuple[tuple[str, ...], int]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in items:
        family.add_metric(list(values), number)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    names = [*(repr(bound) for bound in histogram.bounds), "+Inf"]
    return list(zip(names, map(float, accumulate(histogram.counts)), strict=True))
