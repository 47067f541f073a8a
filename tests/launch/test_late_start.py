"""A runner that starts late claims when its run is about to begin: before that nothing is used up, after it all is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_between_judgement_and_claim import turn
from tests.launch.launching import CountingRunner, control_of, daemons, events_of, history_of, launched, waiting
from threegate.acts.cancel import cancel_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.core.errors import DiskFull, Refused, TrailError
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.judge import Clearance
from threegate.launch import pipeline
from threegate.launch.approved_file import Ended, Waiting
from threegate.launch.pipeline import launch
from threegate.request.job import Job
from threegate.runners.interface import Control, Outcome, nothing_ran
from threegate.runners.machine import Budget

WHERE = {"worker": "w1", "machine": "m", "envelope": "0" * 64, "image": ""}


class LateRunner(CountingRunner):
    """Another machine: what it does before its run, and whether it runs at all."""

    starts_late = True

    def __init__(self, before: Callable[[Control], None] = lambda control: None, *, starts: bool = True) -> None:
        super().__init__()
        self._before = before
        self.starts = starts
        self.refused: list[str] = []

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        self._before(control)
        assert control.evidence is not None and control.evidence.request
        if not self.starts:
            return nothing_ran("no machine took it")
        try:
            control.started(WHERE)
        except Refused as error:
            self.refused.append(error.code)
            return nothing_ran("it may not start")
        return super().run(clearance, job, control)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def types(bench: Bench) -> list[str]:
    return [event.type for event in events_of(bench.workspace) if event.type not in ("drafted", "approved")]


def test_it_is_in_approved_until_it_starts(bench: Bench) -> None:
    seen: list[bool] = []
    runner = LateRunner(lambda control: seen.append(approved.path.exists() and control.lasting is None))
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    answer = launched(context, approved)
    assert isinstance(answer, Ended) and answer.code == "succeeded" and seen == [True]
    history = history_of(context)
    assert history.started is not None and history.started.data["worker"] == "w1"
    assert types(bench)[-4:] == ["cleared", "claimed", "started", "finished"]
    assert verify_workspace(bench.workspace).problems == []


def test_what_no_machine_takes_keeps_its_approval(bench: Bench) -> None:
    """It waits with the reason, is not tried twice within one launch, and runs when a machine takes it."""
    runner = LateRunner(starts=False)
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    answer = launched(context, approved)
    assert isinstance(answer, Waiting) and (answer.code, answer.message) == ("no_backend", "no machine took it")
    assert approved.path.exists() and "claimed" not in types(bench)
    runner.starts = True
    assert launched(context, approved).code == "succeeded" and runner.runs == {"req-1": 1}


def test_one_launch_has_one_start(bench: Bench) -> None:
    def twice(control: Control) -> None:
        control.started(WHERE)

    runner = LateRunner(twice)
    (context,) = daemons(bench, runner, 1)
    answer = launched(context, waiting(bench, context))
    assert runner.refused == ["replayed"] and not runner.runs
    assert isinstance(answer, Ended) and types(bench).count("claimed") == types(bench).count("started") == 1


def test_a_cancel_before_the_start_stops_it(bench: Bench) -> None:
    runner = LateRunner(lambda control: cancel(bench))
    (context,) = daemons(bench, runner, 1)
    answer = launched(context, waiting(bench, context))
    assert runner.refused == ["request_changed"] and not runner.runs
    assert isinstance(answer, Waiting) and types(bench)[-1] == "cancelled"


def cancel(bench: Bench) -> None:
    done = cancel_request(bench.context, "req-1", by=OperatorDecision("test"), wait_seconds=5)
    assert (done.outcome, done.was) == ("cancelled", "waiting")


@pytest.mark.parametrize("error", [TrailError("torn"), DiskFull("no space"), OSError(5, "I/O")])
def test_a_claim_that_fails_halfway_stops_all_launches(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whether the trail has it is not known: the same as for a run on this machine, however the runner takes it."""

    def torn(*_: object) -> object:
        raise error

    monkeypatch.setattr(pipeline, "claim", torn)
    runner = LateRunner()
    (context,) = daemons(bench, runner, 1)
    with pytest.raises(type(error)):
        launched(context, waiting(bench, context))
    assert not runner.runs

    def again(control: Control) -> None:
        with pytest.raises(type(error)):
            control.started(WHERE)

    runner = LateRunner(again)
    context = replace(context, runners={"monty": runner})
    with pytest.raises(type(error)):
        launch(context, waiting(bench, context, "req-2"), control_of(context, "req-2"))
    assert runner.refused == ["replayed"] and not runner.runs


@pytest.mark.parametrize("why", ["held", "unsettled", "failed"])
def test_a_daemon_that_starts_nothing_starts_nothing_late(bench: Bench, why: str) -> None:
    """Invalid settings, a full disk, a trail that cannot be written: found while another machine prepares the run."""
    held, ready = threading.Event(), threading.Event()

    def wait(_: Control) -> None:
        ready.set()
        assert held.wait(30)

    runner = LateRunner(wait)
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    dispatcher = Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)
    try:
        turn(dispatcher, ready.is_set)
        setattr(dispatcher, why, TrailError("torn") if why == "failed" else True)
    finally:
        held.set()
        assert dispatcher.stop(30)
    assert len(runner.refused) == 1 and not runner.runs
    assert approved.path.exists() and "claimed" not in types(bench)


def test_a_policy_that_changed_meanwhile_starts_nothing(bench: Bench) -> None:
    """The daemon has a new one while another machine prepares: the request is judged by it before it can start."""
    held, ready = threading.Event(), threading.Event()

    def wait(_: Control) -> None:
        ready.set()
        assert held.wait(30)

    runner = LateRunner(wait)
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    dispatcher = Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)
    try:
        turn(dispatcher, ready.is_set)
        bench.settings(approval__ttl="2h")
        dispatcher.context = replace(context, policy=bench.context.policy)
        held.set()
        turn(dispatcher, lambda: not approved.path.exists())
    finally:
        held.set()
        dispatcher.stop(30)
    assert len(runner.refused) == 1 and not runner.runs
    [waits] = [event for event in events_of(bench.workspace) if event.type == "waiting"]
    assert waits.data["reason"] == "policy_changed"
    assert "claimed" not in types(bench) and types(bench)[-1] == "refused"


def test_a_daemon_that_stops_leaves_it_where_it_is(bench: Bench) -> None:
    """No event either: the next daemon judges it."""
    ready = threading.Event()

    def wait(control: Control) -> None:
        ready.set()
        assert control.interrupted.wait(30)

    runner = LateRunner(wait, starts=False)
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    dispatcher = Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)
    try:
        turn(dispatcher, ready.is_set)
        before = types(bench)
    finally:
        assert dispatcher.stop(0.0)
    assert types(bench) == before and approved.path.exists()
