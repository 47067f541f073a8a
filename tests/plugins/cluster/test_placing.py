"""Where a request goes when a worker refuses it, is lost or goes away, over a real broker: nothing runs twice, and no
approval is used up by what never started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.adversarial.test_taken_over import approve, row_of, wait_event
from tests.plugins.cluster.machines import Cluster, Worker, missing_parts
from tests.support import make_key, wait_until
from threegate.setup.settings_file import set_values

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

WORKER = "[runners]\nmemory_budget_mb = 1024\ncpu_budget = {}\n[runners.monty]\nworkers = 4\n"
SLEEP = "import time\nfor i in range(250):\n    time.sleep(0.1)\n'done'"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """Two workers, of which w1 has more cores and so gets the first request."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    folder = tmp_path_factory.mktemp("placing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        made = Cluster(folder, ("w1", "w2"))
    try:
        for name, cores in (("w1", 8.0), ("w2", 4.0)):
            (made.workers[name].home / "worker.toml").write_text(WORKER.format(cores))
        set_values(made.place.root / "threegate.toml", {"cluster.away_sec": 40})  # a broker takes its time to start
        made.start()
        yield made, folder / "state"
    finally:
        made.close()


@pytest.fixture
def cluster(shared: tuple[Cluster, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made, state = shared
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    made.daemon()
    first = approve(made, f"first{len(made.ends())}", "1")  # the daemon connects with its first request
    assert made.wait_end(first)[first] == "succeeded"
    wait_until(lambda: all(row_of(made, name)["live"] for name in made.workers), lambda: made.daemon_log[-2000:], 60)
    yield made
    made.stop_daemons()


def again(worker: Worker) -> None:
    """Start it, and wait until it is connected."""
    said = worker.log.count("connected to the broker")
    worker.start()
    wait_until(lambda: worker.log.count("connected to the broker") > said, lambda: worker.log[-2000:], 60)


def where(cluster: Cluster, request: str) -> list[str]:
    """The worker of each start that the trail has of a request."""
    return [event["data"]["worker"] for event in cluster.place.events("started") if event["request_id"] == request]


def waiting(cluster: Cluster, request: str) -> bool:
    """Whether it is in approved/ and the trail says that it waits."""
    told = [event for event in cluster.place.events("waiting") if event["request_id"] == request]
    return bool(told) and (cluster.place.root / "tool-exec" / "approved" / f"{request}.md").exists()


def strange(cluster: Cluster, worker: Worker) -> str:
    """Give a worker the operators file of another workspace; returns the right one."""
    ours = worker.operators.read_text()
    key = make_key(cluster.folder / f"stranger-{worker.name}")
    kind, text, *_ = Path(f"{key}.pub").read_text().split()
    worker.operators.write_text(f'operator namespaces="threegate-approval,threegate-act" {kind} {text}\n')
    return ours


@pytest.mark.soak
def test_stale_workers_use_up_no_approval(cluster: Cluster) -> None:
    """w1 has another operators file: everything runs on w2, and w1's line says what to copy. Then w2 has other limits
    for requests as well: what comes waits, and runs once w1 has the right file.
    """
    w1, w2 = cluster.workers["w1"], cluster.workers["w2"]
    ours = strange(cluster, w1)
    names = [approve(cluster, f"stale{number}", f"{number}") for number in range(8)]
    ends = cluster.wait_end(*names)
    assert {ends[name] for name in names} == {"succeeded"}
    assert {worker for name in names for worker in where(cluster, name)} == {"w2"}
    reason = row_of(cluster, "w1", "refused 3 jobs: signer_unknown")["reason"]
    assert "copy tool-exec/operators" in reason
    w2.stop()
    (w2.home / "worker.toml").write_text(WORKER.format(4.0) + "[request]\nmax_time_sec = 5\n")
    again(w2)
    others = [approve(cluster, f"waits{number}", f"{number}") for number in range(6)]
    wait_until(lambda: all(waiting(cluster, name) for name in others), lambda: cluster.daemon_log[-3000:], 60)
    assert not set(others) & cluster.ends().keys()
    assert "[request]" in row_of(cluster, "w2", "[request]")["reason"]
    w1.operators.write_text(ours)
    ends = cluster.wait_end(*others, seconds=120)
    assert {ends[name] for name in others} == {"succeeded"}
    assert all(where(cluster, name) == ["w1"] for name in others)
    w2.stop()
    (w2.home / "worker.toml").write_text(WORKER.format(4.0))
    again(w2)
    assert cluster.place.run("audit", "verify").code == 0


@pytest.mark.soak
def test_a_worker_killed_before_its_start_token_costs_nothing(cluster: Cluster) -> None:
    w1 = cluster.workers["w1"]
    os.kill(w1.pid, signal.SIGSTOP)
    name = approve(cluster, "before", "40 + 2")
    queued = "list_queues", "-p", "threegate", "name", "messages"
    wait_until(lambda: "job.w1\t1" in cluster.rabbit.control(*queued), "the job is with w1", 30)
    w1.kill()
    assert cluster.wait_end(name)[name] == "succeeded"
    assert where(cluster, name) == ["w2"]
    again(w1)


@pytest.mark.slow
def test_a_worker_killed_after_its_start_token_ends_the_request(cluster: Cluster) -> None:
    w1 = cluster.workers["w1"]
    name = approve(cluster, "after", SLEEP, time_sec=60)
    wait_event(cluster, name, "started")
    w1.wait_said(f"started {name}")
    w1.kill()
    again(w1)
    assert cluster.wait_end(name)[name] == "interrupted"
    text = cluster.result(name)
    assert "worker w1 was killed or restarted" in text and f"threegate draft --again {name}" in text
    assert where(cluster, name) == ["w1"] and cluster.starts()[name] == 1


@pytest.mark.soak
def test_a_restart_of_the_broker_costs_no_run(cluster: Cluster) -> None:
    """Runs that began before it and end after it, and one that ends while the broker is away."""
    long = [approve(cluster, f"long{number}", SLEEP, time_sec=60) for number in range(3)]
    for name in long:
        wait_event(cluster, name, "started")
        cluster.workers[where(cluster, name)[0]].wait_said(f"started {name}")
    short = approve(cluster, "short", SLEEP.replace("250", "30"), time_sec=60)
    wait_event(cluster, short, "started")
    cluster.workers[where(cluster, short)[0]].wait_said(f"started {short}")
    cluster.rabbit.kill()
    cluster.workers[where(cluster, short)[0]].wait_said(f"ended {short}")
    cluster.rabbit.start()
    ends = cluster.wait_end(*long, short, seconds=120)
    assert {ends[name] for name in (*long, short)} == {"succeeded"}, cluster.daemon_log[-3000:]
    assert {cluster.starts()[name] for name in (*long, short)} == {1}
    assert cluster.place.run("audit", "verify").code == 0


@pytest.mark.soak
def test_a_stopped_daemon_leaves_what_was_not_started(cluster: Cluster) -> None:
    """Its runs are `interrupted` for that reason; what waited for a worker runs under the next daemon."""
    name = approve(cluster, "stopped", SLEEP, time_sec=60)
    wait_event(cluster, name, "started")
    cluster.workers[where(cluster, name)[0]].wait_said(f"started {name}")
    for worker in cluster.workers.values():
        os.kill(worker.pid, signal.SIGSTOP)
    try:
        later = approve(cluster, "later", "1")
        queued = "list_queues", "-p", "threegate", "name", "messages"
        wait_until(lambda: "job.w1\t2" in cluster.rabbit.control(*queued), "both jobs are with w1", 30)
        cluster.stop_daemons()
    finally:
        for worker in cluster.workers.values():
            os.kill(worker.pid, signal.SIGCONT)
    assert cluster.ends()[name] == "interrupted" and later not in cluster.ends()
    assert "the daemon stopped" in cluster.result(name)
    cluster.daemon()
    assert cluster.wait_end(later)[later] == "succeeded"
    assert cluster.starts()[later] == 1
