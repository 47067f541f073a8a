"""What a taken-over worker, or a taken-over broker, can make of the notes between daemon and worker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.plugins.cluster.test_parts import told
from tests.support import wait_until
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import Broker, WorkQueue
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.link import Link
from threegate.plugins.cluster.notes import FROM_WORKER, read_note
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.worker.heartbeat import Active, Agent
from threegate.trail.workspace_key import SigningKey

NONCE = "1" * 32
DIGEST = "2" * 64


def key(name: str = "w1") -> SigningKey:
    return SigningKey(name, Ed25519PrivateKey.generate())


def note(**more: Any) -> dict[str, Any]:
    return {**told(), "worker": "w1", "boot": "1", "seq": 1, "time": int(time.time()), **more}


class Leading:
    """As a daemon that leads."""

    problem = None
    leads = True

    def cover(self) -> None:
        pass


class Daemon:
    """A link without a broker: what it says, what it would publish, and when."""

    def __init__(self, tmp_path: Any) -> None:
        self.keys = {name: key(name) for name in ("w1", "w2")}
        self.ledger = Ledger(("w1", "w2"), None)
        self.said: list[str] = []
        self.told: list[tuple[str, str, dict[str, Any]]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.link = Link(
            Broker("amqps://127.0.0.1:1/x", tmp_path),
            Workspace(tmp_path),
            key("daemon"),
            {name: item.public for name, item in self.keys.items()},
            self.ledger,
            boot="b" * 16,
            told_file=None,
            say=self.said.append,
        )
        self.link.lead = Leading()  # type: ignore[assignment]
        self.link.tell = self._tell  # type: ignore[method-assign]

    def _tell(self, worker: str, type: str, **value: Any) -> None:
        assert self.answers.wait(60)
        self.told.append((worker, type, value))

    def hears(self, data: bytes, worker: str = "w1", **headers: Any) -> None:
        """As the wire hands a message over."""
        heard = self.link.heard_chunk if "offset" in headers else self.link.heard
        heard(f"res.{worker}", data, headers)

    def sends(self, type: str, by: str = "w1", **value: Any) -> bytes:
        return seal(self.keys[by], type, {**note(worker=by), **value})


@pytest.fixture
def daemon(tmp_path: Any):
    made = Daemon(tmp_path)
    yield made
    made.link.close()


@pytest.mark.parametrize(
    "more",
    [
        {"reason": "x" * 1_000},
        {"machine": "x" * 1_000},
        {"machine": "\x1b[2J"},
        {"images": ["x"] * 1_000},
        {"images": ["x" * 1_000]},
        {"running": [[NONCE, "TR-a"]] * (limits.CLUSTER_RUNS + 1)},
        {"running": [["x", "TR-a"]]},
        {"running": [[NONCE, "x" * 1_000]]},
        {"cores": "9" * 1_000},
        {"cores": "1e9"},
        {"cores": "NaN"},
        {"memory_mb": -1},
        {"rows": {"era": True}},
        {"rows": {"era": 5_000}},
        {"rows": {"era": -1}},
        {"rows": {f"x{number}": 1 for number in range(1_000)}},
        {"memory_mb": 2**50},
        {"seq": -1},
        {"seq": "1"},
        {"boot": "x" * 16},
        {"worker": "w2"},
        {"version": "9" * 1_000},
        {"version": "1\x1b[2J"},
        {"version": "0.1.0\n"},
        {"version": 1},
        {"version": None},
        {"request_sha256": "f" * 63},
        {"request_sha256": "F" * 64},
        {"aana_sha256": "f" * 65},
        {"aana_sha256": ["f" * 64]},
        {"operators_sha256": "the same as yours"},
        {"operators_sha256": "f" * 64 + "\n"},
        {"certificate_end": -1},
        {"certificate_end": "2030-01-01"},
        {"certificate_end": True},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_status_beyond_its_bounds_changes_nothing(daemon: Daemon, more: dict[str, Any]) -> None:
    """Signed by the worker's own key all the same."""
    with pytest.raises(Refused):
        daemon.hears(daemon.sends("status", **more))
    assert daemon.ledger.seats()[0].heard is None and daemon.told == []


def test_a_status_of_7_megabytes_does_not_make_another_worker_lost(daemon: Daemon) -> None:
    """175,000 runs that nobody knows: each was answered by a cancel, published by the listener itself."""
    daemon.answers.clear()
    data = daemon.sends("status", running=[[f"{number:032x}", "TR-a"] for number in range(175_000)])
    assert 5_000_000 < len(data) < limits.CLUSTER_SEALED_BYTES
    began = time.monotonic()
    daemon.hears(data)
    daemon.hears(daemon.sends("status", "w2"), "w2")
    assert time.monotonic() - began < 2 and daemon.ledger.seats()[1].live()
    wait_until(lambda: daemon.link.wire.dropped("res.w1") == 1)
    daemon.answers.set()
    assert daemon.told == [] and not daemon.ledger.seats()[0].live()
    disguised = daemon.sends("status", reason='"type":"result"' * 5_000, worker='w1"type":"result"')
    daemon.hears(disguised)
    wait_until(lambda: daemon.link.wire.dropped("res.w1") == 2)


def test_a_result_of_millions_of_parts_is_dropped_before_it_is_read(daemon: Daemon) -> None:
    """Signed, and within its bytes: each empty list costs ten times as much memory as it has bytes."""
    parts = {"outcome": {"x": [[]] * 200_000}, "inline": {}, "nonce": NONCE, "envelope_sha256": DIGEST}
    with pytest.raises(Refused, match="longer than one of its type"):
        read_note(daemon.sends("result", **parts), daemon.keys["w1"].public, FROM_WORKER, "w1")
    daemon.hears(daemon.sends("result", **parts))
    wait_until(lambda: daemon.link.wire.dropped("res.w1") == 1)


def test_the_largest_result_is_read(daemon: Daemon) -> None:
    """As many artifacts, dropped names and destinations as an outcome may have."""
    line = {"host": "h" * 60, "port": 443, "bytes": 1, "allowed": True, "busy": False}
    outcome = {
        "artifacts": [{"path": f"a{n}", "size": 1, "sha256": DIGEST} for n in range(limits.OUT_FILES)],
        "dropped": ["x, y" * 20] * limits.OUTCOME_LINES,
        "destinations": [line] * limits.OUTCOME_LINES,
    }
    data = daemon.sends("result", outcome=outcome, inline={}, nonce=NONCE, envelope_sha256=DIGEST)
    assert read_note(data, daemon.keys["w1"].public, FROM_WORKER, "w1")["outcome"] == outcome


def test_the_listener_never_waits_for_the_broker(daemon: Daemon) -> None:
    """As many strangers as a status may name, and answers that take their time: hearing goes on."""
    daemon.answers.clear()
    began = time.monotonic()
    for seq in range(1, 20):
        running = [[f"{seq:016x}{number:016x}", "TR-a"] for number in range(200)]
        daemon.hears(daemon.sends("status", seq=seq, running=running))
    for number in range(100):
        daemon.hears(daemon.sends("may-start", nonce=f"{number:032x}", envelope_sha256=DIGEST, ask=NONCE))
    assert time.monotonic() - began < 4
    assert daemon.told == []
    daemon.answers.set()
    wait_until(lambda: daemon.told, "an answer")


def test_a_status_that_was_kept_is_no_sign_of_life(daemon: Daemon) -> None:
    """The same again, an older one, one of an earlier life, one of an hour ago."""
    daemon.hears(daemon.sends("status", boot="5", seq=7))
    daemon.hears(daemon.sends("status", boot="6", seq=1))
    seat = daemon.ledger.seats()[0]
    seat.heard = None
    for value in (
        {"boot": "6", "seq": 1},
        {"boot": "6", "seq": 0},
        {"boot": "5", "seq": 8},
        {"boot": "6", "seq": 2, "time": int(time.time()) - 3600},
        {"boot": "7", "seq": 1, "time": int(time.time()) + 3600},
    ):
        with pytest.raises(Refused):
            daemon.hears(daemon.sends("status", **value))
        assert seat.heard is None, value
    assert "clock" in seat.reason
    daemon.hears(daemon.sends("status", boot="6", seq=2))
    assert seat.heard is not None and seat.live()


def test_a_flood_of_garbage_is_one_line(daemon: Daemon) -> None:
    """A worker fills its own queue with what nobody can read, and the log stays readable."""
    wire = daemon.link.wire

    class Channel:
        acknowledged = 0

        def basic_ack(self, _tag: int) -> None:
            Channel.acknowledged += 1

    class Message:
        channel = Channel()
        delivery_tag = 1
        properties: dict[str, Any] = {}
        body: Any = b""

    take = wire._taken("res.w1")
    bodies: list[Any] = [b"", "text", b"\xff" * 100, b"{}\n" + b"0" * 128, b"x" * 17_000_000, 5, None]
    for body in bodies * 20:
        message = Message()
        message.body = body
        take(message)
    for headers in ({"kind": "chunk"}, {"kind": "chunk", "nonce": ["x"]}, {"id": 1}, {b"\xff": 1}):
        message = Message()
        message.properties = {"application_headers": headers}
        take(message)
    assert wire.dropped("res.w1") == len(bodies) * 20 + 4 == Channel.acknowledged
    assert len(daemon.said) == 1 and "res.w1: dropped a message" in daemon.said[0]


def test_late_results_of_a_worker_do_not_fill_the_log(daemon: Daemon) -> None:
    """Each is said once, and only so many of them."""
    for number in range(limits.CLUSTER_LATE_RESULTS + 50):
        data = daemon.sends("result", nonce=f"{number:032x}", envelope_sha256=DIGEST, outcome={}, inline={})
        daemon.hears(data)
        daemon.hears(data)
    assert len(daemon.said) == limits.CLUSTER_LATE_RESULTS


def test_a_run_holds_one_result_and_one_chunk(daemon: Daemon) -> None:
    """256 messages of 8 MiB stood in memory for a run that asked for none of them."""
    box = daemon.link.open(NONCE, "w1")
    chunk = {"nonce": NONCE, "sha256": DIGEST, "offset": 0}
    for _ in range(5):
        with pytest.raises(Refused):
            daemon.hears(b"x", **chunk)
    box.wanted = (DIGEST, 0)
    with pytest.raises(Refused):
        daemon.hears(b"x", **{**chunk, "offset": 1})
    with pytest.raises(Refused):
        daemon.hears(b"x", "w2", **chunk)
    daemon.hears(b"x", **chunk)
    with pytest.raises(Refused):
        daemon.hears(b"x", **chunk)
    result = daemon.sends("result", nonce=NONCE, envelope_sha256=DIGEST, outcome={}, inline={})
    for _ in range(50):
        daemon.hears(result)
    assert box.messages.qsize() == 2 and daemon.told == []
    for _ in range(limits.CLUSTER_MAILBOX * 2):
        daemon.hears(daemon.sends("want", nonce=NONCE, sha256=DIGEST, offset=0))
    assert box.messages.qsize() == limits.CLUSTER_MAILBOX
    again = daemon.link.open("3" * 32, "w1")
    for _ in range(limits.CLUSTER_MAILBOX):
        daemon.hears(daemon.sends("want", nonce="3" * 32, sha256=DIGEST, offset=0))
    late = daemon.sends("result", nonce="3" * 32, envelope_sha256=DIGEST, outcome={}, inline={})
    daemon.hears(late)
    again.messages.get()
    daemon.hears(late)
    assert again.answered, "a result that had no room is taken when it is sent again"


def test_large_notes_of_one_worker_are_read_apart(daemon: Daemon) -> None:
    """More than a few of them at once are dropped; the listener reads none of them itself."""
    data = daemon.sends("result", nonce=NONCE, envelope_sha256=DIGEST, outcome={"x": "y" * 100_000}, inline={})
    box = daemon.link.open(NONCE, "w1")
    daemon.hears(data)
    wait_until(lambda: box.answered)
    reader = daemon.link._readers["w1"]
    gate = __import__("threading").Event()
    reader.put(gate.wait)
    with pytest.raises(Refused):
        for _ in range(limits.CLUSTER_LARGE_NOTES + 2):
            daemon.hears(data)
    gate.set()


def test_a_replayed_go_starts_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the journal rolled back, the job and the token of last time are sent again: the worker waits in vain."""
    monkeypatch.setattr(limits, "CLUSTER_TOKEN_SECONDS", 1.0)
    workspace = key("workspace")
    agent = Agent(Broker("amqps://127.0.0.1:1/x", tmp_path), "w1", key(), workspace.public, None, lambda line: None)  # type: ignore[arg-type]
    from threegate.runners.interface import Control

    def job() -> Active:
        control = Control(tmp_path / "run", tmp_path, "ws", "0" * 16)
        return Active(NONCE, "TR-a", "b" * 16, DIGEST, control, frozenset(), 1)

    recorded: list[bytes] = []

    def answer(type: str, **value: Any) -> None:
        go = {"worker": "w1", "boot": "b" * 16, "seq": 1, "nonce": NONCE, "envelope_sha256": DIGEST}
        recorded.append(seal(workspace, "go", {**go, "ask": value["ask"]}))
        agent.heard("note.w1", recorded[0], {})

    agent.tell = answer  # type: ignore[method-assign]
    first = job()
    assert agent.enter(first) and agent.may_start(first)
    agent.leave(first)
    second = job()
    assert agent.enter(second) and not agent.may_start(second)


def test_a_worker_takes_no_chunk_that_it_did_not_ask_for(tmp_path: Any) -> None:
    """Unsigned bytes of 8 MiB each waited in its memory, 64 for a job."""
    from threegate.runners.interface import Control

    agent = Agent(Broker("amqps://127.0.0.1:1/x", tmp_path), "w1", key(), key("d").public, None, lambda line: None)  # type: ignore[arg-type]
    active = Active(NONCE, "TR-a", "b", DIGEST, Control(tmp_path, tmp_path, "ws", "0" * 16), frozenset({DIGEST}), 1)
    agent.enter(active)
    chunk = {"nonce": NONCE, "sha256": DIGEST, "offset": 0}
    for nonce in (NONCE, "3" * 32):
        with pytest.raises(Refused):
            agent.heard_chunk("chunk.w1", b"x", {**chunk, "nonce": nonce})
    active.wanted = (DIGEST, 0)
    agent.heard_chunk("chunk.w1", b"x", chunk)
    assert active.messages.qsize() == 1


def test_what_is_left_to_a_thread_is_bounded_and_never_ends_it() -> None:
    """A piece of work that raises, more than there is room for, and the end."""
    said: list[str] = []
    queued = WorkQueue("answers", 2, said.append)
    gate, done = threading.Event(), []
    assert queued.put(lambda: 1 // 0)
    assert "ZeroDivisionError" in wait_until(lambda: said, "what a failed piece of work says", 5)[0]
    begun = threading.Event()
    assert queued.put(lambda: begun.set() or gate.wait())
    assert begun.wait(5)
    assert [queued.put(lambda: done.append(1)) for _ in range(4)] == [True, True, False, False]
    queued.close(0)
    gate.set()
    assert not queued.put(lambda: None) and done == []


def test_a_broker_that_is_gone_costs_one_timeout_and_not_one_for_each(tmp_path: Any) -> None:
    """A daemon that stops tells every run's worker: they do not wait behind each other."""
    from threegate.plugins.cluster.broker import Wire

    wire = Wire(Broker("amqps://127.0.0.1:1/x", tmp_path), [], lambda *_: None, lambda line: None)
    tries = 0

    def fails() -> None:
        nonlocal tries
        tries += 1
        raise OSError("unreachable")

    wire.open_channel = fails  # type: ignore[method-assign]
    for _ in range(50):
        with pytest.raises(Unavailable):
            wire.publish("x", "x", b"")
    assert tries == 2
