"""A narrow line to a worker: large inputs of one request do not end the run of another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, missing_parts
from tests.plugins.cluster.test_machines import SLEEP, WORKERS, approve, running_on

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(600)]


def test_inputs_on_a_slow_link_end_no_run(tmp_path: Path) -> None:
    """Two inputs of 40 MB at 20 Mbit/s take half a minute; a run of 40 s beside them gets its beats all the time."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path, ("w1",), worker_settings=WORKERS.format(memory=4096, cores="4.0"))
    try:
        cluster.start()
        cluster.daemon()
        long = approve(cluster, "long", SLEEP, time_sec=90)
        running_on(cluster, long)
        cluster.workers["w1"].wait_said(f"started {long}")
        cluster.net.slow("w1", "20mbit")
        large = []
        for number in range(2):
            digest = cluster.place.input(f"big{number}", os.urandom(1_000_000) * 40)
            large.append(approve(cluster, f"big{number}", "1", inputs={f"big{number}": digest}))
        ends = cluster.wait_end(long, *large, seconds=150)
        assert set(ends.values()) == {"succeeded"}, (ends, cluster.workers["w1"].log)
    finally:
        cluster.close()
