"""A copy of a workspace beside the living one: one broker, two daemons, and nothing starts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, Copy, missing_parts
from tests.plugins.cluster.test_machines import WORKERS, Count, approve
from tests.support import wait_until

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(600)]

CODE = "import time\ntime.sleep(1)\n1"


def test_a_copy_starts_nothing_twice(tmp_path: Path) -> None:
    """In one folder a second daemon does not begin. The copy waits while the first one leads; when that is killed, the
    copy is behind and launches nothing; the first one goes on; and a planned move works.
    """
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path)
    count = Count(cluster)
    try:
        (cluster.workers["w3"].home / "worker.toml").write_text(WORKERS.format(memory=4096, cores="4.0"))
        cluster.start()
        cluster.workers["w3"].stop()  # so that what only it has room for is still there when the first daemon is gone
        small = [approve(cluster, f"c{number:02}", CODE) for number in range(25)]
        large = [approve(cluster, f"d{number}", CODE, memory_mb=3000) for number in range(5)]
        copy = Copy(cluster)
        first = cluster.daemon()
        wait_until(lambda: cluster.place.events("started"), lambda: cluster.daemon_log)
        second = copy.daemon()
        wait_until(lambda: "another daemon of this workspace works" in copy.log, lambda: copy.log)
        assert "came to the broker; it waits" in cluster.daemon_log
        assert cluster.daemon().wait(60) != 0
        first.kill()
        first.wait(20)
        cluster.workers["w3"].start()
        wait_until(lambda: "has seen a later state of this workspace" in copy.log, lambda: copy.log)
        cluster.daemon()
        ends = cluster.wait_end(*small, *large)
        assert [ends[name] for name in large] == ["succeeded"] * 5
        assert "unavailable" not in ends.values(), "what the first daemon left open was given to nobody else"
        assert copy.place.events("claimed") == [] and second.poll() is None
        assert [name for name, runs in count.runs.items() if runs > 1] == []
        moved(cluster, copy, count)
    finally:
        count.close()
        cluster.close()


def moved(cluster: Cluster, copy: Copy, count: Count) -> None:
    """Stop, copy, start on the other machine: it leads, and runs what was approved before the move."""
    cluster.stop_daemons()
    name = approve(cluster, "moved", "1 + 1")
    copy.take()
    copy.daemon()
    results = copy.place.root / "tool-exec" / "results"
    wait_until(lambda: list(results.glob(f"TS-*-{name}.md")), lambda: copy.log)
    assert "status: succeeded" in copy.place.result(name)
    assert count.runs[name] == 1
    assert copy.place.run("audit", "verify").code == 0
