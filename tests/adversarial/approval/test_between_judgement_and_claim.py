"""What changes after a request was judged, and before it is claimed, stops the claim."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, HeldRunner, daemons
from tests.support import wait_until
from threegate.acts.cancel import cancel_request
from threegate.acts.operator import revoke_operator
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.judge import Cleared, Judgement
from threegate.launch import pipeline
from threegate.launch.approved_file import Approved, Ended, Waiting, read_approved
from threegate.launch.context import Context
from threegate.review.countersign import countersign, open_waiting
from threegate.runners.interface import Control
from threegate.runners.machine import Budget


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def launched(
    bench: Bench,
    runner: CountingRunner,
    monkeypatch: pytest.MonkeyPatch,
    between: Callable[[Approved, Judgement, datetime], Judgement],
) -> tuple[Path, Ended | Waiting]:
    """Launch the first request, approved by bob; `between` comes after it was found clear, and gives what is claimed
    with.
    """
    (context,) = daemons(bench, runner, 1)
    bench.operator("bob")
    approved = read_approved(context, bench.approve(bench.draft(), "bob").path)
    assert isinstance(approved, Approved)
    real = pipeline.judge_now

    def judge_now(context: Context, approved: Approved) -> tuple[Judgement, datetime]:
        judgement, now = real(context, approved)
        assert isinstance(judgement, Cleared) and approved.path.parent == bench.workspace.approved
        return between(approved, judgement, now), now

    monkeypatch.setattr(pipeline, "judge_now", judge_now)
    control = Control(bench.workspace.run_folder("req-1"), bench.workspace.inputs, "", "")
    return approved.path, pipeline.launch(context, approved, control)


def test_an_approval_that_ends_in_between_claims_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judgement was made before the end, the claim comes at it: by the trail's clock, under its lock."""

    def late(approved: Approved, judgement: Judgement, now: datetime) -> Judgement:
        assert isinstance(judgement, Cleared)
        return replace(judgement, approval=replace(judgement.approval, expires_utc=now))

    runner = CountingRunner()
    path, answer = launched(bench, runner, monkeypatch, late)
    assert answer.code == "expired"
    assert not runner.runs and not path.exists()


def edit(bench: Bench, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"Purpose", b"purpose") + b"\n")


def exchange(bench: Bench, path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def cancel(bench: Bench, path: Path) -> None:
    cancel_request(bench.context, "req-1", by=OperatorDecision("test"), wait_seconds=5)


def revoke(bench: Bench, path: Path) -> None:
    revoke_operator(bench.workspace, "bob", actor="test")


def remove(bench: Bench, path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("act", [edit, exchange, cancel, revoke, remove])
def test_what_changes_in_between_stops_the_claim(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, act: Callable[[Bench, Path], None]
) -> None:
    def change(approved: Approved, judgement: Judgement, now: datetime) -> Judgement:
        act(bench, approved.path)
        return judgement

    runner = CountingRunner()
    _, answer = launched(bench, runner, monkeypatch, change)
    assert answer.code == ("operators_changed" if act is revoke else "request_changed")
    assert not runner.runs and not list(bench.workspace.running.iterdir())


def test_a_countersignature_that_comes_in_between_goes_along(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim does not list the folder: it knows the signatures that were read or announced by the trail."""
    carol = bench.operator("carol")

    def sign(approved: Approved, judgement: Judgement, now: datetime) -> Judgement:
        waiting, _ = open_waiting(bench.context, approved.path)
        countersign(bench.context, waiting, "carol", carol)
        return judgement

    path, answer = launched(bench, CountingRunner(), monkeypatch, sign)
    assert isinstance(answer, Ended) and answer.event == "finished"
    assert list(bench.workspace.approved.iterdir()) == []
    names = {item.name.removeprefix(path.name) for item in bench.workspace.finished.iterdir()}
    assert names == {"", ".sig", ".sig.carol"}
    assert verify_workspace(bench.workspace).problems == []


@pytest.fixture
def queue(bench: Bench) -> Iterator[tuple[Dispatcher, HeldRunner]]:
    """One lane, and what is in it."""
    runner = HeldRunner()
    (context,) = daemons(bench, runner, 1)
    dispatcher = Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)
    yield dispatcher, runner
    runner.go.set()
    dispatcher.stop(30)


def turn(dispatcher: Dispatcher, until: Callable[[], bool]) -> None:
    """Have the dispatcher look until something is so."""

    def done() -> bool:
        if until():
            return True
        dispatcher.schedule()
        return False

    wait_until(done, "what the dispatcher does", 30)


def test_a_full_lane_keeps_the_order(bench: Bench, queue: tuple[Dispatcher, HeldRunner]) -> None:
    dispatcher, runner = queue
    paths = [bench.approve(bench.draft(f"req-{number}", slug=f"n{number}")).path for number in range(4)]
    turn(dispatcher, lambda: len(dispatcher.running) == 1 and not paths[0].exists())
    for _ in range(20):
        dispatcher.schedule()
    assert [path.exists() for path in paths] == [False, True, True, True], "only the first was claimed"
    runner.go.set()
    turn(dispatcher, lambda: len(runner.runs) == 4 and not dispatcher.running)
    assert list(runner.runs) == ["req-0", "req-1", "req-2", "req-3"]
    assert set(runner.runs.values()) == {1}


def test_what_was_cancelled_while_it_waited_never_runs(bench: Bench, queue: tuple[Dispatcher, HeldRunner]) -> None:
    dispatcher, runner = queue
    for number in range(2):
        bench.approve(bench.draft(f"req-{number}", slug=f"n{number}"))
    turn(dispatcher, lambda: len(dispatcher.running) == 1)
    cancel_request(bench.context, "req-1", by=OperatorDecision("test"), wait_seconds=5)
    runner.go.set()
    turn(dispatcher, lambda: not dispatcher.running)
    assert runner.runs == {"req-0": 1}
