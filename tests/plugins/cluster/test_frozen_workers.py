"""A worker stands still in the middle of a run: the run is gone before anybody reports it as lost."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.engine_fixtures import docker
from tests.plugins.cluster.machines import Cluster, missing_parts
from tests.plugins.cluster.test_machines import approve, running_on
from tests.plugins.cluster.test_soak import MONTY, era, wait_containers, with_engine
from tests.support import children, wait_until

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(600)]


def stat(run: Path) -> list[str]:
    """State, parent and so on of a process in /proc; a state of Z if it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (run / "stat").read_text().rpartition(") ")[2].split()
    return ["Z"]


def freeze(cluster: Cluster, name: str, run: Path) -> None:
    """SIGSTOP to the worker while `run`, a process in /proc, works for a request; and what comes of both."""
    worker = cluster.workers["w1"]
    os.kill(worker.pid, signal.SIGSTOP)
    # Z: its parent, which stands still, has not buried it.
    wait_until(lambda: stat(run)[0] == "Z", lambda: worker.log[-2000:], 60)
    assert name not in cluster.ends(), "it was reported lost before it was gone"
    assert cluster.wait_end(name)[name] == "interrupted"
    os.kill(worker.pid, signal.SIGCONT)
    worker.wait_said(f"ended {name}: interrupted")
    late = "w1: a result came after its request had ended"
    wait_until(lambda: late in cluster.daemon_log, lambda: cluster.daemon_log[-2000:])
    assert len([event for event in cluster.place.events("interrupted") if event["request_id"] == name]) == 1


@pytest.mark.soak  # as the container below; tests/runners/test_leases.py has the lease of Monty
def test_a_run_without_an_engine(tmp_path: Path) -> None:
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path, ("w1",), worker_settings=MONTY)
    try:
        cluster.start()
        cluster.daemon()
        name = approve(cluster, "busy", "while True: pass", time_sec=200)
        running_on(cluster, name)
        worker = cluster.workers["w1"].pid

        def busy() -> list[Path]:
            """Of its children the one that has used a second: more than a start costs."""
            found = [Path(f"/proc/{pid}") for pid in children(worker, "monty")]
            return [run for run in found if int(([*stat(run), *["0"] * 12])[11]) >= os.sysconf("SC_CLK_TCK")]

        freeze(cluster, name, wait_until(busy, "a run at work")[0])
        after = approve(cluster, "after", "1 + 1")
        assert cluster.wait_end(after)[after] == "succeeded"
    finally:
        cluster.close()


@pytest.mark.engine
@pytest.mark.soak
def test_a_container(tmp_path: Path) -> None:
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = with_engine(tmp_path)
    try:
        cluster.start()
        cluster.daemon()
        name = era(cluster, "sleeps", "sleep 200", time_sec=300)
        running_on(cluster, name)
        mine = ("ps", "-q", "--filter", f"label=threegate.request={name}")
        container = wait_until(lambda: docker(*mine).strip(), "a container")
        init = int(docker("inspect", "--format", "{{.State.Pid}}", container))
        wait_until(lambda: children(init, "sleep"), "a command that PID 1 has started")
        freeze(cluster, name, Path(f"/proc/{init}"))
        wait_containers(name, 0)
        after = era(cluster, "after", "true")
        assert cluster.wait_end(after)[after] == "succeeded"
    finally:
        cluster.close()
