"""Three machines, a real broker, real certificates: the short form of every fault that a cluster has to stand."""

from __future__ import annotations

import base64
import collections
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watchdog.events import DirCreatedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from tests.conftest import missing
from tests.plugins.cluster.envelopes import envelope_of, sealed_of
from tests.plugins.cluster.machines import Cluster, inside, missing_parts
from tests.support import make_key, monty_draft, request_id, wait_until
from threegate.cli import execute
from threegate.setup.settings_file import set_values

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

WORKERS = """\
[runners]
memory_budget_mb = {memory}
cpu_budget = {cores}
[runners.monty]
workers = 4
"""
SLEEP = "import time\nfor i in range(400):\n    time.sleep(0.1)\n"


class Count(FileSystemEventHandler):
    """Counts from outside how often a run folder was made, by request: one for each run that began."""

    def __init__(self, cluster: Cluster) -> None:
        self.runs: collections.Counter[str] = collections.Counter()
        self._observer = Observer()
        for worker in cluster.workers.values():
            runs = worker.state / "runs"
            runs.mkdir(parents=True, exist_ok=True)
            self._observer.schedule(self, str(runs))
        self._observer.start()

    def on_created(self, event: FileSystemEvent) -> None:
        if isinstance(event, DirCreatedEvent):
            self.runs[Path(str(event.src_path)).name.rpartition(".")[0]] += 1

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()


@pytest.fixture
def cluster(tmp_path: Path):
    """Three workers: w1 with 3 cores and little memory, w2 with 4 cores, w3 with 2 cores and most memory."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    made = Cluster(tmp_path)
    try:
        for name, memory, cores in (("w1", 1024, "3.0"), ("w2", 2048, "4.0"), ("w3", 4096, "2.0")):
            text = WORKERS.format(memory=memory, cores=cores)
            (made.workers[name].home / "worker.toml").write_text(text)
        set_values(made.place.root / "threegate.toml", {"cluster.away_sec": 40})  # a broker takes its time to start
        made.start()
        yield made
    finally:
        made.close()


def approve(cluster: Cluster, slug: str, code: str, memory_mb: int = 64, **more: Any) -> str:
    """An approved request; its id."""
    name = request_id(slug)
    draft = cluster.place.drop(monty_draft(name, code, memory_mb=memory_mb, **more))
    words = ["approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes"]
    assert execute(["--workspace", str(cluster.place.root), *words]) == 0
    return name


def hand(cluster: Cluster, acts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Play the daemon inside its namespace; what came back, by the act's name."""
    done = subprocess.run(
        inside(
            cluster.daemon_space,
            sys.executable,
            "-m",
            "tests.plugins.cluster.envelopes",
            str(cluster.place.root),
            str(cluster.files),
        ),
        input="".join(json.dumps(act) + "\n" for act in acts),
        capture_output=True,
        text=True,
        timeout=180,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    return {answer["name"]: answer for answer in map(json.loads, done.stdout.splitlines())}


def code_of(answer: dict[str, Any]) -> str:
    """The code of the refusal that an act met, or how it ended otherwise."""
    last = answer["heard"][-1] if answer["heard"] else {"kind": "nothing"}
    return str(last.get("code") or last.get("status") or last["kind"])


@pytest.mark.soak  # the page's test has four machines, too
def test_three_machines(cluster: Cluster) -> None:
    """Attacks without a daemon, then the whole way, then workers, net and broker fail; an observer counts the runs."""
    count = Count(cluster)
    try:
        attacks(cluster, count)
        certificates(cluster)
        cluster.daemon()
        ordinary(cluster, count)
        cut = net_cut(cluster)
        net_healed(cluster, cut)
        other_operators(cluster, count)
        worker_killed(cluster)
        broker_killed(cluster)
        assert cluster.wait_end(cut)[cut] == "interrupted"
        assert not [name for name, runs in count.runs.items() if runs > 1], count.runs
        audit = cluster.place.run("audit", "verify")
        assert audit.code == 0, audit.out + audit.err
    finally:
        count.close()


def attacks(cluster: Cluster, count: Count) -> None:
    """What a taken-over broker or a stolen workspace key can send: nothing of it runs, and workers go on."""
    root = cluster.place.root
    name = approve(cluster, "attacked", "print(1)")
    good = envelope_of(root, name, "w1", nonce="1" * 32)
    sealed = sealed_of(root, good)
    changed = bytearray(sealed)
    place = sealed.index(b'"request":"') + 40
    changed[place] = ord("A") if changed[place] != ord("A") else ord("B")
    other = sealed_of(root, envelope_of(root, name, "w1", nonce="2" * 32, age=4000))
    unsigned = good.model_copy(update={"nonce": "6" * 32, "request": good.request + b"\n"})

    def act(what: str, worker: str, nonce: str, data: bytes, **more: Any) -> dict[str, Any]:
        return {"name": what, "worker": worker, "nonce": nonce, "sealed": data.decode(), **more}

    evil = pickle.dumps({"task": "threegate.run", "args": ["x"]})
    second = approve(cluster, "replayed", "print(2)")
    once = sealed_of(root, envelope_of(root, second, "w1", nonce="7" * 32))
    again = sealed_of(root, envelope_of(root, second, "w1", nonce="8" * 32))
    answers = hand(
        cluster,
        [
            act("one byte changed", "w1", "1" * 32, bytes(changed)),
            act("expired", "w1", "2" * 32, other),
            act("misdirected", "w2", "1" * 32, sealed),
            act("signed by nobody", "w1", "6" * 32, sealed_of(root, unsigned)),
            {
                "name": "pickled",
                "worker": "w1",
                "nonce": "5" * 32,
                "raw": base64.b64encode(evil).decode(),
                "content_type": "application/x-python-serialize",
                "headers": {"task": "threegate.run", "id": "5" * 32, "lang": "py"},
                "seconds": 2,
            },
            act("no token", "w1", "4" * 32, sealed_of(root, good.model_copy(update={"nonce": "4" * 32}))),
            act("first", "w1", "7" * 32, once, start=True),
            act("same envelope", "w1", "7" * 32, once, start=True),
            act("same approval", "w1", "8" * 32, again, start=True),
        ],
    )
    assert code_of(answers["one byte changed"]) == "envelope_invalid"
    assert code_of(answers["expired"]) == "envelope_expired"
    assert code_of(answers["misdirected"]) == "envelope_misdirected"
    assert code_of(answers["signed by nobody"]) == "request_changed"
    assert code_of(answers["pickled"]) == "lost", "refused unread, and the broker says so"
    assert code_of(answers["no token"]) == "no_token"
    assert count.runs[name] == 0
    assert code_of(answers["first"]) == "succeeded"
    assert code_of(answers["same envelope"]) == "replayed"
    assert code_of(answers["same approval"]) == "replayed"
    assert count.runs[second] == 1
    assert answers["same approval"]["live"] == ["w1", "w2", "w3"]
    for left in (name, second):  # they were played by hand; the daemon has nothing to do with them
        cluster.place.run("cancel", left, expect=0)


ASK = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1] + "/ca.pem")
if sys.argv[2] != "none":
    context.load_cert_chain(sys.argv[2] + "/tls.pem", sys.argv[2] + "/tls.key")
if sys.argv[3] == "old":
    context.maximum_version = ssl.TLSVersion.TLSv1_2
try:
    with context.wrap_socket(socket.create_connection(("10.77.0.2", 5671), 5), server_hostname="10.77.0.2") as tls:
        tls.sendall(b"AMQP\\0\\0\\x09\\x01")
        tls.settimeout(5)
        print("answered" if tls.recv(8) else "no answer")
except OSError:  # an alert or a reset, whichever comes first
    print("no answer")
"""
USE = """
import json, sys
from pathlib import Path
import amqp
from threegate.plugins.cluster.broker import Broker, FAULTS
broker, answers = Broker("amqps://10.77.0.2:5671/threegate", Path(sys.argv[1])), []
for what, name in json.loads(sys.argv[2]):
    try:
        with broker.connection() as connection:
            channel = connection.channel()
            if what == "read":
                channel.basic_get(name)
            elif what == "write":
                exchange, _, key = name.partition("/")
                channel.basic_publish_confirm(amqp.Message(b"x", channel=channel), exchange, key)
            else:
                channel.queue_declare(name)
        answers.append("allowed")
    except FAULTS as error:
        answers.append(type(error).__name__)
print(json.dumps(answers))
"""


def certificates(cluster: Cluster) -> None:
    """No certificate, one of another CA, an old TLS; and what a worker's own certificate may not do."""
    other = cluster.folder / "other"
    cluster.place.run("settings", "cluster", str(other), "--worker", "w1", "--host", "10.77.0.2", expect=0)
    home, space = cluster.files / "workers", cluster.daemon_space

    def ask(identity: str, how: str = "new") -> str:
        words = [sys.executable, "-c", ASK, str(home / "w1"), identity, how]
        return subprocess.run(inside(space, *words), capture_output=True, text=True).stdout.strip()

    assert ask(str(home / "w1")) == "answered"
    assert ask("none") == "no answer"
    assert ask(str(other / "workers" / "w1")) == "no answer"
    assert ask(str(home / "w1"), "old") == "no answer"
    plain = "import socket; socket.create_connection(('10.77.0.2', 5672), 3)"
    assert subprocess.run(inside(space, sys.executable, "-c", plain), capture_output=True).returncode != 0
    tries = [
        ("read", "job.w2"),
        ("read", "note.w2"),
        ("read", "beat.w2"),
        ("read", "chunk.w2"),
        ("read", "lead"),
        ("read", "res.w2"),
        ("read", "lost"),
        ("write", "/job.w2"),
        ("write", "job/w2"),
        ("write", "res.w2/"),
        ("write", "note/w2"),
        ("write", "beat/"),
        ("write", "lead/"),
        ("write", "out.w2/"),
        ("declare", "mine"),
        ("write", "res.w1/"),
    ]
    words = [sys.executable, "-c", USE, str(home / "w1"), json.dumps(tries)]
    done = subprocess.run(inside(space, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = dict(zip(tries, json.loads(done.stdout), strict=True))
    assert answers.pop(("write", "res.w1/")) == "allowed"
    assert set(answers.values()) == {"AccessRefused"}, answers


def ordinary(cluster: Cluster, count: Count) -> None:
    """Requests with inputs and outputs, spread over the workers; and one that is cancelled while it runs."""
    digest = cluster.place.input("data.txt", b"42" * 3_000_000)
    code = "data = open('/in/data.txt').read()\nopen('/out/copy.txt', 'w').write(data)\nlen(data)"
    names = [
        approve(cluster, f"o{number}", code, inputs={"data.txt": digest}, outputs=["/out/copy.txt"])
        for number in range(2)
    ]
    failing = approve(cluster, "fails", "1 // 0")
    slow = approve(cluster, "slow", SLEEP, time_sec=60)
    wait_until(lambda: count.runs[slow], lambda: cluster.daemon_log, 40)

    def shown() -> set[str]:
        """Written with each beat."""
        rows = cluster.place.run("status", "--json").json().get("workers", [])
        return {row["worker"] for row in rows}

    wait_until(lambda: shown() == {"w1", "w2", "w3"}, "three workers in the status")
    cluster.place.run("cancel", slow, expect=0)
    ends = cluster.wait_end(*names, failing, slow)
    assert [ends[name] for name in (*names, failing, slow)] == [
        "succeeded",
        "succeeded",
        "failed",
        "cancelled",
    ]
    for name in names:
        copy = cluster.place.root / "tool-exec" / "runs" / name / "out" / "copy.txt"
        assert copy.read_bytes() == b"42" * 3_000_000
    started = [event for event in cluster.place.events("started") if event["request_id"] == names[0]]
    worker, machine = started[0]["data"]["worker"], started[0]["data"]["machine"]
    assert worker in cluster.workers and machine
    assert f"Run by worker {worker} on machine {machine}." in cluster.place.result(names[0])
    assert f"on worker {worker} (machine {machine})" in cluster.place.run("audit", "show", "--request", names[0]).out


def other_operators(cluster: Cluster, count: Count) -> None:
    """A worker whose operators file names somebody else runs nothing of ours; another one does."""
    worker = cluster.workers["w2"]
    ours = worker.operators.read_text()
    key = make_key(cluster.folder / "stranger")
    kind, text, *_ = Path(f"{key}.pub").read_text().split()
    worker.operators.write_text(f'operator namespaces="threegate-approval,threegate-act" {kind} {text}\n')
    name = approve(cluster, "stranger", "print(1)", memory_mb=1500)
    worker.wait_said("signer_unknown")
    assert cluster.wait_end(name)[name] == "succeeded"
    worker.operators.write_text(ours)
    assert running_on(cluster, name) == "w3" and count.runs[name] == 1


def running_on(cluster: Cluster, name: str, seconds: float = 30) -> str:
    """The worker that the trail says a request was started on."""

    def workers() -> list[str]:
        started = [event for event in cluster.place.events("started") if event["request_id"] == name]
        return [str(event["data"]["worker"]) for event in started]

    return wait_until(workers, lambda: cluster.daemon_log[-2000:], seconds)[0]


def net_cut(cluster: Cluster) -> str:
    """A worker is taken off the net in the middle of a run; the run's request."""
    name = approve(cluster, "cut", SLEEP, memory_mb=3000, time_sec=90)
    assert running_on(cluster, name) == "w3"
    cluster.workers["w3"].wait_said(f"started {name}")  # the trail says it before the worker has the start token
    cluster.net.cut("w3")
    return name


def net_healed(cluster: Cluster, name: str) -> None:
    """It ended its run itself, before anybody reported it lost, and says so when it is back."""
    cluster.workers["w3"].wait_said(f"ended {name}: interrupted")
    assert name not in cluster.ends(), "it was reported lost before it was ended"
    cluster.net.heal("w3")


def worker_killed(cluster: Cluster) -> None:
    """kill -9 in the middle: interrupted, not repeated; the worker comes back and takes work again."""
    name = approve(cluster, "killed", SLEEP, time_sec=90)
    worker = cluster.workers[running_on(cluster, name)]
    worker.kill()
    ends = cluster.wait_end(name)
    assert ends[name] == "interrupted"
    assert f"worker {worker.name}, its machine or its net stopped" in cluster.place.result(name)
    worker.start()


def broker_killed(cluster: Cluster) -> None:
    """kill -9 of the broker: what runs goes on, and what comes after the restart works."""
    names = [approve(cluster, f"b{number}", SLEEP, time_sec=90) for number in range(2)]
    for name in names:
        running_on(cluster, name)
    cluster.rabbit.kill()
    cluster.rabbit.start()
    ends = cluster.wait_end(*names, seconds=90)
    assert [ends[name] for name in names] == ["succeeded", "succeeded"]
    after = approve(cluster, "after", "'all is well'", memory_mb=3000)
    assert cluster.wait_end(after, seconds=90)[after] == "succeeded"
