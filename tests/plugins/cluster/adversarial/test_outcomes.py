"""What a taken-over worker can write into a result: nothing that the record's own reader would not take."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.cluster.test_parts import BOUNDS, outcome
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.plugins.cluster.outcome import read_outcome, write_outcome

LONG = "x" * 100_000
ZEROS = "0" * 64


@pytest.mark.parametrize(
    "change",
    [
        {"retry_after_sec": -5},
        {"retry_after_sec": limits.RETRY_UNKNOWN_SECONDS + 1},
        {"retry_after_sec": True},
        {"retry_after_sec": 1.5},
        {"wall_ms": 2**53},
        {"cpu_ms": -1},
        {"cpu_ms": 2**80},
        {"peak_memory_bytes": -1},
        {"peak_memory_bytes": 2**53},
        {"exit_code": 2**31},
        {"exit_code": -(2**40)},
        {"detail": LONG},
        {"detail": "\ud800"},
        {"notes": [LONG]},
        {"notes": ["\udfff"]},
        {"notes": ["x"] * 65},
        {"dropped": [LONG]},
        {"dropped": ["x"] * (limits.OUTCOME_LINES + 1)},
        {"dropped": ["x" * 1_900] * 4_000},
        {"image": LONG},
        {"runtime": LONG},
        {"effective_limits": {"memory": LONG}},
        {"effective_limits": {LONG: "1"}},
        {"effective_limits": {str(number): "1" for number in range(65)}},
        {"destinations": [{"host": LONG, "port": 1, "bytes": 1, "allowed": True, "busy": False}]},
        {"destinations": [{"host": "h", "port": 1, "bytes": 2**60, "allowed": True, "busy": False}]},
        {"destinations": [{"host": "h", "port": 1, "bytes": -1, "allowed": True, "busy": False}]},
        {"stdout": {"kept": "", "size": 2**53, "sha256": ZEROS}},
        {"artifacts": [{"path": "a", "size": BOUNDS.file_bytes + 1, "sha256": ZEROS}]},
        {"artifacts": [{"path": f"{n}/" + "é" * 127 * 30, "size": 0, "sha256": ZEROS} for n in range(1000)]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_value_of_a_worker_leaves_a_record_that_cannot_be_read(change: dict[str, Any]) -> None:
    """Each of these was written, and `audit verify` failed on it for good, or a text of any length came through."""
    with pytest.raises(InvalidInput):
        read_outcome({**write_outcome(outcome()), **change}, BOUNDS)


def test_an_honest_worker_is_never_refused_for_its_lengths() -> None:
    """What a runner of ours may say at length is cut by the worker, not refused by the daemon."""
    long = outcome(
        detail=LONG,
        notes=(LONG,) * 100,
        dropped=(LONG,) * 500,
        effective_limits={"network": LONG},
    )
    read = read_outcome(write_outcome(long), BOUNDS)
    assert len(read.detail) == limits.OUTCOME_TEXT_CHARS and len(read.notes) == limits.OUTCOME_NOTES
