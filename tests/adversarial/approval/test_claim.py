"""The moment of the claim: what stands on the disk before anything runs, and what is told of a run."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_ahead import HeldRunner
from tests.adversarial.approval.test_races import CountingRunner, daemons
from threegate.core import durable
from threegate.core.errors import Unavailable
from threegate.core.user_state import UserState
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.judge import Clearance
from threegate.launch.approved_file import read_approved
from threegate.launch.pipeline import launch
from threegate.request.job import Job
from threegate.results import read_verdict
from threegate.runners.budget import Budget
from threegate.runners.interface import Control, Outcome

DERIVED = ("/results", "/decisions.jsonl")
"""The name of the space that is reserved for the result, and the log of AANA's decisions: nothing hangs on their sync."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def approved(bench: Bench) -> Path:
    bench.operator("bob")
    return bench.approve(bench.draft(), "bob").path


def control(bench: Bench) -> Control:
    return Control(bench.workspace.run_folder("req-1"), bench.workspace.inputs, "", "")


def test_before_it_runs_all_of_the_claim_is_on_the_disk(bench: Bench) -> None:
    path = approved(bench)
    unsynced: set[str] = set()
    at_run: dict[str, object] = {}

    def seen(moment: str, operation: str, place: str) -> None:
        if moment != "after":
            return
        if operation in ("rename", "exchange", "create"):
            unsynced.add(str(Path(place).parent))
        elif operation == "write":
            unsynced.add(place)
        elif operation == "sync_folder" or operation == "sync":
            unsynced.discard(place)

    class Looking(CountingRunner):
        def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
            lines = bench.workspace.trail_file.read_text().splitlines()
            at_run["types"] = [json.loads(line)["type"] for line in lines][-3:]
            at_run["claimed"] = json.loads(lines[-2])["seq"]
            at_run["file"] = (bench.workspace.running / path.name).exists() and not path.exists()
            at_run["unsynced"] = {place for place in unsynced if not place.endswith(DERIVED)}
            return super().run(clearance, job, control)

    runner = Looking()
    (context,) = daemons(bench, runner, 1)
    stop = durable.observe(seen)
    try:
        ended = launch(context, read_approved(context, path), control(bench))
    finally:
        stop()
    assert ended.code == "succeeded" and at_run["types"] == ["cleared", "claimed", "started"]
    assert at_run["file"] and at_run["unsynced"] == set()
    kept = UserState.of(context.workspace_id).read_head()
    assert kept is not None and kept["seq"] == at_run["claimed"]


def test_a_head_that_cannot_be_kept_lets_nothing_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = approved(bench)
    runner = CountingRunner()
    (context,) = daemons(bench, runner, 1)

    def full(self: UserState, value: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(UserState, "advance_head", full)
    with pytest.raises(Unavailable, match="outside head"):
        launch(context, read_approved(context, path), control(bench))
    assert not runner.runs and (bench.workspace.running / path.name).exists()


def until(true: Callable[[], bool], dispatcher: Dispatcher) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        dispatcher.schedule()
        time.sleep(min(dispatcher.pause(0.01), 0.01))


def dispatcher_of(bench: Bench, runner: CountingRunner) -> Dispatcher:
    (context,) = daemons(bench, runner, 1)
    return Dispatcher(context, Budget(1024, 1, monty=1), Log(quiet=True), threading.Event(), 1)


def state(bench: Bench, path: Path) -> tuple[str | None, bool]:
    verdict = read_verdict(bench.workspace, path.name)
    return (verdict.state, verdict.judgement is not None) if verdict else (None, False)


def test_a_run_that_lasts_is_told_of_and_its_end_is_the_last_word(bench: Bench) -> None:
    path = approved(bench)
    runner = HeldRunner()
    dispatcher = dispatcher_of(bench, runner)
    try:
        until(lambda: state(bench, path) == ("running", True), dispatcher)
        assert dispatcher.pause(7.0) == 7.0, "it is told once"
        [entry] = dispatcher._running.values()
        runner.go.set()
        until(lambda: dispatcher.running == 0, dispatcher)
        assert entry.control.lasting is not None
        entry.control.lasting()
        assert state(bench, path) == ("finished", True)
    finally:
        runner.go.set()
        dispatcher.stop(30)


def test_a_run_of_a_moment_has_its_end_told_and_nothing_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.daemon.dispatcher._LASTING_SECONDS", 60.0)
    path = approved(bench)
    written: list[str] = []
    name = f"{path.name}.json"
    stop = durable.observe(
        lambda moment, operation, place: (
            written.append(state(bench, path)[0] or "")
            if (moment, operation, Path(place).name) == ("after", "replace", name)
            else None
        )
    )
    dispatcher = dispatcher_of(bench, CountingRunner())
    try:
        until(
            lambda: (bench.workspace.finished / path.name).exists() and dispatcher.running == 0,
            dispatcher,
        )
    finally:
        stop()
        dispatcher.stop(30)
    assert written == ["finished"] and state(bench, path) == ("finished", True)
