"""One run on a worker that was taken over: it ends in time, never twice, and says what is known of it."""

from __future__ import annotations

import base64
import hashlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.engine_fixtures import monty_job
from tests.plugins.cluster.test_parts import outcome, told
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import Broker
from threegate.plugins.cluster.ledger import Ledger
from threegate.plugins.cluster.link import Link, Mail
from threegate.plugins.cluster.notes import TO_WORKER, read_note
from threegate.plugins.cluster.outcome import write_outcome
from threegate.plugins.cluster.remote_run import RemoteRun
from threegate.request.job import JobInput, Platform
from threegate.runners.interface import Artifact, Control, Evidence, Outcome
from threegate.trail.workspace_key import SigningKey

DATA = b"x" * 300_000
DIGEST = hashlib.sha256(DATA).hexdigest()
AWAY = 7
INPUT = hashlib.sha256(b"y" * 10).hexdigest()


class Stage:
    """A run whose worker is a function: it is called with the type and value of each note that the run sends."""

    def __init__(self, tmp_path: Path, worker: Callable[[Stage, str, dict[str, Any]], None]) -> None:
        self.worker = worker
        self.starts = 0
        self.chunks = 0
        self.told: list[str] = []
        self.envelope = ""
        self.nonce = ""
        self.key = SigningKey("daemon", Ed25519PrivateKey.generate())
        self.ledger = Ledger(("w1",), None)
        self.ledger.hear("w1", told())
        self.link = Link(
            Broker("amqps://127.0.0.1:1/x", tmp_path),
            Workspace(tmp_path),
            self.key,
            {"w1": self.key.public},
            self.ledger,
            boot="b" * 16,
            told_file=None,
            say=lambda line: None,
        )
        self.link.lead._heard = float("inf")  # this daemon leads
        self.link.send_job = self._send_job  # type: ignore[method-assign]
        self.link.tell = self._tell  # type: ignore[method-assign]
        self.link.send_chunk = self._send_chunk  # type: ignore[method-assign]
        (tmp_path / "run").mkdir()
        (tmp_path / "inputs").mkdir()
        (tmp_path / "inputs" / INPUT).write_bytes(b"y" * 10)
        self.control = Control(tmp_path / "run", tmp_path / "inputs", "ws-" + "0" * 32, "b" * 16)
        self.control.evidence = Evidence("TR.md", b"x", b"x", {}, 1, None, None, "0" * 64, False, None, Platform())
        self.control.started = self._started
        self.job = replace(monty_job("1"), inputs=(JobInput("a", INPUT, 10, False),))
        self.out = tmp_path / "run" / "out"
        self._notes: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue()

    def run(self) -> Outcome:
        """The outcome of a run that this worker started, or of which nobody else may start it."""
        outcome = self.place()
        assert outcome is not None
        return outcome

    def place(self) -> Outcome | None:
        """The same; None if the job may go to another worker."""
        job = self.job
        acting = threading.Thread(target=self._act, daemon=True)
        acting.start()
        try:
            return RemoteRun(self.link, self.ledger, self.key, "w1", job, self.control, AWAY).execute()
        finally:
            self._notes.put(None)
            acting.join(5)

    def answers(self, kind: str, data: bytes = b"", **value: Any) -> None:
        """A note of the worker that passed every check of the link."""
        note = {"nonce": self.nonce, "envelope_sha256": self.envelope, "ask": "0" * 32, **value}
        self.link._deliver(self.nonce, "w1", Mail(kind, note, data))

    def result(self, ended: Outcome, **inline: str) -> None:
        """A signed result."""
        self.answers("result", outcome=write_outcome(ended), inline=inline)

    def _act(self) -> None:
        while (item := self._notes.get()) is not None:
            self.worker(self, *item)

    def _send_job(self, _worker: str, nonce: str, sealed: bytes, _seconds: int) -> None:
        self.nonce, self.envelope = nonce, sha256_hex(sealed)
        self._notes.put(("job", {}))

    def _tell(self, _worker: str, type: str, **value: Any) -> None:
        self.told.append(type)
        self._notes.put((type, value))

    def _send_chunk(self, *_: Any) -> None:
        self.chunks += 1

    def _started(self, _where: object) -> None:
        self.starts += 1


def ended(*artifacts: Artifact, **more: Any) -> Outcome:
    return outcome(artifacts=artifacts, **more)


def taken_over(then: Callable[[Stage], None], want: Callable[[Stage, dict[str, Any]], None] | None = None) -> Any:
    """A worker that asks for the token, and does something of its own when it has it."""

    def worker(stage: Stage, kind: str, value: dict[str, Any]) -> None:
        if kind == "job":
            stage.answers("may-start")
        elif kind == "go":
            then(stage)
        elif kind == "want" and want is not None:
            want(stage, value)

    return worker


def promises(stage: Stage) -> None:
    """A result that names an output which never comes."""
    stage.result(ended(Artifact("a", len(DATA), DIGEST)))


def trickles(stage: Stage, value: dict[str, Any]) -> None:
    """One byte at a time."""
    offset = value["offset"]
    stage.answers("chunk", DATA[offset : offset + 1], sha256=DIGEST, offset=offset)


@pytest.mark.parametrize("want", [None, trickles], ids=["no output comes", "a byte at a time"])
def test_a_result_whose_outputs_never_come_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, want: Any
) -> None:
    """It kept the run, `cancel` and SIGTERM waiting for ever."""
    monkeypatch.setattr(limits, "CLUSTER_FETCH_SECONDS", 0.5)
    stage = Stage(tmp_path, taken_over(promises, want))
    began = time.monotonic()
    found = stage.run()
    assert time.monotonic() - began < 4 and found.status == "interrupted" and "in time" in found.detail
    assert not stage.out.exists(), "nothing is left that no record names"


@pytest.mark.parametrize("event", ["cancelled", "interrupted"])
def test_cancel_and_stop_are_looked_at_while_outputs_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_STOP_SECONDS", 0.3)
    stage = Stage(tmp_path, taken_over(promises))
    threading.Timer(0.6, getattr(stage.control, event).set).start()
    began = time.monotonic()
    found = stage.run()
    assert time.monotonic() - began < 4 and found.status == event
    assert ("cancelled" if event == "cancelled" else "the daemon stopped") in found.detail


def test_a_worker_that_ignores_a_cancel_does_not_keep_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_CANCEL_SECONDS", 0.3)
    stage = Stage(tmp_path, taken_over(lambda stage: stage.control.cancelled.set()))
    began = time.monotonic()
    found = stage.run()
    assert time.monotonic() - began < 4 and found.status == "interrupted" and "cancel" in stage.told


def says_nothing_ran(stage: Stage) -> None:
    stage.result(ended(status="unavailable", detail="no container"))


def refuses(stage: Stage) -> None:
    stage.answers("refused", code="no_backend", message="no container")


@pytest.mark.parametrize("then", [says_nothing_ran, refuses], ids=["result", "refusal"])
def test_unavailable_after_the_start_token_is_not_believed(tmp_path: Path, then: Any) -> None:
    """`unavailable` lets a read be tried again: three tokens were given for one approval."""
    stage = Stage(tmp_path, taken_over(then))
    found = stage.run()
    assert (found.status, stage.starts) == ("interrupted", 1)
    assert "never run again" in found.detail and "not started" not in found.detail


def test_a_run_without_a_token_is_not_tried_again(tmp_path: Path) -> None:
    """A worker that tells of a run which nobody let start: what it did is not known, so the approval is used up."""
    stage = Stage(tmp_path, lambda stage, kind, _: stage.result(ended()) if kind == "job" else None)
    found = stage.run()
    assert (found.status, stage.starts) == ("interrupted", 1) and "never" in found.detail
    assert "go" not in stage.told


def test_a_second_question_gets_no_second_token(tmp_path: Path) -> None:
    """However often the worker asks, `started` is recorded once and one `go` is sent."""

    def worker(stage: Stage, kind: str, _: dict[str, Any]) -> None:
        if kind == "job":
            for number in range(5):
                stage.answers("may-start", ask=f"{number:032x}")
        elif kind == "no" and stage.told.count("no") == 4:
            stage.result(ended())

    stage = Stage(tmp_path, worker)
    assert stage.run().status == "succeeded"
    assert stage.starts == 1 and stage.told.count("go") == 1


def test_the_same_input_is_not_sent_for_ever(tmp_path: Path) -> None:
    """However often a worker asks for it: each chunk is a mebibyte on the net of all."""

    def worker(stage: Stage, kind: str, _: dict[str, Any]) -> None:
        if kind == "job":
            for number in range(20):
                stage.answers("want", sha256=INPUT, offset=number % 2)
            stage.answers("want", sha256="0" * 64, offset=0)
            stage.answers("may-start")
        elif kind == "go":
            stage.result(ended())

    stage = Stage(tmp_path, worker)
    assert stage.run().status == "succeeded" and stage.chunks == limits.CLUSTER_CHUNK_TRIES


@pytest.mark.parametrize(
    ("artifacts", "inline"),
    [
        ((Artifact("a", 3, sha256_hex(b"abc")),), {sha256_hex(b"abc"): b"abcd"}),
        ((Artifact("a", 3, sha256_hex(b"abc")),), {sha256_hex(b"abc"): b"abd"}),
        ((Artifact("a" * 300, 3, sha256_hex(b"abc")),), {sha256_hex(b"abc"): b"abc"}),
        ((Artifact("a", 0, sha256_hex(b"abc")),), {}),
    ],
    ids=["longer", "other bytes", "a name that no disk takes", "empty, of another digest"],
)
def test_an_output_that_is_not_what_was_signed_leaves_nothing(
    tmp_path: Path, artifacts: tuple[Artifact, ...], inline: dict[str, bytes]
) -> None:
    encoded = {name: base64.b64encode(data).decode() for name, data in inline.items()}
    stage = Stage(tmp_path, taken_over(lambda stage: stage.result(ended(*artifacts), **encoded)))
    assert stage.run().status == "interrupted" and not stage.out.exists()


def test_an_outcome_that_no_record_can_hold_is_not_written(tmp_path: Path) -> None:
    """`retry_after_sec: -5` made the trail fail to verify for good."""

    def lies(stage: Stage) -> None:
        stage.answers("result", outcome={**write_outcome(ended()), "retry_after_sec": -5}, inline={})

    found = Stage(tmp_path, taken_over(lies)).run()
    assert found.status == "interrupted" and found.retry_after_sec is None


def lost(stage: Stage) -> None:
    """What the broker says when it returns the job: after a restart of it, of every job that runs."""
    stage.link._deliver(stage.nonce, None, Mail("lost", {"why": "delivery_limit"}))


def reports(stage: Stage, has_it: bool, boot: str = "1") -> None:
    """A status of the worker."""
    running = [[stage.nonce, "TR-a"]] if has_it else []
    stage.ledger.hear("w1", told(running=running, boot=boot))


@pytest.mark.parametrize(
    ("said", "unfit"),
    [
        (lambda stage: stage.answers("refused", code="signer_unknown", message="no such signer"), True),
        (lambda stage: stage.result(ended(status="unavailable", detail="no container")), True),
        (lambda stage: stage.answers("refused", code="worker_full", message="no room"), False),
        (lost, False),
    ],
    ids=["refused", "nothing ran", "full", "lost"],
)
def test_what_never_had_a_token_goes_to_another_worker(tmp_path: Path, said: Any, unfit: bool) -> None:
    """Nothing is claimed, the worker is told to leave it, and a late question of it gets no token."""
    stage = Stage(tmp_path, lambda stage, kind, _: said(stage) if kind == "job" else None)
    assert stage.place() is None and stage.starts == 0
    assert stage.told == ["cancel"] and not stage.link._boxes
    assert stage.ledger.reserve(stage.job) is None, "it is not offered the same job at once"
    [(until, _)] = stage.ledger.seats()[0].refused.values()
    assert (until - time.monotonic() > 5) is unfit


def test_a_worker_that_does_not_ask_loses_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTER_START_SECONDS", 1)
    stage = Stage(tmp_path, lambda stage, kind, _: None)
    assert stage.place() is None and "did not answer in time" in str(stage.ledger.missing(stage.job))


def test_the_same_question_gets_its_token_again(tmp_path: Path) -> None:
    """The answer was lost with the broker: the worker repeats its question, and `started` is recorded once."""

    def worker(stage: Stage, kind: str, _: dict[str, Any]) -> None:
        if kind == "job":
            for ask in ("1" * 32, "1" * 32, "2" * 32):
                stage.answers("may-start", ask=ask)
        elif kind == "no":
            stage.result(ended())

    stage = Stage(tmp_path, worker)
    assert stage.run().status == "succeeded"
    assert (stage.starts, stage.told) == (1, ["go", "go", "no", "done"])


def test_the_token_answers_the_question_that_was_recorded(tmp_path: Path) -> None:
    """Two machines with one worker's state, and a broker that brings both of them the job: the second asks while the
    start of the first is recorded. One token answered the second question, and the first got one when it asked again.
    """
    first, second = "1" * 32, "2" * 32

    def worker(stage: Stage, kind: str, value: dict[str, Any]) -> None:
        if kind == "job" or kind == "go" and stage.told.count("go") == 1:
            stage.answers("may-start", ask=first)
        elif stage.told[-2:] == ["no", "go"]:
            stage.result(ended())

    stage = Stage(tmp_path, worker)
    stage.control.started = lambda _: stage.answers("may-start", ask=second)
    stage.link.lead.cover = lambda: None  # type: ignore[method-assign]
    tell = stage.link.tell
    asks: list[str] = []

    def publish(_exchange: str, _key: str, body: bytes, **_: Any) -> None:
        note = read_note(body, stage.key.public, TO_WORKER, "w1")
        asks.extend([note["ask"]] if note["type"] == "go" else [])

    def both(worker: str, type: str, **value: Any) -> None:
        Link.tell(stage.link, worker, type, **value)
        tell(worker, type, **value)

    stage.link.wire.publish = publish  # type: ignore[method-assign, assignment]
    stage.link.tell = both  # type: ignore[method-assign]
    assert stage.run().status == "succeeded"
    assert asks == [first, first]


def test_without_the_lead_nothing_is_claimed(tmp_path: Path) -> None:
    """Another daemon may have the message: the question is answered when it is known who leads."""

    def worker(stage: Stage, kind: str, _: dict[str, Any]) -> None:
        if kind == "job":
            stage.link.lead._heard = None
            stage.answers("may-start", ask="1" * 32)
            stage.answers("refused", code="no_token", message="the daemon gave no start token")

    stage = Stage(tmp_path, worker)
    assert stage.place() is None and (stage.starts, stage.told) == (0, ["cancel"])


def test_a_request_that_may_not_start_any_more_gets_no_token(tmp_path: Path) -> None:
    """Cancelled or changed since it was sent: the launch has its answer, and no other worker is asked."""
    stage = Stage(tmp_path, lambda stage, kind, _: stage.answers("may-start", ask="1" * 32) if kind == "job" else None)

    def refuse(_: object) -> None:
        raise Refused("request_changed", "it may not start any more")

    stage.control.started = refuse
    assert stage.run().status == "unavailable" and stage.told == ["no"]


def test_a_restart_of_the_broker_loses_no_run(tmp_path: Path) -> None:
    """The broker reports the job as lost, once for each of its restarts: that alone proves nothing."""

    def goes_on(stage: Stage) -> None:
        lost(stage)
        lost(stage)
        stage.result(ended())

    stage = Stage(tmp_path, taken_over(goes_on))
    assert stage.run().status == "succeeded"


@pytest.mark.parametrize(
    ("boot", "why"), [("1", "does not have the run any more"), ("c", "was killed or restarted while it ran it")]
)
def test_a_worker_without_the_run_has_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, why: str
) -> None:
    """Not by its first status, which may have been made before the run was there."""
    monkeypatch.setattr(limits, "CLUSTER_GRACE_SECONDS", 0.0)
    stage = Stage(tmp_path, lambda stage, kind, value: None)
    run = RemoteRun(stage.link, stage.ledger, stage.key, "w1", stage.job, stage.control, AWAY)
    stage.nonce = run._nonce
    reports(stage, False)
    assert run._without_it() is None, "no token was given"
    run._start()
    assert run._without_it() is None, "that status was there before"
    for has_it in (False, True, False):
        reports(stage, has_it, boot)
        assert run._without_it() is None
    reports(stage, False, boot)
    assert why in str(run._without_it())


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        (lambda link: None, "worker w1, its machine or its net stopped: nothing was heard"),
        (lambda link: setattr(link.wire, "alarm", "it has an alarm: low on memory"), "low on memory"),
        (lambda link: link.lead.lose(), "the broker has not answered yet"),
    ],
    ids=["a frozen worker", "an alarm", "a cut net"],
)
def test_silence_says_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker: Any, why: str) -> None:
    monkeypatch.setattr(limits, "CLUSTER_AFTER_AWAY_SECONDS", 0.5 - AWAY)
    stage = Stage(tmp_path, taken_over(lambda stage: broker(stage.link)))
    found = stage.run()
    assert found.status == "interrupted" and why in found.detail and stage.starts == 1


def test_a_run_that_ends_because_the_daemon_stops_is_not_cancelled(tmp_path: Path) -> None:
    """The worker is told to cancel it; no person did."""

    def stops(stage: Stage) -> None:
        stage.control.interrupt("the daemon stopped")

    def worker(stage: Stage, kind: str, value: dict[str, Any]) -> None:
        taken_over(stops)(stage, kind, value)
        if kind == "cancel":
            stage.result(ended(status="cancelled", detail="Cancelled by the operator while it ran."))

    found = Stage(tmp_path, worker).run()
    assert (found.status, found.detail) == ("interrupted", "Interrupted because the daemon stopped.")


def test_a_result_that_nobody_can_read_before_the_token_uses_the_approval_up(tmp_path: Path) -> None:
    """It may have run."""

    def worker(stage: Stage, kind: str, _: dict[str, Any]) -> None:
        if kind == "job":
            stage.answers("result", outcome={}, inline={})

    stage = Stage(tmp_path, worker)
    assert stage.run().status == "interrupted" and stage.starts == 1


@pytest.mark.parametrize("event", ["cancelled", "interrupted"])
def test_what_is_stopped_before_its_start_goes_to_nobody(tmp_path: Path, event: str) -> None:
    stage = Stage(tmp_path, lambda stage, kind, _: getattr(stage.control, event).set())
    assert stage.run().status == "unavailable" and stage.starts == 0
    assert stage.ledger.reserve(stage.job) == "w1", "the worker did nothing wrong"
