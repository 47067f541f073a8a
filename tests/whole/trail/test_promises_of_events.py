"""Each sentence of an event that promises something, and who tries to make it false.

An event that only says what happened promises nothing. One that says what holds from then on must be enforced: PROMISES
has the words, and the test that attacks them; a new kind of event must say which of both it is.
"""

from __future__ import annotations

import ast
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, control_of, daemons, events_of, history_of
from tests.plugins.changes.applying import own, picture
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.plugins.changes.trees_on_disk import build
from tests.plugins.tools.tool_bench import ToolBench
from threegate.acts.approve import promote, seal, sign
from threegate.acts.cancel import cancel_request
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.audit.audit_verify import verify_workspace
from threegate.core.errors import Refused
from threegate.daemon.log import Log
from threegate.daemon.recovery import recover
from threegate.judgement.judge import Cleared
from threegate.launch.approved_file import Approved, Unrunnable, read_approved
from threegate.launch.completion import refuse_unrunnable
from threegate.launch.context import Context
from threegate.launch.pipeline import claim, judge_now, launch
from threegate.plugins.tools.tool_servers import remove_server
from threegate.review.reviewed_draft import open_reviewed_draft, read_draft
from threegate.trail.known_kinds import known_kinds

TESTS = Path(__file__).parents[2]
HERE = "adversarial/trail/test_promises_of_events.py"

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
    "tools_removed": ("cannot be called any more", f"{HERE}::test_a_call_of_a_removed_server_is_not_made"),
    "project_removed": ("removed the project", f"{HERE}::test_a_removed_project_is_not_changed"),
    "session_killed": ("killed the", "contracts/test_engine.py::test_a_killed_workflow_blocks_whoever_is_in_it"),
    "checkpoint_answered": (
        "answered",
        "contracts/test_engine.py::test_a_checkpoint_answer_counts_for_its_call_and_its_time",
    ),
    "workspace_adopted": (
        "approvals of earlier ones are void",
        "records/test_adopt_and_prune.py::test_a_restored_backup_is_adopted_by_a_signature_and_old_approvals_are_void",
    ),
    "drill_placed": (
        "this id is spent",
        "plugins/drills/test_drills_never_run.py::test_a_copy_in_approved_never_runs",
    ),
    "drill_set": ("switched drills off", "plugins/drills/test_drills.py::test_switching_off_withdraws_it"),
    "agent_ended": ("nothing of it lives any more", "agents/test_agent_run_command.py::test_a_kill_leaves_nothing"),
    "undone": (
        "did not take the change back",
        "end_to_end/test_change_sets.py::test_an_undo_changes_nothing_where_somebody_went_on",
    ),
    "pruned": ("nothing needs", "records/test_adopt_and_prune.py::test_prune_keeps_inputs_that_something_else_names"),
}  # fmt: skip
"""By kind: words of its sentence or docstring, and the test that tries to make them false."""

SAYS_WHAT_HAPPENED = set(
    "agent_started applied approved cancel_requested checkpoint cleared countersigned delivered drill_ended "
    "findings_decided observed operator_added project_added promoted proposed replayed rotated session_opened "
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


# ---- the attacks


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.fixture
def runner() -> CountingRunner:
    return CountingRunner()


@pytest.fixture
def context(bench: Bench, runner: CountingRunner) -> Iterator[Context]:
    (made,) = daemons(bench, runner, 1)
    yield made


def seen(context: Context, path: Path) -> str:
    """What a daemon makes of a file in approved/: the code of its end."""
    approved = read_approved(context, path)
    if isinstance(approved, Unrunnable):
        return refuse_unrunnable(context, approved).code
    return launch(context, approved, control_of(context, approved.request_id)).code


def end(how: str, bench: Bench, context: Context, path: Path) -> None:
    """Let a request end."""
    if how == "finished":
        assert seen(context, path) == "succeeded"
    elif how == "cancelled":
        cancel_request(context, "req-1", by=OperatorDecision("operator:alice"))
    elif how == "refused":
        name = path.with_name(f"{path.name}.sig")
        signature = name.read_bytes()
        name.write_bytes(signature.replace(b"alice", b"alicf"))
        assert seen(context, path) != "succeeded"
    else:
        approved = read_approved(context, path)
        assert isinstance(approved, Approved)
        judgement, _ = judge_now(context, approved)
        assert isinstance(judgement, Cleared) and isinstance(claim(context, approved, judgement), Path)
        if how == "interrupted":
            recover(context, Log(quiet=True), ())


@pytest.mark.parametrize("how", ["finished", "cancelled", "refused", "interrupted", "claimed"])
def test_what_ended_never_runs_again(
    bench: Bench, context: Context, runner: CountingRunner, tmp_path: Path, how: str
) -> None:
    """The very files that were approved come back, before and after a daemon starts."""
    path = bench.approve(bench.draft()).path
    kept = tmp_path / "kept"
    shutil.copytree(bench.workspace.approved, kept)
    end(how, bench, context, path)
    runs = runner.runs.total()
    for _ in range(2):
        shutil.copytree(kept, bench.workspace.approved, dirs_exist_ok=True)
        assert seen(context, path) == "replayed"
        recover(context, Log(quiet=True), ())
    assert runner.runs.total() == runs == (1 if how == "finished" else 0)
    said = history_of(context).end
    assert said is not None and said.type == ("interrupted" if how == "claimed" else how)
    assert [event.type for event in events_of(bench.workspace)].count("claimed") <= 1


def test_a_rejected_draft_never_runs(bench: Bench, context: Context, runner: CountingRunner) -> None:
    """Neither by the command, nor by a signature that was made before and is put beside it."""
    draft = bench.draft()
    data = draft.read_bytes()
    with open_reviewed_draft(context, read_draft(bench.workspace, draft)) as reviewed:
        sealed = seal(context, reviewed, "alice")
        signature = sign(sealed, bench.keys["alice"])
        reject_draft(context, draft, reason="no", by=OperatorDecision("operator:alice"))
        with pytest.raises(Refused) as caught:
            promote(context, reviewed, sealed, signature, actor="operator:alice")
    assert caught.value.code == "replayed"
    draft.write_bytes(data)
    with pytest.raises(Refused) as caught:
        bench.approve(draft)
    assert caught.value.code == "replayed"
    path = bench.workspace.approved / draft.name
    path.with_name(f"{path.name}.sig").write_bytes(signature)
    path.write_bytes(sealed.data)
    assert seen(context, path) == "replayed" and not runner.runs


def test_a_copy_that_is_put_aside_touches_nothing(bench: Bench, context: Context, runner: CountingRunner) -> None:
    """Under any name, that of another request's id too: the request runs, and so does the other one."""
    path = bench.approve(bench.draft()).path
    other = bench.approve(bench.draft("TR-20261126-101500Z-other", slug="other")).path
    copy = path.with_name("TR-20261126-101500Z-other.md")
    for file in (path, path.with_name(f"{path.name}.sig")):
        shutil.copy(file, copy.with_name(file.name.replace(path.name, copy.name)))
    assert seen(context, copy) == "replayed" and not runner.runs
    assert (bench.workspace.refused / copy.name).exists() and history_of(context).end is None
    assert seen(context, path) == "succeeded" and seen(context, other) == "succeeded"
    assert runner.runs == {"req-1": 1, "TR-20261126-101500Z-other": 1} and verify_workspace(bench.workspace).ok


def test_a_call_of_a_removed_server_is_not_made(tmp_path: Path) -> None:
    """Not even with its manifest back in tools/: the trail has removed it."""
    tools = ToolBench(tmp_path)
    path = tools.bench.approve(tools.draft()).path
    remove_server(tools.bench.context, "hub", actor="operator:alice")
    for _ in range(2):
        found = read_approved(tools.bench.context, path)
        assert isinstance(found, Unrunnable) and found.code == "tools_unknown"
        (tools.workspace.tools / "hub.json").write_bytes(tools.manifest.to_bytes())


def test_a_removed_project_is_not_changed(tmp_path: Path) -> None:
    """It was approved while the project was registered; then the project is removed."""
    change = Proposed(tmp_path, {"a": "1"}, {"a": "2"})
    other = own(build(tmp_path / "other", {"a": "1"}))
    change.place.run("project", "add", "other", str(other), expect=0)
    text = change.draft.read_text().replace("project: default", "project: other")
    change.draft.unlink()
    before = picture(other)
    change.place.approve(change.place.drop(text, change.draft.name))
    change.place.run("project", "remove", "other", expect=0)
    change.place.once()
    assert [event["data"]["reason"] for event in change.place.events("refused")] == ["project_unknown"]
    assert picture(other) == before and not change.place.events("claimed")
