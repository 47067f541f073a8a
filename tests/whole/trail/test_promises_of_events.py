"""Each sentence of an event that promises something, and who tries to make it false.

An event that only says what happened promises nothing. One that says what holds from then on must be enforced: PROMISES
has the words, and the test that attacks them; a new kind of event must say which of both it is.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from threegate.trail.event import known_kinds

TESTS = Path(__file__).parents[2]
HERE = "adversarial/trail/test_what_ended_stays_ended.py"

PROMISES: dict[str, tuple[str, str]] = {
    "approval_abandoned": (
        "the id is free for a new approval",
        "adversarial/trail/test_void_approval_that_runs.py::test_the_id_is_free_for_a_new_approval",
    ),
    "claimed": ("it never runs again", f"{HERE}::test_what_ended_never_runs_again"),
    "finished": ("The run ended", f"{HERE}::test_what_ended_never_runs_again"),
    "interrupted": ("it is never run again", f"{HERE}::test_what_ended_never_runs_again"),
    "cancelled": ("A person ended it", f"{HERE}::test_what_ended_never_runs_again"),
    "refused": ("refused, nothing ran", f"{HERE}::test_what_ended_never_runs_again"),
    "rejected": ("rejected", f"{HERE}::test_a_rejected_draft_never_runs"),
    "quarantined": ("the request itself is untouched", f"{HERE}::test_a_copy_that_is_put_aside_touches_nothing"),
    "granted": ("for at most", "plugins/grants/test_grant.py::test_a_grant_runs_the_same_job_so_often_and_no_more"),
    "grant_revoked": (
        "revoked the standing grant",
        "plugins/grants/test_grant.py::test_a_revoked_grant_and_one_whose_signer_was_revoked",
    ),
    "operator_revoked": (
        "revoked the operator",
        "acts/test_acts.py::test_a_revoked_operator_cannot_approve_and_what_waits_does_not_run",
    ),
    "tools_removed": (
        "cannot be called any more",
        "plugins/tools/adversarial/test_removed_servers.py::test_a_call_of_a_removed_server_is_not_made",
    ),
    "project_removed": (
        "removed the project",
        "plugins/changes/adversarial/test_removed_projects.py::test_a_removed_project_is_not_changed",
    ),
    "session_killed": ("killed the", "contracts/test_engine.py::test_a_killed_workflow_blocks_whoever_is_in_it"),
    "checkpoint_answered": (
        "answered",
        "contracts/test_engine.py::test_a_checkpoint_answer_counts_for_its_call_and_its_time",
    ),
    "workspace_adopted": (
        "approvals of earlier ones are void",
        "audit/test_adopt_and_prune.py::test_a_restored_backup_is_adopted_by_a_signature_and_old_approvals_are_void",
    ),
    "drill_placed": (
        "this id is spent",
        "plugins/drills/test_drills_never_run.py::test_a_copy_in_approved_never_runs",
    ),
    "drill_set": ("switched drills off", "plugins/drills/test_drills.py::test_switching_off_withdraws_it"),
    "agent_ended": (
        "none of its processes is alive any more",
        "plugins/agents/test_agent_run_command.py::test_a_kill_leaves_nothing",
    ),
    "agents.host_closed": (
        "its connections are broken off, and it stays closed",
        "plugins/agents/test_request_host.py::test_what_is_taken_back_is_broken_off_and_stays_closed",
    ),
    "undone": (
        "did not revert the change",
        "plugins/changes/end_to_end/test_change_sets.py::test_an_undo_changes_nothing_where_somebody_went_on",
    ),
    "cluster.operators_distributed": (
        "takes no lower one",
        "plugins/cluster/adversarial/test_distributed_operators.py::test_nothing_else_is_taken",
    ),
    "pruned": ("nothing needs", "audit/test_adopt_and_prune.py::test_prune_keeps_inputs_that_something_else_names"),
}
"""By kind: words of its sentence or docstring, and the test that tries to make them false."""

SAYS_WHAT_HAPPENED = set(
    "agent_started applied approved cancel_requested checkpoint cleared countersigned drill_ended "
    "findings_decided observed operator_added project_added proposed replayed rotated session_opened "
    "settings_changed started tools_added tools_refreshed undo_started validated waiting witnessed "
    "workspace_created".split()
)


def test_every_kind_promises_something_or_nothing() -> None:
    assert set(PROMISES) | SAYS_WHAT_HAPPENED == set(known_kinds())
    assert not set(PROMISES) & SAYS_WHAT_HAPPENED


@pytest.mark.parametrize("kind", PROMISES)
def test_each_promise_is_made_and_attacked(kind: str) -> None:
    words, where = PROMISES[kind]
    assert words in " ".join(inspect.getsource(known_kinds()[kind]).split())
    path, name = where.split("::")
    assert name in {
        node.name for node in ast.parse((TESTS / path).read_text()).body if isinstance(node, ast.FunctionDef)
    }
