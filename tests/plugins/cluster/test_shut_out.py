"""A removed worker's certificate, and one that was stolen, at a real broker: before, during and after a restart."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import Cluster, inside, missing_parts
from tests.support import monty_draft, request_id
from threegate.core import limits

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

HOLD = """
import json, sys, time
from pathlib import Path
from threegate.plugins.cluster.broker import FAULTS, Broker

home, url, most, channels = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
held, said = [], {"connections": 0, "channels": 0}
try:
    for _ in range(most):
        connection = Broker(url, home).connection()
        connection.connect()
        held.append(connection)
        said["connections"] += 1
    for number in range(channels):
        held[number % len(held)].channel()
        said["channels"] += 1
except FAULTS as error:
    said["refused"] = str(error)
print(json.dumps(said), flush=True)
while len(sys.argv) > 5:
    try:
        held[0].drain_events(timeout=1)
    except TimeoutError:
        pass
    except FAULTS as error:
        print(json.dumps({"ended": str(error)}), flush=True)
        break
"""


@pytest.fixture
def cluster(tmp_path: Path):
    if (reason := missing_parts()) is not None:
        missing(reason)
    made = Cluster(tmp_path, ("w1", "w2"))
    try:
        yield made
    finally:
        made.close()


def hold(cluster: Cluster, home: Path, most: int = 1, channels: int = 1, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLD, str(home), cluster.url, str(most), str(channels), *more]
    return subprocess.Popen(inside(cluster.workers["w1"].space, *words), stdout=subprocess.PIPE, text=True)


def held(cluster: Cluster, home: Path, most: int = 1, channels: int = 1) -> dict[str, object]:
    value: dict[str, object] = json.loads(hold(cluster, home, most, channels).communicate(timeout=60)[0])
    return value


def users(cluster: Cluster) -> set[str]:
    return {line.split()[0] for line in cluster.rabbit.control("list_users").splitlines()[1:]}


@pytest.mark.slow
def test_shut_out_stays_shut_out(cluster: Cluster) -> None:
    """What `--remove` prints ends the worker's connections, and no boot brings its user back; the other goes on."""
    cluster.rabbit.start()
    homes = {}
    for name in ("w1", "w2"):
        homes[name] = cluster.folder / f"stolen-{name}"
        subprocess.run(["cp", "-r", str(cluster.files / "workers" / name), str(homes[name])], check=True)
    open_ = hold(cluster, homes["w1"], 1, 1, "wait")
    assert open_.stdout is not None and json.loads(open_.stdout.readline())["connections"] == 1

    steps = cluster.place.run("settings", "cluster", str(cluster.files), "--remove", "w1", expect=0).out.splitlines()
    typed = [shlex.split(line)[1:] for line in steps if line.strip().startswith("rabbitmqctl ")]
    assert [words[0] for words in typed] == ["import_definitions", "delete_user", *["delete_queue"] * 6]
    assert steps[-1] == "Restart the daemon."
    for words in typed:
        cluster.rabbit.control(*words)
    assert "user 'w1' is deleted" in json.loads(open_.stdout.readline())["ended"]
    open_.communicate(timeout=30)

    def shut_out() -> None:
        assert "ACCESS_REFUSED" in str(held(cluster, homes["w1"])["refused"])
        assert held(cluster, homes["w2"]) == {"connections": 1, "channels": 1}
        assert users(cluster) == {"daemon", "w2"}
        queues = cluster.rabbit.control("list_queues", "-p", "threegate", "name").split()
        assert "job.w2" in queues and not [name for name in queues if name.endswith(".w1")]

    shut_out()
    cluster.rabbit.kill()
    assert held(cluster, homes["w1"])["connections"] == 0
    cluster.rabbit.start()
    shut_out()


@pytest.mark.slow
def test_a_certificate_has_limits_and_members_need_half_of_them(cluster: Cluster) -> None:
    """One certificate holds 16 connections and 32 channels; a worker and a daemon at work hold at most half of that."""
    cluster.start()
    cluster.daemon()
    names = [request_id(f"counted-{number}") for number in range(4)]
    for name in names:
        cluster.place.approve(cluster.place.drop(monty_draft(name, "1 + 1")))
    assert set(cluster.wait_end(*names).values()) == {"succeeded"}
    members = counted(cluster)
    assert members.keys() == {"daemon", "w1", "w2"}
    for name, (connections, channels) in members.items():
        print(name, connections, channels)
        assert 2 * connections <= limits.BROKER_USER_CONNECTIONS, (name, connections)
        assert 2 * channels <= limits.BROKER_USER_CHANNELS, (name, channels)
    cluster.workers["w2"].stop()
    home = cluster.files / "workers" / "w2"
    said = held(cluster, home, 300)
    assert said["connections"] == limits.BROKER_USER_CONNECTIONS and "connection limit" in str(said["refused"])
    said = held(cluster, home, 2, 200)
    assert said["channels"] == limits.BROKER_USER_CHANNELS and "user limit" in str(said["refused"])
    assert cluster.workers["w1"].alive and "w1" in counted(cluster)


def counted(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """User → connections, channels."""
    found: dict[str, tuple[int, int]] = {}
    for line in cluster.rabbit.control("list_connections", "user", "channels").splitlines()[1:]:
        user, _, number = line.partition("\t")
        connections, channels = found.get(user, (0, 0))
        found[user] = (connections + 1, channels + int(number or 0))
    return found
