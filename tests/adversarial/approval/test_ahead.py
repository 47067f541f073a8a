"""A request that is judged while its lane is full: the judgement is used once, soon, and for nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, HeldRunner, daemons
from threegate.acts.cancel import cancel_request
from threegate.acts.operator import revoke_operator
from threegate.acts.signed_acts import Decision
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.judge import Cleared
from threegate.launch import pipeline
from threegate.launch.approved_file import read_approved
from threegate.launch.context import Context
from threegate.launch.pipeline import Judged, launch, look_ahead
from threegate.runners.budget import Budget
from threegate.runners.interface import Control


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def control(bench: Bench) -> Control:
    return Control(bench.workspace.run_folder("req-1"), bench.workspace.inputs, "", "")


def ahead_of(bench: Bench, context: Context) -> Judged:
    """The first request, approved by bob and judged ahead: it is clear."""
    bench.operator("bob")
    path = bench.approve(bench.draft(), "bob").path
    judged = look_ahead(context, path)
    assert judged is not None and isinstance(judged.judgement, Cleared)
    return judged


def test_it_is_used_and_told_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    told: list[str] = []
    monkeypatch.setattr(
        Context, "decided", lambda self, judgement, now: told.append(type(judgement).__name__)
    )
    judged = ahead_of(bench, context)
    assert told == [] and judged.approved.path.parent == bench.workspace.approved, (
        "looking ahead leaves no trace"
    )

    def never(*_: object, **__: object) -> None:
        raise AssertionError("judged twice")

    monkeypatch.setattr(pipeline, "judge", never)
    assert launch(context, judged.approved, control(bench), judged).code == "succeeded"
    assert told == ["Cleared"] and runner.runs == {"req-1": 1}
    assert launch(context, judged.approved, control(bench), judged).code == "request_changed"
    assert runner.runs == {"req-1": 1}


@pytest.mark.parametrize("why", ["old", "policy", "read again"])
def test_another_or_an_old_one_is_judged_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    judged = ahead_of(bench, context)
    approved = judged.approved
    if why == "old":
        judged = replace(judged, at=judged.at - 1.0)
    elif why == "policy":
        judged = replace(judged, policy="0" * 64)
    else:
        approved = read_approved(context, approved.path)
    calls = []
    real = pipeline.judge
    monkeypatch.setattr(pipeline, "judge", lambda *words, **more: calls.append(1) or real(*words, **more))
    assert launch(context, approved, control(bench), judged).code == "succeeded"
    assert calls == [1] and runner.runs == {"req-1": 1}


def test_an_approval_that_ends_in_between_claims_nothing(bench: Bench) -> None:
    """The judgement was made before the end, the claim comes at it: by the trail's clock, under its lock."""
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    judged = ahead_of(bench, context)
    assert isinstance(judged.judgement, Cleared)
    approval = judged.judgement.approval
    late = replace(judged.judgement, approval=replace(approval, expires_utc=judged.now))
    judged = replace(judged, judgement=late)
    assert launch(context, judged.approved, control(bench), judged).code == "expired"
    assert not runner.runs and not judged.approved.path.exists()


def edit(bench: Bench, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"Purpose", b"purpose") + b"\n")


def exchange(bench: Bench, path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def cancel(bench: Bench, path: Path) -> None:
    cancel_request(bench.context, "req-1", by=Decision("test"), wait_seconds=5)


def revoke(bench: Bench, path: Path) -> None:
    revoke_operator(bench.workspace, "bob", actor="test")


@pytest.mark.parametrize("act", [edit, exchange, cancel, revoke, lambda _, path: path.unlink()])
def test_what_changes_after_it_stops_the_claim(bench: Bench, act: Callable[[Bench, Path], None]) -> None:
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)
    judged = ahead_of(bench, context)
    act(bench, judged.approved.path)
    code = launch(context, judged.approved, control(bench), judged).code
    assert code in ("request_changed", "operators_changed")
    assert not runner.runs and not list(bench.workspace.running.iterdir())


@pytest.fixture
def queue(bench: Bench) -> Iterator[tuple[Dispatcher, HeldRunner]]:
    """One lane, and what stands in it."""
    runner = HeldRunner()
    (context,) = daemons(bench, runner, 1)
    dispatcher = Dispatcher(
        context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1
    )
    yield dispatcher, runner
    runner.go.set()
    dispatcher.stop(30)


def turn(dispatcher: Dispatcher, until: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end
        dispatcher.schedule()
        time.sleep(0.01)


def test_a_full_lane_looks_ahead_by_one_and_keeps_the_order(
    bench: Bench, queue: tuple[Dispatcher, HeldRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher, runner = queue
    looked: list[str] = []
    real = look_ahead
    module = "threegate.daemon.dispatcher.look_ahead"
    monkeypatch.setattr(module, lambda *words: looked.append(words[1].name) or real(*words))
    paths = [bench.approve(bench.draft(f"req-{number}", slug=f"n{number}")).path for number in range(4)]
    turn(dispatcher, lambda: len(looked) == 1 and dispatcher.running == 1 and not paths[0].exists())
    for _ in range(20):
        dispatcher.schedule()
    assert looked == [paths[1].name]
    assert [path.exists() for path in paths] == [False, True, True, True], "only the first was claimed"
    runner.go.set()
    turn(dispatcher, lambda: len(runner.runs) == 4 and dispatcher.running == 0)
    assert list(runner.runs) == ["req-0", "req-1", "req-2", "req-3"]
    assert set(runner.runs.values()) == {1}


def test_what_was_cancelled_after_the_look_never_runs(
    bench: Bench, queue: tuple[Dispatcher, HeldRunner]
) -> None:
    dispatcher, runner = queue
    for number in range(2):
        bench.approve(bench.draft(f"req-{number}", slug=f"n{number}"))
    turn(dispatcher, lambda: bool(dispatcher._ahead) and dispatcher.running == 1)
    cancel_request(bench.context, "req-1", by=Decision("test"), wait_seconds=5)
    runner.go.set()
    turn(dispatcher, lambda: dispatcher.running == 0 and not dispatcher._ahead)
    assert runner.runs == {"req-0": 1}
