"""A removed worker's certificate, and one that was stolen, at a real broker: before, during and after a restart."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.cluster.machines import BROKER_ADDRESS, Cluster, inside, missing_parts
from tests.support import monty_draft, request_id, wait_until
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


def hold(
    cluster: Cluster, home: Path, most: int = 1, channels: int = 1, *more: str, url: str = ""
) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLD, str(home), url or cluster.url, str(most), str(channels), *more]
    return subprocess.Popen(inside(cluster.workers["w1"].space, *words), stdout=subprocess.PIPE, text=True)


def held(cluster: Cluster, home: Path, most: int = 1, channels: int = 1, url: str = "") -> dict[str, object]:
    """How much a certificate gets, and what refused more."""
    value: dict[str, object] = json.loads(hold(cluster, home, most, channels, url=url).communicate(timeout=60)[0])
    return value


def users(cluster: Cluster) -> set[str]:
    return {line.split()[0] for line in cluster.rabbit.control("list_users").splitlines()[1:]}


@pytest.mark.soak
def test_shut_out_stays_shut_out(cluster: Cluster) -> None:
    """What `--remove` prints ends the worker's connections, and no boot brings its user back; the other goes on."""
    homes = {}
    for name, worker in cluster.workers.items():
        homes[name] = worker.home = cluster.folder / f"machine-{name}"
        shutil.copytree(cluster.files / "workers" / name, worker.home)
        worker.operators = worker.home / "operators"
    cluster.start()
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
    cluster.workers["w1"].wait_said("w1: ended; the broker refuses its certificate")
    wait_until(lambda: not cluster.workers["w1"].alive)

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
    assert cluster.workers["w2"].alive


@pytest.mark.soak
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


@pytest.mark.soak
def test_two_daemons_on_one_broker_and_a_renewed_certificate(cluster: Cluster) -> None:
    """A member of one virtual host gets nothing in the other, and a running broker takes up its own new certificate."""
    theirs = cluster.folder / "theirs"
    words = ["settings", "cluster", str(theirs), "--worker", "w1", "--host", BROKER_ADDRESS, "--vhost", "b"]
    (theirs / "ca").mkdir(parents=True)
    shutil.copy(cluster.files / "ca/ca.pem", theirs / "ca/broker.pem")
    cluster.place.run(*words, expect=0)
    shutil.copy(theirs / "ca/ca.pem", cluster.files / "ca/b.pem")
    cluster.place.run("settings", "cluster", str(cluster.files), expect=0)
    shutil.copy(theirs / "broker/definitions/b.json", cluster.files / "broker/definitions/b.json")
    cluster.rabbit.start()
    assert users(cluster) == {"daemon", "w1", "w2", "daemon@b", "w1@b"}
    ours, good = cluster.files / "workers" / "w1", {"connections": 1, "channels": 1}
    other = cluster.url.replace("/threegate", "/b")
    assert held(cluster, ours) == good and held(cluster, theirs / "workers/w1", url=other) == good
    for home, url in ((ours, other), (theirs / "workers/w1", cluster.url)):
        assert "refused" in str(held(cluster, home, url=url)["refused"])

    def serial() -> str:
        probe = "import ssl, sys; print(ssl.get_server_certificate((sys.argv[1], 5671)))"
        command = inside(cluster.daemon_space, sys.executable, "-c", probe, BROKER_ADDRESS)
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    before = serial()
    (cluster.files / "broker/tls.pem").unlink()
    steps = cluster.place.run("settings", "cluster", str(cluster.files), expect=0).out
    [eval_] = [shlex.split(line)[1:] for line in steps.splitlines() if "eval" in line]
    cluster.rabbit.control(*eval_)
    assert before and before != serial() == (cluster.files / "broker/tls.pem").read_text().strip()
    assert held(cluster, ours) == good


def counted(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """User → connections, channels."""
    found: dict[str, tuple[int, int]] = {}
    for line in cluster.rabbit.control("list_connections", "user", "channels").splitlines()[1:]:
        user, _, number = line.partition("\t")
        connections, channels = found.get(user, (0, 0))
        found[user] = (connections + 1, channels + int(number or 0))
    return found
