"""The long form: 300 mixed requests over three machines while workers, net and broker fail; and what needs an
engine.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.engine_fixtures import docker
from tests.plugins.cluster.machines import Cluster, missing_parts
from tests.plugins.cluster.test_machines import Count, approve, running_on
from tests.support import era_draft, request_id, wait_until
from threegate.cli import execute

pytestmark = [pytest.mark.root, pytest.mark.timeout(5400)]

MONTY = "[runners]\nmemory_budget_mb = 2048\ncpu_budget = 6.0\n[runners.monty]\nworkers = 4\n"
REQUESTS = int(os.environ.get("THREEGATE_SOAK_REQUESTS", "300"))
ENDS = {"succeeded", "exited", "failed", "timed_out", "interrupted", "cancelled", "unavailable"}


@pytest.mark.soak
def test_three_hundred_requests_through_every_fault(tmp_path: Path) -> None:
    """Nothing runs twice, nothing is lost, every end is named, and most of it simply works."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path, worker_settings=MONTY)
    count = Count(cluster)
    stop = threading.Event()
    faults: list[str] = []
    try:
        cluster.start()
        digest = cluster.place.input("data.txt", b"7" * 300_000)
        chaos = threading.Thread(target=break_things, args=(cluster, stop, faults))
        cluster.daemon()
        chaos.start()
        names = [one(cluster, number, digest) for number in range(REQUESTS)]
        ends = cluster.wait_end(*names, seconds=3600)
        stop.set()
        chaos.join(120)
        counted = {name: ends[name] for name in names}
        assert set(counted.values()) <= ENDS, counted
        assert [name for name, runs in count.runs.items() if runs > 1] == []
        finished = [name for name in names if counted[name] in ("succeeded", "exited", "failed", "timed_out")]
        assert all(count.runs[name] == 1 for name in finished)
        never = [name for name in names if counted[name] == "unavailable"]
        assert all(count.runs[name] == 0 for name in never)
        assert len(finished) > REQUESTS // 2 and len(faults) >= 4, (faults, len(finished))
        ended = [
            event["request_id"] for event in cluster.place.events() if event["type"] in ("finished", "interrupted")
        ]
        assert sorted(ended) == sorted(names), "each has exactly one end"
        assert cluster.place.run("audit", "verify", timeout=300).code == 0
        print(f"{len(finished)} of {REQUESTS} finished, faults: {', '.join(faults)}")
    finally:
        stop.set()
        count.close()
        cluster.close()


def one(cluster: Cluster, number: int, digest: str) -> str:
    """The n-th request: five kinds in turn."""
    kind = number % 5
    if kind == 0:
        return approve(cluster, f"s{number:03}", f"{number} * 2")
    if kind == 1:
        code = "t = open('/in/data.txt').read()\nopen('/out/t.txt', 'w').write(t)"
        return approve(cluster, f"s{number:03}", code, inputs={"data.txt": digest}, outputs=["/out/t.txt"])
    if kind == 2:
        return approve(cluster, f"s{number:03}", "1 // 0")
    if kind == 3:
        return approve(cluster, f"s{number:03}", "import time\ntime.sleep(1.5)\n1", time_sec=20)
    return approve(cluster, f"s{number:03}", "while True:\n    pass", time_sec=1)


def break_things(cluster: Cluster, stop: threading.Event, faults: list[str]) -> None:
    """One fault after the other until told to stop; what was broken is fixed again."""
    chance = random.Random(11)
    while not stop.wait(chance.uniform(6, 12)):
        what = ("worker", "net", "broker", "worker", "after its result")[len(faults) % 5]
        name = chance.choice(sorted(cluster.workers))
        worker = cluster.workers[name]
        if what == "worker":
            worker.kill()
            stop.wait(1)  # it is away for a while
            worker.start()
        elif what == "net":
            cluster.net.cut(name)
            stop.wait(chance.uniform(1, 40))  # shorter and longer than a lease
            cluster.net.heal(name)
        elif what == "broker":
            cluster.rabbit.kill()
            cluster.rabbit.start(180)
        else:
            kill_after_result(cluster, name, 20)
            worker.start()
        faults.append(f"{what} {name}")


def kill_after_result(cluster: Cluster, name: str, seconds: float, request: str = "*") -> str:
    """kill -9 of a worker when a signed result (of this request) lies on its disk; the run's folder name."""
    runs, until = cluster.workers[name].state / "runs", time.monotonic() + seconds
    while time.monotonic() < until:
        for path in runs.glob(f"{request}.*/result.sealed"):
            cluster.workers[name].kill()
            return path.parent.name
        time.sleep(0.0005)  # the file is there for some milliseconds only
    cluster.workers[name].kill()
    return ""


@pytest.mark.soak
def test_a_worker_killed_after_its_result(tmp_path: Path) -> None:
    """Either the signed result came through or the loss did; never both, never a second run."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = Cluster(tmp_path, ("w1",), worker_settings=MONTY)
    count = Count(cluster)
    try:
        cluster.start()
        cluster.daemon()
        for number in range(4):
            name = approve(cluster, f"r{number}", "'x' * 200000")
            kill_after_result(cluster, "w1", 60, name)
            cluster.workers["w1"].start()
            assert cluster.wait_end(name, seconds=120)[name] in ("succeeded", "interrupted")
            assert count.runs[name] == 1
    finally:
        count.close()
        cluster.close()


ASK = """
import socket, urllib.error, urllib.request
for host in ("unlisted.org", "169.254.169.254", "localhost"):
    try:
        print(host, urllib.request.urlopen(f"http://{host}/", timeout=20).status)
    except urllib.error.HTTPError as error:
        print(host, error.code)
try:
    socket.create_connection(("10.77.0.2", 5671), 3)
    print("the broker is reached")
except OSError:
    print("no way around")
"""


@pytest.mark.soak
@pytest.mark.engine
def test_an_allowlist_on_a_worker(tmp_path: Path) -> None:
    """What is not listed is refused by the run's own proxy on the worker's machine, and is in result and trail here."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = with_engine(tmp_path)
    try:
        cluster.start()
        cluster.daemon()
        digest = cluster.place.input("ask.py", ASK.encode())
        name = request_id("asks")
        text = era_draft(name, "python3 /in/ask.py", inputs={"ask.py": digest}, time_sec=60)
        listed = "network: allowlist\nnetwork_allowlist: [pypi.org]"
        text = text.replace("network: none", listed, 1) + "- Network rationale: a test\n"
        draft = cluster.place.drop(text)
        words = ["approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes"]
        assert execute(["--workspace", str(cluster.place.root), *words]) == 0
        assert cluster.wait_end(name, seconds=180)[name] == "succeeded", cluster.place.result(name)
        told = (cluster.place.root / "tool-exec" / "runs" / name / "stdout").read_text().splitlines()
        assert told == ["unlisted.org 403", "169.254.169.254 403", "localhost 403", "no way around"]
        [finished] = [item for item in cluster.place.events("finished") if item["request_id"] == name]
        assert set(finished["data"]["blocked"]) >= {"unlisted.org:80", "169.254.169.254:80"}
        assert finished["data"]["reached"] == []
        wait_containers(name, 0)
    finally:
        cluster.close()


@pytest.mark.soak
@pytest.mark.engine
def test_containers_on_a_worker(tmp_path: Path) -> None:
    """ERA on a worker: large files both ways, a cancel that reaches the container, and orphans gone at the next
    start.
    """
    if (reason := missing_parts()) is not None:
        missing(reason)
    cluster = with_engine(tmp_path)
    image = os.environ["THREEGATE_TEST_IMAGE"]
    try:
        cluster.start()
        cluster.daemon()
        data = os.urandom(1 << 20) * 40
        digest = cluster.place.input("big", data)
        copied = era(cluster, "copy", "cp /in/big /out/big", inputs={"big": digest}, outputs=["/out/big"])
        assert cluster.wait_end(copied, seconds=240)[copied] == "succeeded"
        assert (cluster.place.root / "tool-exec" / "runs" / copied / "out" / "big").read_bytes() == data
        kept = (cluster.workers["w1"].state / "store" / digest).stat().st_ino
        again = era(cluster, "again", "sha256sum /in/big", inputs={"big": digest})
        assert cluster.wait_end(again, seconds=120)[again] == "succeeded"
        assert digest in cluster.place.result(again)
        assert (cluster.workers["w1"].state / "store" / digest).stat().st_ino == kept, "it was fetched twice"
        slow = era(cluster, "slow", "sleep 300", time_sec=400)
        running_on(cluster, slow)
        wait_containers(slow, 1)
        cluster.place.run("cancel", slow, expect=0)
        assert cluster.wait_end(slow, seconds=60)[slow] == "cancelled"
        wait_containers(slow, 0)
        left = era(cluster, "left", "sleep 300", time_sec=400)
        running_on(cluster, left)
        wait_containers(left, 1)
        cluster.workers["w1"].kill()
        assert cluster.wait_end(left, seconds=90)[left] == "interrupted"
        cluster.workers["w1"].start()
        wait_containers(left, 0, 90)
        started = [event for event in cluster.place.events("started") if event["request_id"] == copied]
        assert started[0]["data"]["image"] == image
    finally:
        cluster.close()


def era(cluster: Cluster, slug: str, command: str, **more: object) -> str:
    """An approved ERA request; its id."""
    name = request_id(slug)
    draft = cluster.place.drop(era_draft(name, command, memory_mb=512, **more))  # type: ignore[arg-type]
    words = ["approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes"]
    assert execute(["--workspace", str(cluster.place.root), *words]) == 0
    return name


def wait_containers(request: str, number: int, seconds: float = 30) -> None:
    """Wait until the engine has as many containers of a request: counted outside of worker and daemon."""
    mine = ["ps", "-aq", "--filter", f"label=threegate.request={request}"]
    wait_until(lambda: len(docker(*mine).split()) == number, lambda: docker("ps", "-a"), seconds)


def with_engine(folder: Path) -> Cluster:
    """One worker with the real engine, both images named by digest on either side."""
    names = {"engine": "ENGINE", "image": "IMAGE", "egress_image": "EGRESS_IMAGE"}
    era = {key: os.environ[f"THREEGATE_TEST_{name}"] for key, name in names.items()}
    section = "".join(f'{key} = "{value}"\n' for key, value in era.items())
    return Cluster(
        folder,
        ("w1",),
        settings={f"runners.era.{key}": value for key, value in era.items()},
        worker_settings=f"[runners]\nmemory_budget_mb = 4096\ncpu_budget = 4.0\n[runners.era]\n{section}",
    )
