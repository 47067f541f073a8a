"""A copy of a workspace beside the living one: one broker, two daemons, and nothing starts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, Copy, missing_parts
from tests.plugins.cluster.test_machines import Count, approve
from tests.support import wait_until

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(600)]

CODE = "import time\ntime.sleep(3)\n1"


def test_a_copy_starts_nothing_twice(tmp_path: Path) -> None:
    """The copy waits while the first daemon leads; when that is killed, the copy is behind and launches nothing; the
    first one goes on; and a planned move works.
    """
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path)
    count = Count(cluster)
    try:
        cluster.start()
        names = [approve(cluster, f"c{number:02}", CODE) for number in range(30)]
        copy = Copy(cluster)
        first = cluster.daemon()
        wait_until(lambda: cluster.place.events("started"), lambda: cluster.daemon_log)
        second = copy.daemon()
        wait_until(lambda: "another daemon of this workspace works" in copy.log, lambda: copy.log)
        first.kill()
        first.wait(20)
        begun = {event["request_id"] for event in cluster.place.events("claimed")}
        assert len(begun) < len(names), "too late for the copy to have anything left that nobody ran"
        wait_until(lambda: "has seen a later state of this workspace" in copy.log, lambda: copy.log)
        cluster.daemon()
        cluster.wait_end(*names)
        assert copy.place.events("claimed") == [] and second.poll() is None
        assert [name for name, runs in count.runs.items() if runs > 1] == []
        ends = cluster.ends()
        assert all(ends[name] == "succeeded" for name in names if name not in begun), ends
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
