"""A worker without its daemon: each run goes on as long as its envelope says, and says what ended it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.plugins.cluster.conftest import Bench
from tests.plugins.cluster.test_parts import outcome
from tests.support import wait_until
from threegate.core import limits
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.broker import Broker
from threegate.plugins.cluster.seal import seal
from threegate.plugins.cluster.worker import heartbeat
from threegate.plugins.cluster.worker.heartbeat import Active, Agent
from threegate.plugins.cluster.worker.identity import Identity
from threegate.plugins.cluster.worker.job_handler import JobHandler
from threegate.plugins.cluster.worker.operators_file import WorkerOperators
from threegate.plugins.cluster.worker.outbox import KeptResult, Outbox
from threegate.plugins.cluster.worker.store import Store
from threegate.request.backend import BACKENDS
from threegate.runners.interface import Control
from threegate.runners.machine import Budget
from threegate.trail.workspace_key import SigningKey

DAEMON = SigningKey("workspace", Ed25519PrivateKey.generate())
DIGEST = "d" * 64
BOOT = "b" * 16


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    (tmp_path / "runs").mkdir()
    own = SigningKey("w1", Ed25519PrivateKey.generate())
    outbox = Outbox(tmp_path / "runs", own.public)
    return Agent(Broker("amqps://127.0.0.1:1/x", tmp_path), "w1", own, DAEMON.public, outbox, lambda line: None)


def job(number: int, away_sec: int) -> Active:
    control = Control(Path("run"), Path("inputs"), "ws", "0" * 16)
    return Active(f"{number:032x}", f"TR-{number}", BOOT, DIGEST, control, frozenset(), away_sec)


def test_each_run_ends_when_its_own_envelope_says(agent: Agent) -> None:
    short, long = job(1, 1), job(2, limits.CLUSTER_AWAY_MOST)
    fence = agent._threads[0]
    for active in (short, long):
        assert agent.enter(active)
    fence.start()
    try:
        wait_until(short.control.interrupted.is_set, "the end of the run that goes on for a second", 10)
        assert "worker w1 had no sign of the daemon" in short.control.because
        assert not long.control.interrupted.is_set()
        for boot in (BOOT, "c" * 16):
            agent.heard("beat.w1", seal(DAEMON, "beat", {"boot": boot, "seq": 1}), {})
        assert long.control.because == "the daemon was restarted" and long.control.interrupted.is_set()
        agent.interrupt_all()
        assert long.control.because == "the daemon was restarted", "the first reason stays"
    finally:
        agent._stop.set()
        fence.join(5)


def test_beats_do_not_keep_a_run_whose_worker_is_not_heard(agent: Agent) -> None:
    """In an alarm the broker delivers, and takes nothing: the daemon counts this worker as silent."""
    active = job(1, 1)
    fence = agent._threads[0]
    assert agent.enter(active)
    fence.start()
    numbers = itertools.count(1)

    def ended() -> bool:
        agent.heard("beat.w1", seal(DAEMON, "beat", {"boot": BOOT, "seq": next(numbers)}), {})
        return active.control.interrupted.is_set()

    try:
        wait_until(ended, "the end of the run", 10)
        assert "worker w1 had no sign of the daemon" in active.control.because
    finally:
        agent._stop.set()
        fence.join(5)


def test_the_question_for_the_token_is_repeated(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is away when it is asked first, and loses the answer to the second: the third is the same question."""
    monkeypatch.setattr(heartbeat, "_ASK_SECONDS", 0.0)
    asked: list[str] = []

    def tell(type: str, **value: Any) -> None:
        asked.append(value["ask"])
        if len(asked) == 1:
            raise Unavailable("no broker")
        if len(asked) == 3:
            go = {"worker": "w1", "boot": BOOT, "seq": 1, "nonce": value["nonce"], "envelope_sha256": DIGEST}
            agent.heard("note.w1", seal(DAEMON, "go", {**go, "ask": value["ask"]}), {})

    monkeypatch.setattr(agent, "tell", tell)
    active = job(1, 1)
    assert agent.enter(active) and agent.may_start(active)
    assert len(asked) == 3 and len(set(asked)) == 1


def test_a_status_names_the_results_that_were_not_fetched(agent: Agent, tmp_path: Path) -> None:
    """The daemon then waits for them, however long ago their runs ended."""
    agent.enter(job(1, 1))
    folder = tmp_path / "runs" / f"TR-7.{7:032x}"
    folder.mkdir()
    agent._outbox.keep(f"{7:032x}", b"sealed", folder, {})
    assert agent._status()["running"] == [[f"{1:032x}", "TR-1"], [f"{7:032x}", "TR-7"]]


def test_a_worker_has_as_many_jobs_as_its_status_names(agent: Agent) -> None:
    for number in range(limits.CLUSTER_RUNS):
        assert agent.enter(job(number, 1))
    assert not agent.enter(job(0, 1))
    with pytest.raises(Refused, match="as many jobs"):
        agent.enter(job(limits.CLUSTER_RUNS, 1))


def test_a_status_names_a_run_until_its_result_is_on_disk(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk: for four seconds the worker had neither the run nor its result, and the daemon gave it up."""
    (tmp_path / "runs").mkdir()
    own, trust = SigningKey("w1", Ed25519PrivateKey.generate()), bench.trust
    outbox = Outbox(tmp_path / "runs", own.public)
    agent = Agent(Broker("amqps://127.0.0.1:1/x", tmp_path), "w1", own, trust.workspace_key, outbox, lambda line: None)
    agent.problem = None
    named: list[object] = []
    keep = outbox.keep

    def slowly(*arguments: Any) -> KeptResult:
        named.append(agent._status()["running"])
        kept = keep(*arguments)
        kept.done.set()
        return kept

    class Ended:
        available = staticmethod(lambda job: None)
        run = staticmethod(lambda clearance, job, control: outcome(artifacts=()))

    monkeypatch.setattr(outbox, "keep", slowly)
    monkeypatch.setattr(agent, "may_start", lambda active: True)
    monkeypatch.setattr(agent, "send", lambda sealed, lasting: named.append(agent._status()["running"]))
    handler = JobHandler(
        agent,
        Identity("w1", own, trust.workspace_id, trust.workspace_key),
        WorkerOperators(Workspace(bench.place.root).operators_file, tmp_path / "operators.taken"),
        trust.settings,
        bench.journal,
        outbox,
        Store(tmp_path / "store"),
        dict.fromkeys(BACKENDS, Ended()),
        Budget.of(trust.settings.runners),
        BOOT,
        print,
    )
    handler.take(bench.sealed().decode(), "a" * 32)
    assert named == [[["a" * 32, bench.request_id]]] * 2
