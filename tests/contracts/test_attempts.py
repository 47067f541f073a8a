"""An attempt that never started: made again inside its one claim, where the contract of a read says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import NOW, call, opened
from tests.contracts.test_daemon import ask, lay, near, state
from tests.support import Place
from threegate.contracts import transitions
from threegate.contracts.state import CallOutcome as ContractOutcome
from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.judgement.judge import Clearance
from threegate.judgement.policy import load_policy
from threegate.launch.approved_file import Ended, Waiting, read_approved
from threegate.launch.context import Context, daemon_context
from threegate.launch.pipeline import launch
from threegate.launch.results.result_facts import ResultFacts, render_record
from threegate.request.job import Job
from threegate.runners.backend import policy_facts
from threegate.runners.interface import Control, Outcome, Runner, nothing_ran
from threegate.setup.settings_file import set_values
from threegate.trail.trail import Trail

TWICE = {"retries": {"max_attempts": 3, "retry_on": ["unavailable"]}}


@dataclass
class Absent:
    """A runner that is not there for its first `times` attempts; then the real one runs the job."""

    real: Runner
    times: int
    outcome: Callable[[], Outcome] = lambda: nothing_ran("no worker came up")
    asked: int = 0
    on_ask: Callable[[Control], None] = lambda control: None
    starts_late: bool = False

    def available(self, job: Job | None = None) -> str | None:
        return None

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        self.asked += 1
        self.on_ask(control)
        return self.outcome() if self.asked <= self.times else self.real.run(clearance, job, control)

    def close(self) -> None:
        self.real.close()


@dataclass
class Stage:
    """A workspace with the context of a daemon in this process."""

    place: Place
    context: Context

    def launch(self, rid: str, runner: Absent) -> Ended:
        ended = self.answer(rid, runner)
        assert isinstance(ended, Ended), ended
        return ended

    def answer(self, rid: str, runner: Absent) -> Ended | Waiting:
        policy = load_policy(self.context.workspace, facts=policy_facts())
        context = replace(self.context, policy=policy, runners={"monty": runner})
        approved = read_approved(context, context.workspace.approved / f"{rid}.md")
        control = Control(
            run_folder=context.workspace.run_folder(rid),
            inputs_folder=context.workspace.inputs,
            workspace_id=context.workspace_id,
            boot_nonce=context.boot_nonce,
        )
        return launch(context, approved, control)

    def absent(self, times: int, **more: Any) -> Absent:
        return Absent(self.context.runners["monty"], times, **more)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    place = near(tmp_path)
    workspace = Workspace(place.root)
    policy = load_policy(workspace, facts=policy_facts())
    trail = Trail(workspace)
    context = daemon_context(workspace, trail, policy, boot_nonce="0" * 16)
    yield Stage(place, context)
    context.close()
    trail.close()


def test_a_read_that_never_started_is_tried_again_inside_its_claim(stage: Stage) -> None:
    lay(stage.place, {"threegate.monty": TWICE})
    rid = ask(stage.place, "again")
    runner = stage.absent(2)
    assert stage.launch(rid, runner).code == "succeeded"
    assert runner.asked == 3
    kinds = [event["type"] for event in stage.place.events() if event.get("request_id") == rid]
    assert [kinds.count(kind) for kind in ("claimed", "started", "finished")] == [1, 1, 1]
    [finished] = stage.place.events("finished")
    assert finished["data"]["attempts"] == 3
    text = stage.place.result(rid)
    assert "attempt 1 never started: no worker came up" in text
    assert "attempt 2 never started" in text and "attempt 3" not in text
    stage.place.run("contracts", "sessions", expect=0)
    [session] = state(stage.place)["sessions"].values()
    assert session["state"]["tally"]["steps"] == 1 and session["pending"] == {}
    stage.place.run("audit", "verify", expect=0)


def test_the_attempts_end_where_the_contract_says(stage: Stage) -> None:
    lay(stage.place, {"threegate.monty": TWICE})
    rid = ask(stage.place, "never")
    runner = stage.absent(99)
    assert stage.launch(rid, runner).code == "unavailable"
    assert runner.asked == 3
    [ended] = stage.place.events("interrupted")
    assert ended["data"]["attempts"] == 3
    assert not list((stage.place.root / "tool-exec/running").glob("*.md"))


@pytest.mark.parametrize(
    ("contract", "outcome"),
    [
        ({}, nothing_ran("not there")),
        ({"retries": {"max_attempts": 3, "retry_on": ["failed"]}}, nothing_ran("not there")),
        (
            {"retries": {"max_attempts": 3, "retry_on": ["failed", "unavailable", "interrupted"]}},
            replace(nothing_ran("it ran"), status="failed", exit_code=1),
        ),
        (
            {"retries": {"max_attempts": 3, "retry_on": ["failed", "unavailable", "interrupted"]}},
            replace(nothing_ran("who knows"), status="interrupted"),
        ),
        (
            {"retries": {"max_attempts": 3, "retry_on": ["exited", "failed", "unavailable"]}},
            replace(nothing_ran("it ran"), status="exited", exit_code=1),
        ),
    ],
    ids=["one attempt", "another status", "a run that failed", "a run of which nothing is known", "an exit code"],
)
def test_nothing_else_is_made_twice(stage: Stage, contract: dict[str, Any], outcome: Outcome) -> None:
    lay(stage.place, {"threegate.monty": contract})
    rid = ask(stage.place, "once")
    runner = stage.absent(99, outcome=lambda: outcome)
    assert stage.launch(rid, runner).code == outcome.status
    assert runner.asked == 1
    assert all("attempts" not in event["data"] for event in stage.place.events())


def test_an_exit_code_that_may_be_an_answer_is_a_failure_to_contracts(stage: Stage) -> None:
    """Otherwise a workflow would go on behind a check that found something."""
    lay(stage.place, {"threegate.monty": {}})
    found = replace(nothing_ran("it found something"), status="exited", exit_code=1)
    assert stage.launch(ask(stage.place, "linter"), stage.absent(1, outcome=lambda: found)).code == "exited"
    [ended] = stage.place.events("finished")
    assert (ended["data"]["status"], ended["data"]["contract"]["status"]) == ("exited", "failed")
    assert stage.launch(ask(stage.place, "fine"), stage.absent(0)).code == "succeeded"
    assert stage.place.events("finished")[-1]["data"]["contract"]["status"] == "committed"


def test_a_cancellation_and_a_stop_end_the_attempts(stage: Stage) -> None:
    lay(stage.place, {"threegate.monty": TWICE})
    rid = ask(stage.place, "cancelled")
    runner = stage.absent(99, on_ask=lambda control: control.cancelled.set())
    assert stage.launch(rid, runner).event == "cancelled"
    assert runner.asked == 1
    rid = ask(stage.place, "stopped")
    runner = stage.absent(99, on_ask=lambda control: control.interrupted.set())
    assert stage.launch(rid, runner).code == "unavailable"
    assert runner.asked == 1


def test_shadow_mode_and_an_empty_folder_make_one_attempt(stage: Stage) -> None:
    def asked(slug: str) -> int:
        rid, runner = ask(stage.place, slug), stage.absent(1)
        assert stage.launch(rid, runner).code == "unavailable"
        return runner.asked

    assert asked("empty") == 1
    lay(stage.place, {"threegate.monty": TWICE})
    set_values(stage.place.root / "threegate.toml", {"contracts.mode": "shadow"})
    assert asked("shadow") == 1


def test_a_delay_without_end_is_a_year() -> None:
    endless = {"rate_limits": {"on_429": {"respect_retry_after": True, "max_sleep_seconds": 10**15}}}
    session = opened({"t": endless})
    transitions.commit(session, call({}), ContractOutcome("failed", retry_after=10.0**14), now=NOW)
    assert session.delayed["t"].startswith("2027-01-01")


def test_a_429_delays_the_tool_and_survives_the_state_file(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(
        stage.place,
        {"threegate.monty": {"rate_limits": {"on_429": {"respect_retry_after": True, "max_sleep_seconds": 600}}}},
    )
    busy = replace(nothing_ran("too many requests"), status="failed", exit_code=1, retry_after_sec=300)
    rid = ask(stage.place, "busy")
    assert stage.launch(rid, stage.absent(1, outcome=lambda: busy)).code == "failed"
    record = json.loads((stage.place.root / "tool-exec/runs" / rid / "record.json").read_text())
    assert record["retry_after_sec"] == 300
    runner = stage.absent(0)
    waiting = stage.answer(ask(stage.place, "late"), runner)
    assert isinstance(waiting, Waiting) and waiting.code == "rate_limited" and runner.asked == 0
    [session] = state(stage.place)["sessions"].values()
    assert list(session["state"]["delayed"]) == ["threegate.monty"]
    # As another process reads it from the file.
    monkeypatch.setattr(limits, "CONTRACT_EVENTS_UNSAVED", 1)
    stage.place.run("contracts", "sessions", expect=0)
    assert (stage.place.root / "tool-exec/contracts/.state/sessions.json").exists()
    assert list(state(stage.place)["sessions"].values()) == [session]
    quiet = replace(busy, retry_after_sec=None)
    assert b"retry_after_sec" not in render_record(ResultFacts("r", "failed", datetime.now(UTC), 1).with_outcome(quiet))
