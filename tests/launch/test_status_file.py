"""The status file while a request is on its way: derived, and its end is the last word."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.launch.launching import CountingRunner, HeldRunner, daemons, events_of, waiting
from tests.support import wait_until
from threegate.core import durable, limits
from threegate.daemon.dispatcher import Dispatcher
from threegate.daemon.log import Log
from threegate.judgement.judge import NotCleared
from threegate.launch.approved_file import Waiting
from threegate.launch.completion import write_waiting
from threegate.launch.context import Context
from threegate.launch.pipeline import RunningStatus, judge_now
from threegate.launch.results.verdict import read_verdict, verdict_path, write_status
from threegate.runners.machine import Budget


def approved(bench: Bench) -> Path:
    return bench.approve(bench.draft()).path


def until(true: Callable[[], bool], dispatcher: Dispatcher) -> None:

    def done() -> bool:
        if true():
            return True
        dispatcher.schedule()
        return False

    wait_until(done, "what the dispatcher does", 30)


def dispatcher_of(bench: Bench, runner: CountingRunner) -> Dispatcher:
    (context,) = daemons(bench, runner, 1)
    return Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)


def state(bench: Bench, path: Path) -> tuple[str | None, bool]:
    verdict = read_verdict(bench.workspace, path.name)
    return (verdict.state, verdict.judgement is not None) if verdict else (None, False)


def test_a_lasting_run_gets_the_running_status_and_its_end_is_the_last_one(bench: Bench) -> None:
    path = approved(bench)
    runner = HeldRunner()
    dispatcher = dispatcher_of(bench, runner)
    try:
        until(lambda: state(bench, path) == ("running", True), dispatcher)
        written = verdict_path(bench.workspace, path.name).stat().st_ino
        assert 0 <= dispatcher.pause(7.0) <= limits.LIVE_SECONDS, "then its output is looked at"
        [entry] = dispatcher.running.values()
        dispatcher.collect()
        assert verdict_path(bench.workspace, path.name).stat().st_ino == written, "it is written once"
        runner.go.set()
        until(lambda: not dispatcher.running, dispatcher)
        assert entry.control.lasting is not None
        entry.control.lasting()
        assert state(bench, path) == ("finished", True)
    finally:
        runner.go.set()
        dispatcher.stop(30)


def test_a_short_run_gets_the_status_of_its_end_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threegate.daemon.dispatcher.LASTING_SECONDS", 60.0)
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
            lambda: (bench.workspace.finished / path.name).exists() and not dispatcher.running,
            dispatcher,
        )
    finally:
        stop()
        dispatcher.stop(30)
    assert written == ["finished"] and state(bench, path) == ("finished", True)


NO = NotCleared("refuse", "signature_missing", "no")


def test_what_validation_found_stays(bench: Bench, context: Context) -> None:
    path = waiting(bench, context).path
    file = bench.workspace.verdicts / f"{path.name}.json"
    found = {
        **json.loads(file.read_text()),
        "findings": [{"rule": "TG101"}],
        "judgement": {"route": "accept"},
    }
    file.write_text(json.dumps(found))
    write_status(bench.workspace, path.name, "refused", "expired", NO)
    new = json.loads(file.read_text())
    assert (new["state"], new["reason"]) == ("refused", "expired")
    assert (new["findings"], new["judgement"]) == (found["findings"], found["judgement"])


def test_a_broken_one_is_recreated_and_an_equal_one_left(bench: Bench, context: Context) -> None:
    judgement, _ = judge_now(context, waiting(bench, context))
    file = bench.workspace.verdicts / "TR-a.md.json"
    file.write_text("{")
    write_status(bench.workspace, "TR-a.md", "running", None, judgement)
    made = json.loads(file.read_text())
    assert made["state"] == "running" and made["judgement"]["route"] == "accept"
    before = file.stat().st_ino
    write_status(bench.workspace, "TR-a.md", "running", None, judgement)
    assert file.stat().st_ino == before


def test_after_the_end_nothing_says_that_it_runs(bench: Bench) -> None:
    status = RunningStatus(bench.workspace, "TR-a.md", NO)
    status.close()
    status.write()
    assert read_verdict(bench.workspace, "TR-a.md") is None


def test_a_reason_to_wait_is_recorded_for_a_file_that_is_still_there(bench: Bench, context: Context) -> None:
    here = waiting(bench, context)
    write_waiting(context, here, Waiting("no_backend", "no runner"))
    assert events_of(bench.workspace)[-1].data == {"reason": "no_backend", "file": here.path.name}
    assert state(bench, here.path) == ("waiting", False)
    here.path.unlink()
    write_waiting(context, here, Waiting("quorum_missing", "one more"))
    assert events_of(bench.workspace)[-1].data["reason"] == "no_backend"
