"""What no worker has is said before anybody waits for it; what nobody knows is not said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.acts.bench_workspace import make_bench
from tests.engine_fixtures import monty_job
from tests.runners import toy_backend
from tests.runners.test_machine import era
from threegate.core.settings import Settings
from threegate.plugins.cluster.capacity import MACHINE, workers_file
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.section import ClusterSettings
from threegate.request.backend import BACKENDS
from threegate.runners.backend import RunNeed
from threegate.runners.machine import machine_of, never_fits, workers_answer

NAMES = ("one", "two")
CLUSTER = Settings(sections={"cluster": ClusterSettings(broker="amqps://broker", workers=("one+0+a", "two+0+b"))})


def test_the_workers_are_the_machine_once_there_is_a_broker() -> None:
    assert machine_of(CLUSTER) is MACHINE
    assert machine_of(Settings(sections={"cluster": ClusterSettings(workers=("one+0+a",))})) is not MACHINE


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ([("1", 900), ("4", 900)], None),
        ([("1", 900), ("2", 900)], ("needs 3 cores and 96 MiB on one worker, but the workers have 1 cores and 900 MiB, 2 cores and 900 "  # noqa: E501
        "MiB")),
        ([("4", 90), ("2", 900)], ("needs 3 cores and 96 MiB on one worker, but the workers have 4 cores and 90 MiB, 2 cores and 900 "  # noqa: E501
        "MiB")),
        ([("1", 900), ("0", 0)], None),
        ([("1", 900)], None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_in_a_cluster_the_largest_worker_counts_once_all_were_heard_of(
    tmp_path: Path, workers: list[tuple[str, int]] | None, says: str | None
) -> None:
    bench = make_bench(tmp_path)
    sizes = [{"cores": cores, "memory_mb": memory} for cores, memory in workers or ()]
    rows = None if workers is None else [{**size, "worker": name} for size, name in zip(sizes, NAMES, strict=False)]
    workers_file(bench.workspace).write_text(json.dumps(rows))
    assert never_fits(bench.workspace, CLUSTER, era("3")) == (says and f"it could never run here: it {says}")


def test_a_worker_that_was_shut_out_says_nothing_of_the_others(tmp_path: Path) -> None:
    """The file has its row until the daemon starts again, and none of the worker that took its place."""
    bench = make_bench(tmp_path)
    sizes = {"cores": "1", "memory_mb": 900}
    workers_file(bench.workspace).write_text(json.dumps([{**sizes, "worker": "one"}, {**sizes, "worker": "gone"}]))
    assert never_fits(bench.workspace, CLUSTER, era("3")) is None


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({"era": "2/2"}, "ok"),
        ({"live": False}, "warning"),
        ({"era": "0/0"}, "warning"),
        ({"era": None}, "warning"),
        ({"cores": "2"}, "warning"),
        ({"memory_mb": 95}, "warning"),
    ],
    ids=["busy", "silent", "no place", "a backend that it does not know", "cores", "memory"],
)
def test_one_live_worker_that_fits_is_enough(row: dict[str, Any], state: str) -> None:
    """What it runs now does not count: that ends."""
    small = {"worker": "one", "live": True, "cores": "1", "memory_mb": 900, "era": "0/1"}
    other = {"worker": "two", "live": True, "cores": "4", "memory_mb": 900, "era": "0/1", **row}
    rows = [small, {key: value for key, value in other.items() if value is not None}]
    line = workers_answer(rows, "fix", RunNeed.of(era("3")))
    assert line.state == state
    if state != "ok":
        assert (line.seen, line.fix) == ("no live worker has 3 cores and 96 MiB for ERA", "fix")


def test_in_a_cluster_a_backend_that_no_worker_runs_waits_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS.loaded, "toy", toy_backend.BACKEND)
    ledger = Ledger(("w1",), None)
    ledger.hear(
        "w1",
        {"cores": "4", "memory_mb": 4096, "rows": {"monty": 1, "era": 1}, "images": [], "healthy": True, "reason": "",
         "machine": "m", "boot": "b", "running": []},
    )  # fmt: skip
    job = replace(monty_job("1"), backend="toy")
    assert "for toy" in str(ledger.missing(job)) and ledger.reserve(job) is None
    assert "toy" in ledger.free_rows(), "it is checked, to say why it waits"
    assert set(ledger.seats()[0].to_json()) >= {"monty", "era"} and "toy" not in ledger.seats()[0].to_json()
