"""A taken-over worker, broker and daemon against real ones, over a real broker.

`w1` is the attacker: its certificate and its key are in the hands of the test. `w2` is honest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import secrets
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import amqp
import pytest

from tests.conftest import missing
from tests.plugins.cluster.envelopes import envelope_of, sealed_of
from tests.plugins.cluster.machines import Cluster, entered, missing_parts
from tests.plugins.cluster.test_parts import outcome, told
from tests.support import monty_draft, request_id, wait_until
from threegate.cli import execute
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import Broker
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.link import Link, Mail
from threegate.plugins.cluster.outcome import write_outcome
from threegate.plugins.cluster.runner import enrolled
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.section import ClusterSettings
from threegate.plugins.cluster.worker.identity import read_identity
from threegate.runners.interface import Artifact
from threegate.trail.workspace_key import load_key

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

WORKER = "[runners]\nmemory_budget_mb = 1024\ncpu_budget = 4.0\n[runners.monty]\nworkers = 2\n"
SLEEP = "import time\nfor i in range(200):\n    time.sleep(0.1)\n"
BOOT = "b" * 16
NO_TOKEN = "no_token: the daemon gave no start token"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Path]]:
    """One broker and one honest worker for all of these."""
    if (reason := missing_parts()) is not None:
        missing(reason)
    folder = tmp_path_factory.mktemp("taken")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        made = Cluster(folder, ("w1", "w2"), worker_settings=WORKER)
    try:
        made.workers["w2"].start()
        made.rabbit.start()
        made.workers["w2"].wait_said("connected to the broker", 120)
        yield made, folder / "state"
    finally:
        made.close()


@pytest.fixture
def cluster(shared: tuple[Cluster, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made, state = shared
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    yield made
    made.stop_daemons()


def approve(cluster: Cluster, slug: str, code: str, memory_mb: int = 64, **more: Any) -> str:
    """An approved request; its id."""
    name = request_id(slug)
    draft = cluster.place.drop(monty_draft(name, code, memory_mb=memory_mb, **more))
    words = ["approve", str(draft), "--as", "operator", "--key", str(cluster.place.key), "--yes"]
    assert execute(["--workspace", str(cluster.place.root), *words]) == 0
    return name


class Peer:
    """A connection with somebody's certificate: publishes anything that its rights let it."""

    def __init__(self, cluster: Cluster, identity: Path, space: str) -> None:
        with entered(space):
            self._connection = Broker(cluster.url, identity).connection()
            self._connection.heartbeat = 0  # nobody beats between two calls of a test, which may be far apart
            self._connection.connect()
        self.channel = self._connection.channel()

    def publish(self, exchange: str, key: str, body: bytes, **properties: Any) -> None:
        """One message; returns when the broker has it."""
        message = amqp.Message(body, channel=self.channel, **properties)
        self.channel.basic_publish_confirm(message, exchange, key)

    def take(self, name: str) -> bytes | None:
        """The next message of a queue."""
        message = self.channel.basic_get(name, no_ack=True)
        return None if message is None else bytes(message.body)

    def close(self) -> None:
        self._connection.close()


class Rogue(Peer):
    """The worker w1: everything that it says is signed by the enrolled key."""

    def __init__(self, cluster: Cluster) -> None:
        worker = cluster.workers["w1"]
        super().__init__(cluster, worker.home, worker.space)
        self._key = read_identity(worker.home).key
        self._seq = 0
        self._lived = 0.0
        self.cores = "64"

    def says(self, type: str, **value: Any) -> None:
        self._seq += 1
        note = {"worker": "w1", "boot": "1", "seq": self._seq, **value}
        self.publish("res.w1", "w1", seal(self._key, type, note))

    def lives(self, **more: Any) -> None:
        """A status of a machine that can do anything."""
        self.says("status", **{**told(memory_mb=8192, cores=self.cores), "time": int(time.time()), **more})

    def waits(self, name: str, kind: str = "", seconds: float = 60) -> Any:
        """The next message of a queue, living meanwhile: a note of a type, or the envelope's digest and nonce."""

        def heard() -> Any:
            if time.monotonic() - self._lived > 0.2:
                self.lives()
                self._lived = time.monotonic()
            data = self.take(name)
            if data is None or not kind:
                return data
            note = json.loads(data.rpartition(b"\n")[0])
            return note if note["type"] == kind else None

        return wait_until(heard, f"{kind or 'message'} in {name}", seconds)


def memory_mb(pid: int) -> int:
    """The peak of a process's resident memory, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    raise AssertionError("no peak")


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def unreadable() -> list[tuple[bytes, dict[str, Any]]]:
    """Bodies with their properties. Made when they are needed: a gigabyte takes seconds to compress."""
    gigabyte = zlib.compress(bytes(1 << 30), 9)
    return [
        (b"x", {"application_headers": {"compression": "unknown"}}),
        (b"x", {"application_headers": {"compression": 5}}),
        (gigabyte, {"application_headers": {"compression": "application/x-gzip"}}),
        (zlib.compress(gigabyte, 9), {"application_headers": {"compression": "zlib"}}),
        (b"\xff\xfe\xff", {"content_encoding": "utf-8"}),
        (b"\xff\xfe\xff", {"content_encoding": "no such encoding"}),
        (b"x", {"content_encoding": "\x00"}),
        (b"\x80abc", {"content_type": "application/x-python-serialize", "content_encoding": "binary"}),
        (b"[" * 100_000, {"content_type": "application/json", "content_encoding": "utf-8"}),
        (b"", {}),
        (b"x" * 7_000_000, {}),
        (b"{}\n" + b"0" * 128, {"application_headers": {"kind": "chunk", "nonce": ["x"], "offset": {}}}),
        (b"x", {"application_headers": {"deep": deep(300)}}),
        (b"x", {"timestamp": 2**63 - 1, "application_headers": {"task": "threegate.run", "id": 5}}),
        (b"x", {"application_headers": {"task": ["x"], "id": "1" * 32, "eta": "x", "compression": ""}}),
        (
            b'[["x"], {}, {"callbacks": [{"task": "x"}]}]',
            {
                "content_type": "application/json",
                "content_encoding": "utf-8",
                "application_headers": {"task": "threegate.run", "id": "1" * 32, "lang": "py", "retries": 0},
            },
        ),
    ]


@pytest.mark.soak
def test_what_cannot_be_read_ends_no_listener(cluster: Cluster) -> None:
    """Unsigned messages with hostile properties, from a worker to the daemon and from a broker to a worker; then
    statuses of 7.8 MB. The honest worker stays, a request runs on it, and nobody's memory was taken.
    """
    messages = unreadable()
    process = cluster.daemon()
    rogue = Rogue(cluster)
    daemon = Peer(cluster, cluster.files / "daemon", cluster.daemon_space)
    worker = cluster.workers["w2"]
    try:
        for body, properties in messages * 2:
            rogue.publish("res.w1", "w1", body, **properties)
            for exchange in ("beat", "note", "chunk"):
                with suppress(amqp.exceptions.MessageNacked):  # it is longer than its queue
                    daemon.publish(exchange, "w2", body, **properties)
            daemon.publish("job", "w2", body, **properties)
        for number in range(3):
            strangers = [[f"{number}{n:031x}", "TR-x"] for n in range(178_000)]
            rogue.lives(running=strangers)
        name = approve(cluster, "honest", "2 + 2")
        assert cluster.wait_end(name, seconds=90)[name] == "succeeded", worker.log[-3000:] + cluster.place.result(name)
        started = [event for event in cluster.place.events("started") if event["request_id"] == name]
        assert started[0]["data"]["worker"] == "w2"
        assert process.poll() is None and worker.alive
        assert memory_mb(process.pid) < 600 and memory_mb(worker.pid) < 600
        assert cluster.daemon_log.count("dropped a message") == 1, cluster.daemon_log
        assert worker.log.count("dropped a message") == 2, worker.log  # one line for each of its queues
        assert "no report" not in cluster.daemon_log
        assert row_of(cluster, "w1")["dropped"] > len(messages)
    finally:
        rogue.close()
        daemon.close()


@pytest.mark.slow
def test_a_worker_that_keeps_its_outputs_does_not_keep_the_daemon(cluster: Cluster) -> None:
    """It signs a result and sends nothing more. First it says `unavailable` after the token, and gets no second one; a
    clock of an hour ago is no life.
    """
    process = cluster.daemon()
    rogue = Rogue(cluster)
    try:
        rogue.lives(time=int(time.time()) - 3600)
        nothing = approve(cluster, "nothing", "1", memory_mb=2000)
        row_of(cluster, "w1", "clock")
        nonce, digest = _given(rogue)
        rogue.says("result", nonce=nonce, envelope_sha256=digest, inline={}, outcome=_ended("unavailable"))
        assert cluster.wait_end(nothing)[nothing] == "interrupted"
        assert rogue.take("job.w1") is None, "it was sent a second time"
        kept = approve(cluster, "kept", "1", memory_mb=2000)
        nonce, digest = _given(rogue)
        artifact = Artifact("a", 1_000_000, hashlib.sha256(b"").hexdigest())
        rogue.says("result", nonce=nonce, envelope_sha256=digest, inline={}, outcome=_ended("succeeded", artifact))
        rogue.waits("note.w1", "want")
        began = time.monotonic()
        process.terminate()
        process.wait(60)
        assert time.monotonic() - began < 25
        assert cluster.ends()[kept] == "interrupted"
        assert cluster.place.run("audit", "verify").code == 0
    finally:
        rogue.close()


def row_of(cluster: Cluster, worker: str, reason: str = "") -> dict[str, Any]:
    """What `threegate status` shows of a worker, as soon as it shows this reason."""

    def found() -> dict[str, Any]:
        rows = cluster.place.run("status", "--json").json().get("workers", [])
        return next((row for row in rows if row["worker"] == worker and reason in row["reason"]), {})

    return wait_until(found, f"{worker}: {reason}", 20)


def _given(rogue: Rogue) -> tuple[str, str]:
    """Take the next job and its start token: nonce and digest of the envelope."""
    sealed = json.loads(rogue.waits("job.w1"))[0][0].encode()
    nonce = json.loads(sealed.rpartition(b"\n")[0])["nonce"]
    digest = hashlib.sha256(sealed).hexdigest()
    rogue.says("may-start", nonce=nonce, envelope_sha256=digest, ask=secrets.token_hex(16))
    assert rogue.waits("note.w1", "go")["nonce"] == nonce
    return nonce, digest


def _ended(status: str, *artifacts: Artifact) -> dict[str, Any]:
    return write_outcome(outcome(status=status, artifacts=artifacts))


def answer_to(mail: Mail) -> dict[str, str]:
    """What a start token repeats of the question for it."""
    return {name: mail.value[name] for name in ("envelope_sha256", "ask")}


class Hand:
    """The daemon's own keys and certificate without its gates: sends jobs, gives tokens, and keeps what it sent."""

    def __init__(self, cluster: Cluster) -> None:
        self._root = cluster.place.root
        settings = Workspace(self._root).load_settings()
        workers = enrolled(settings.section(ClusterSettings))
        self.ledger = Ledger(tuple(workers), None)
        self.link = Link(
            Broker(cluster.url, cluster.files / "daemon"),
            Workspace(self._root),
            load_key(settings.workspace.id),
            workers,
            self.ledger,
            boot=BOOT,
            told_file=None,
            say=lambda line: None,
        )
        self.sent: list[tuple[Any, ...]] = []
        publish = self.link.wire.publish

        def kept(*arguments: Any, **named: Any) -> None:
            self.sent.append(arguments)
            publish(*arguments, **named)

        self.link.wire.publish = kept  # type: ignore[method-assign]
        with entered(cluster.daemon_space):
            self.link.start()
            self.waits_for("w2")

    def waits_for(self, worker: str) -> None:
        seat = next(seat for seat in self.ledger.seats() if seat.name == worker)
        wait_until(seat.live, f"a sign of life of {worker}")

    def envelope(self, request: str, nonce: str, **more: Any) -> bytes:
        """The sealed envelope for w2."""
        return sealed_of(self._root, envelope_of(self._root, request, "w2", nonce=nonce * 32, **more))

    def send(self, sealed: bytes, nonce: str) -> Any:
        """Send a job; returns its mailbox."""
        box = self.link.open(nonce * 32, "w2")
        self.link.send_job("w2", nonce * 32, sealed, 120)
        return box

    def hears(self, box: Any, *kinds: str, seconds: float = 30) -> Mail:
        """The first message of these kinds; a question for the token gets it meanwhile, unless it is waited for."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                mail: Mail = box.messages.get(timeout=0.2)
                if mail.kind in kinds:
                    return mail
                if mail.kind == "may-start":
                    self.link.tell("w2", "go", nonce=box.nonce, **answer_to(mail))
        raise AssertionError(f"none of {kinds}")

    def ends(self, box: Any) -> str:
        """How a job ends: the status of its result, or the code of its refusal."""
        mail = self.hears(box, "result", "refused", "lost")
        if mail.kind == "result":
            self.link.tell("w2", "done", nonce=box.nonce)
            return str(mail.value["outcome"]["status"])
        return str(mail.value.get("code", mail.kind))


@pytest.mark.slow
def test_replays_reordering_kills_and_a_journal_of_yesterday(cluster: Cluster) -> None:
    """Every message is kept and sent again, later, in another order, and to a worker whose journal was put back."""
    worker = cluster.workers["w2"]
    names = [approve(cluster, f"played{number}", f"{number}") for number in range(5)]
    hand = Hand(cluster)
    try:
        with entered(cluster.daemon_space):  # a publisher that is opened again belongs there too
            jobs = [hand.envelope(name, str(number + 1)) for number, name in enumerate(names)]
            # A clock that is an hour off, on either side.
            for age, code in ((3600, "envelope_expired"), (-3600, "not_yet_valid")):
                assert hand.ends(hand.send(hand.envelope(names[0], "9", age=age), "9")) == code
            # The younger first, then each again and again.
            boxes = [hand.send(jobs[number], str(number + 1)) for number in (1, 0)]
            assert [hand.ends(box) for box in boxes] == ["succeeded", "succeeded"]
            for number in (0, 1, 0):
                assert hand.ends(hand.send(jobs[number], str(number + 1))) == "replayed"
            # A journal from before the next run, kept by an attacker.
            yesterday = (worker.state / "nonces.jsonl").read_bytes()
            hand.sent.clear()
            assert hand.ends(hand.send(jobs[2], "3")) == "succeeded"
            go = next(item for item in hand.sent if b'"type":"go"' in item[2])
            # Killed between the question for the token and the answer; the job was not acknowledged.
            box = hand.send(jobs[3], "4")
            answer = answer_to(hand.hears(box, "may-start"))
            worker.kill()
            (worker.state / "nonces.jsonl").write_bytes(yesterday)
            said = worker.log.count("connected to the broker")
            worker.start()
            wait_until(lambda: worker.log.count("connected to the broker") > said, lambda: worker.log)
            hand.link.tell("w2", "go", nonce="4" * 32, **answer)
            assert hand.ends(box) == "lost", "it was not delivered a second time"
            # The job of before the kill and its recorded token, to a worker that has forgotten both.
            box = hand.send(jobs[2], "3")
            hand.hears(box, "may-start")
            hand.link.wire.publish(*go)
            hand.link.tell("w2", "no", nonce="3" * 32)  # else it waits for another one
            assert hand.ends(box) == "no_token"
            # The worker takes work as before.
            assert hand.ends(hand.send(jobs[4], "5")) == "succeeded"
        starts = cluster.starts()
        assert [starts.get(name, 0) for name in names] == [1, 1, 1, 0, 1]
    finally:
        hand.link.close()
        for name in names:
            cluster.place.run("cancel", name)


def events_of(cluster: Cluster, request: str) -> list[str]:
    """The kinds of the events of a request from its claim on, in order."""
    kinds = [event["type"] for event in cluster.place.events() if event["request_id"] == request]
    return kinds[kinds.index("claimed") :]


def wait_event(cluster: Cluster, request: str, kind: str) -> None:
    wait_until(
        lambda: any(event["request_id"] == request for event in cluster.place.events(kind)),
        lambda: cluster.daemon_log[-3000:],
    )


@pytest.mark.soak
def test_a_daemon_killed_between_the_job_and_its_answer_ends_each_request_once(cluster: Cluster) -> None:
    """Killed where it had sent three jobs: one that its worker has not read, one that has its start token, and one that
    runs. What the workers say about them afterwards gets no token and no second end. The one that was not read keeps
    its approval and runs once, under the next daemon."""
    worker = cluster.workers["w2"]
    process = cluster.daemon()
    rogue = Rogue(cluster)
    asked = worker.log.count(NO_TOKEN)
    rogue.cores = "1"  # what needs less memory goes to w2
    try:
        runs = approve(cluster, "runs", SLEEP)
        wait_event(cluster, runs, "started")
        given = approve(cluster, "given", "1", memory_mb=2000)
        nonce, digest = _given(rogue)
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            unread = approve(cluster, "unread", "1")
            queued = "list_queues", "-p", "threegate", "name", "messages"
            wait_until(lambda: "job.w2\t2" in cluster.rabbit.control(*queued), "the job that is not read is sent", 30)
        finally:
            process.kill()
            process.wait(20)
            os.kill(worker.pid, signal.SIGCONT)
        cluster.rabbit.control("purge_queue", "-p", "threegate", "res.w1")
        rogue.lives(healthy=False)  # w2 gets what comes now
        inline: dict[str, Any] = {"inline": {}, "outcome": _ended("succeeded")}
        rogue.says("result", nonce=nonce, envelope_sha256=digest, **inline)
        second = cluster.daemon()
        ends = cluster.wait_end(runs, given, unread)
        assert [ends[name] for name in (runs, given, unread)] == ["interrupted", "interrupted", "succeeded"]
        rogue.says("may-start", nonce=nonce, envelope_sha256=digest, ask=secrets.token_hex(16))
        rogue.says("result", nonce=nonce, envelope_sha256=digest, **inline)
        # The first request lets the daemon speak to its workers, which then end what nobody waits for; w2 may be full
        # of it.
        cluster.wait_end(approve(cluster, "first", "1"))
        wait_until(
            lambda: worker.log.count(NO_TOKEN) > asked and not row_of(cluster, "w2")["running"],
            "the job that was not read came to its worker, which asked for its token",
            30,
        )
        after = approve(cluster, "after", "3 + 4")
        assert cluster.wait_end(after)[after] == "succeeded", (
            f"the worker and the daemon take work as before\n{cluster.result(after)}\n{cluster.daemon_log[-2500:]}"
        )
        assert rogue.take("job.w1") is None, "it was sent a second time"
        while (data := rogue.take("note.w1")) is not None:
            assert json.loads(data.rpartition(b"\n")[0])["type"] != "go"
        second.terminate()
        second.wait(60)
        assert cluster.ends() | ends == cluster.ends(), "an end has changed"
        starts = cluster.starts()
        assert [starts.get(name, 0) for name in (runs, given, unread, after)] == [1, 0, 1, 1]
        assert events_of(cluster, runs) == ["claimed", "started", "interrupted"]
        assert events_of(cluster, given) == ["claimed", "started", "interrupted"]
        assert events_of(cluster, unread) == ["claimed", "started", "finished"]
        results = cluster.place.root / "tool-exec" / "results"
        for name in (runs, given, unread):
            assert len(list(results.glob(f"TS-*-{name}.md"))) == 1
        assert cluster.place.run("audit", "verify").code == 0
    finally:
        rogue.close()
