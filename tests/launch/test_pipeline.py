"""A launch: one clearance for exactly the job, `claimed` before the run, and one event, result and folder at every
end.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.contracts.material import folder
from tests.launch.launching import (
    CountingRunner,
    HeldRunner,
    control_of,
    daemons,
    events_of,
    launched,
    only_result,
    waiting,
)
from threegate.judgement.judge import Clearance, Cleared
from threegate.launch.approved_file import Ended, Unrunnable, Waiting, read_approved
from threegate.launch.context import Context
from threegate.launch.pipeline import claim, judge_now
from threegate.launch.results.validate import validate_result
from threegate.launch.results.verdict import read_verdict
from threegate.request.job import Job
from threegate.review.countersign import countersign, open_waiting
from threegate.runners.interface import Control, Outcome
from threegate.trail.trail import Trail


def types_of(bench: Bench, request_id: str = "req-1") -> list[str]:
    return [event.type for event in events_of(bench.workspace, request_id)]


def test_a_run_from_the_claim_to_its_record(bench: Bench) -> None:
    given: list[tuple[Clearance, Job, str]] = []

    class Looking(CountingRunner):
        def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
            clearance.must_cover(job)
            given.append((clearance, job, types_of(bench)[-1]))
            return super().run(clearance, job, control)

    (context,) = daemons(bench, Looking(), 1)
    approved = waiting(bench, context)
    answer = launched(context, approved)
    assert isinstance(answer, Ended) and (answer.event, answer.code) == ("finished", "succeeded")
    [(clearance, job, last)] = given
    assert job is approved.job and clearance.request_sha256 == approved.request.sha256
    assert last == "started" and types_of(bench)[-4:] == ["cleared", "claimed", "started", "finished"]
    cleared, claimed, _, finished = events_of(bench.workspace)[-4:]
    assert cleared.data["route"] == "accept" and cleared.data["would_block"] is False
    assert claimed.data["nonce"] == clearance.nonce and claimed.data["job_sha256"] == job.digest
    record = control_of(context).run_folder / "record.json"
    assert json.loads(record.read_bytes())["policy_sha256"] == context.policy.digest
    assert finished.data["status"] == "succeeded" and "attempts" not in finished.data
    assert answer.result.read_bytes() == only_result(bench.workspace)
    assert (bench.workspace.finished / approved.path.name).exists()
    assert not list(bench.workspace.running.iterdir())
    assert len(bench.workspace.decisions_file.read_text().splitlines()) == 1
    verdict = read_verdict(bench.workspace, approved.path.name)
    assert verdict is not None and verdict.state == "finished" and verdict.judgement is not None


def test_what_waits_leaves_no_trace(bench: Bench, runner: CountingRunner) -> None:
    bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    (context,) = daemons(bench, runner, 1)
    approved = waiting(bench, context)
    before = types_of(bench)
    answer = launched(context, approved)
    assert isinstance(answer, Waiting) and answer.code == "quorum_missing"
    assert types_of(bench) == before and approved.path.exists() and not runner.runs
    assert not list(bench.workspace.results.glob("TS-*"))


def test_a_gate_that_says_no_ends_it(bench: Bench, context: Context, runner: CountingRunner) -> None:
    path = waiting(bench, context).path
    path.with_name(f"{path.name}.sig").unlink()
    unsigned = read_approved(context, path)
    assert not isinstance(unsigned, Unrunnable)
    assert launched(context, unsigned).code == "signature_missing" and not runner.runs
    assert types_of(bench)[-1] == "refused" and "claimed" not in types_of(bench)


def test_a_runner_that_raises_leaves_an_end_like_any_other(bench: Bench) -> None:
    class Broken(CountingRunner):
        def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
            raise RuntimeError("a secret of the runner's")

    (context,) = daemons(bench, Broken(), 1)
    approved = waiting(bench, context)
    answer = launched(context, approved)
    assert isinstance(answer, Ended) and (answer.event, answer.code) == ("interrupted", "interrupted")
    result = only_result(bench.workspace)
    assert b"RuntimeError" in result and b"secret" not in result
    assert (bench.workspace.refused / approved.path.name).exists()


def test_judging_changes_nothing(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    trail = bench.workspace.trail_file.read_bytes()
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, Cleared) and approved.path.exists()
    assert bench.workspace.trail_file.read_bytes() == trail and not bench.workspace.decisions_file.exists()


def test_a_limit_that_was_reached_since_the_judgement_is_seen_at_the_claim(
    bench: Bench, runner: CountingRunner
) -> None:
    """Both are judged while there is room for one: the second claims nothing, and is judged again."""
    spec = {
        "threegate.monty": {},
        "session": {"session_limits": {"max_calls_per_tool": {"threegate.monty": 1}}},
    }
    for name, data in folder(spec).items():
        (bench.workspace.contracts / name).write_bytes(data)
    (context,) = daemons(bench, runner, 1)
    first, second = (waiting(bench, context, f"req-{number}") for number in (1, 2))
    judgement, _ = judge_now(context, second)
    assert isinstance(judgement, Cleared)
    assert launched(context, first).code == "succeeded"
    answer = claim(context, second, judgement)
    assert isinstance(answer, Waiting) and answer.code == "session_limit_exceeded"
    assert second.path.exists() and "claimed" not in types_of(bench, "req-2")
    again = launched(context, second)
    assert isinstance(again, Ended) and (again.event, again.code) == ("refused", "session_limit_exceeded")
    assert runner.runs == {"req-1": 1}


def test_what_runs_ends_under_the_policy_that_it_was_claimed_with(bench: Bench) -> None:
    import threading

    from threegate.daemon.dispatcher import Dispatcher
    from threegate.daemon.log import Log
    from threegate.runners.machine import Budget

    runner = HeldRunner()
    (context,) = daemons(bench, runner, 1)
    waiting(bench, context)
    dispatcher = Dispatcher(context, Budget(1024, 1, {"monty": 1, "ERA": 1}), Log(quiet=True), threading.Event(), 1)
    try:
        dispatcher.schedule()
        bench.settings(results__release="never")
        dispatcher.context = replace(context, policy=bench.context.policy)
    finally:
        runner.go.set()
        dispatcher.stop(30)
    assert dispatcher.context.policy.digest != context.policy.digest
    [claimed] = [event for event in Trail(bench.workspace).events() if event.type == "claimed"]
    record = json.loads((Path(bench.workspace.run_folder("req-1")) / "record.json").read_bytes())
    assert claimed.data["policy_sha256"] == record["policy_sha256"] == context.policy.digest


@pytest.mark.parametrize("status", ["exited", "failed", "cancelled", "unavailable"])
def test_the_status_says_which_event_and_which_folder(bench: Bench, status: str) -> None:
    class Saying(CountingRunner):
        def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
            return replace(super().run(clearance, job, control), status=status)  # type: ignore[arg-type]

    (context,) = daemons(bench, Saying(), 1)
    name = waiting(bench, context).path.name
    found = read_approved(context, bench.workspace.approved / name)
    assert not isinstance(found, Unrunnable)
    answer = launched(context, found)
    assert isinstance(answer, Ended) and answer.code == status
    event, state = {
        "exited": ("finished", "finished"),
        "failed": ("finished", "finished"),
        "cancelled": ("cancelled", "refused"),
        "unavailable": ("interrupted", "refused"),
    }[status]
    assert answer.event == event == types_of(bench)[-1]
    assert (bench.workspace.state_folder(state) / name).exists()


def test_the_result_names_every_operator_who_signed(bench: Bench, runner: CountingRunner) -> None:
    bob = bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    (context,) = daemons(bench, runner, 1)
    path = waiting(bench, context).path
    approved, _ = open_waiting(context, path)
    countersign(context, approved, "bob", bob)
    signed = read_approved(context, path)
    assert not isinstance(signed, Unrunnable)
    answer = launched(context, signed)
    assert isinstance(answer, Ended) and answer.event == "finished"
    result = only_result(bench.workspace).decode()
    assert 'approved_by: "alice"\ncountersigned_by:\n  - "bob"\n' in result
    assert "- Approved by: alice\n- Countersigned by: bob\n" in result
    assert validate_result(result.encode()) == []
