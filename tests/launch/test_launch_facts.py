"""The facts of a launch: read once, under the trail's lock; what cannot be read never helps."""

from __future__ import annotations

import os
from dataclasses import replace

from tests.acts.bench_workspace import DATA, Bench
from tests.launch.launching import history_of, launched, waiting
from threegate.approval.launch import check_launch
from threegate.launch.approved_file import file_identity
from threegate.launch.context import Context
from threegate.launch.launch_facts import (
    draft_owner,
    facts_for_launch,
    id_used,
    pinned_inputs,
)
from threegate.launch.launch_problem import read_operators
from threegate.trail.payloads import Validated


def test_facts_that_let_it_run(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    with context.trail.locked() as held:
        facts = facts_for_launch(
            context.workspace, held, context.policy, approved.request, approved.job,
            signature=approved.signature, countersignatures=approved.countersignatures,
        )  # fmt: skip
        assert facts.recorded_operators == held.index.operators
    verified = check_launch(facts)
    assert facts.recorded_approval == verified.approval_sha256 and facts.was_approved
    assert facts.recorded_file == approved.path.name and facts.owner == os.getuid()
    assert facts.policy_sha256 == context.policy.digest and facts.workspace_id == context.workspace_id
    assert not facts.id_used and not facts.nonce_used(verified.nonce)
    assert [item.size for item in facts.pinned.values()] == [len(DATA)]


def test_operators_that_cannot_be_read_are_a_problem_and_none_is_nobody(bench: Bench) -> None:
    assert read_operators(bench.workspace).problem is None
    file = bench.workspace.operators_file
    kept = file.read_bytes()
    file.unlink()
    gone = read_operators(bench.workspace)
    assert not gone.entries and gone.problem == "there is no operators file"
    file.symlink_to("/etc/passwd")
    assert read_operators(bench.workspace).problem is not None
    file.unlink()
    file.write_bytes(kept)
    bench.workspace.revoked_file.mkdir()
    assert read_operators(bench.workspace).problem is not None


def test_who_asked_stays_who_drafted_what_was_approved(bench: Bench, context: Context) -> None:
    waiting(bench, context)
    with context.trail.locked() as held:
        held.append(
            Validated.from_data({"file": "TR-other.md", "owner_uid": 4242}),
            request_id="req-1",
            actor="daemon",
        )
    history = history_of(context)
    assert history.owner == os.getuid() == draft_owner(history)
    assert draft_owner(replace(history, approved=None)) == os.getuid() and draft_owner(None) is None


def test_an_input_that_is_not_there_is_left_out(bench: Bench, context: Context) -> None:
    job = waiting(bench, context).job
    assert set(pinned_inputs(context.workspace, job)) == {job.inputs[0].sha256}
    (context.workspace.inputs / job.inputs[0].sha256).unlink()
    assert pinned_inputs(context.workspace, job) == {}


def test_an_id_is_used_by_the_trail_by_a_run_and_by_a_file(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    workspace, history = context.workspace, history_of(context)
    assert not id_used(workspace, history, "req-1"), "it waits"
    workspace.run_folder("req-1").mkdir()
    assert id_used(workspace, None, "req-1")
    workspace.run_folder("req-1").rmdir()
    for state in ("running", "finished", "refused"):
        file = workspace.state_folder(state) / "req-1.md"
        file.touch()
        assert id_used(workspace, None, "req-1")
        assert not id_used(workspace, history, "req-1"), "the trail knows the id; the file is another request's"
        file.unlink()
    launched(context, approved)
    assert id_used(workspace, history_of(context), "req-1")


def test_another_file_of_the_same_bytes_is_another_file(bench: Bench, context: Context) -> None:
    path = waiting(bench, context).path
    before = file_identity(path)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert file_identity(path) != before
