"""Every end has one event, one result with the same bytes however often it is delivered, and one final folder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench
from tests.launch.launching import (
    CountingRunner,
    control_of,
    events_of,
    history_of,
    launched,
    only_result,
    waiting,
)
from threegate.acts.reject import REJECT, reject_about, reject_draft
from threegate.acts.signed_acts import decide
from threegate.acts.signing_key import Acting
from threegate.approval.facts import VerifiedApproval
from threegate.judgement.judge import Cleared, NotCleared
from threegate.launch.approved_file import Ended, Unrunnable, is_there, read_approved
from threegate.launch.completion import (
    CHANGED,
    close_from_trail,
    interrupt,
    refuse,
    refuse_unrunnable,
)
from threegate.launch.context import Context
from threegate.launch.pipeline import claim, judge_now
from threegate.launch.results.verdict import read_verdict
from threegate.review.reviewed_draft import read_draft
from threegate.trail.history import still_open, unsettled
from threegate.trail.payloads import Claimed, End

NO = NotCleared("refuse", "policy_changed", "settings changed since")


def ends_of(bench: Bench, request_id: str = "req-1") -> list[str]:
    return [event.type for event in events_of(bench.workspace, request_id) if End.of(event)]


def where(bench: Bench, name: str) -> list[str]:
    states = ("approved", "running", "finished", "refused")
    return [state for state in states if (bench.workspace.state_folder(state) / name).exists()]


def test_a_refusal(bench: Bench, context: Context) -> None:
    ended: list[tuple[str, str]] = []
    context = replace(context, on_end=lambda request_id, status: ended.append((request_id, status)))
    approved = waiting(bench, context)
    answer = refuse(context, approved, NO)
    assert isinstance(answer, Ended) and (answer.event, answer.code) == ("refused", "policy_changed")
    assert ends_of(bench) == ["refused"] and where(bench, approved.path.name) == ["refused"]
    assert where(bench, f"{approved.path.name}.sig") == ["refused"], "its signature went with it"
    result = only_result(bench.workspace).decode()
    assert 'reason: "policy_changed"' in result and "settings changed since" in result
    assert answer.result.read_text() == result
    assert ended == [("req-1", "refused")]
    verdict = read_verdict(bench.workspace, approved.path.name)
    assert verdict is not None and (verdict.state, verdict.reason) == ("refused", "policy_changed")
    data = history_of(context).end.data  # type: ignore[union-attr]
    assert data["request_sha256"] == approved.request.sha256 and data["approved_by"] is None
    given = history_of(context).approved.data  # type: ignore[union-attr]
    for name in ("nonce", "approval_sha256"):
        assert data[name] and data[name] == given[name], "the refusal names the approval that it ended"


def test_a_refusal_behind_gate_2_names_the_approval_that_passed_it(bench: Bench, context: Context) -> None:
    """Signature and nonce are of one approval, also where the trail knows of none or of an earlier one."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    passed = VerifiedApproval("alice", now, now, "f" * 32, "e" * 64, ())
    refuse(context, waiting(bench, context), replace(NO, approval=passed))
    data = history_of(context).end.data  # type: ignore[union-attr]
    assert (data["approved_by"], data["nonce"], data["approval_sha256"]) == ("alice", "f" * 32, "e" * 64)


def test_what_changed_meanwhile_is_not_refused(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    approved.path.write_bytes(approved.data + b"\n")
    assert refuse(context, approved, NO) is CHANGED
    broken = Unrunnable(approved.path, approved.identity, "req-1", "request_invalid", "no", {})
    assert refuse_unrunnable(context, broken) is CHANGED
    assert ends_of(bench) == [] and where(bench, approved.path.name) == ["approved"]


def test_a_file_that_is_no_request_ends_the_request_of_its_name(bench: Bench, context: Context) -> None:
    path = waiting(bench, context).path
    path.write_bytes(b"overwritten\n")
    broken = read_approved(context, path)
    assert isinstance(broken, Unrunnable)
    answer = refuse_unrunnable(context, broken)
    assert isinstance(answer, Ended) and answer.code == "request_invalid"
    assert ends_of(bench) == ["refused"] and where(bench, path.name) == ["refused"]
    data, given = history_of(context).end.data, history_of(context).approved.data  # type: ignore[union-attr]
    assert data["request_sha256"] is None
    for name in ("nonce", "approval_sha256"):
        assert data[name] and data[name] == given[name], "whatever lies there now, this approval has ended"


def test_a_copy_ends_alone(bench: Bench, context: Context, runner: CountingRunner) -> None:
    approved = waiting(bench, context)
    copy = approved.path.with_name("TR-20260101-000000Z-copy.md")
    for suffix in ("", ".sig"):
        source = approved.path.with_name(approved.path.name + suffix)
        copy.with_name(copy.name + suffix).write_bytes(source.read_bytes())
    second = read_approved(context, copy)
    assert not isinstance(second, Unrunnable)
    answer = launched(context, second)
    assert (answer.code, runner.runs) == ("replayed", {})
    assert ends_of(bench) == [] and where(bench, copy.name) == ["refused"]
    assert is_there(approved) and launched(context, approved).code == "succeeded"
    assert runner.runs == {"req-1": 1}


@pytest.mark.parametrize("refused", [False, True])
def test_the_same_end_again_gives_the_same_bytes(bench: Bench, context: Context, refused: bool) -> None:
    """As after a crash behind the event: no result, the file not moved."""
    approved = waiting(bench, context)
    answer = refuse(context, approved, NO) if refused else launched(context, approved)
    assert isinstance(answer, Ended)
    before, history = only_result(bench.workspace), history_of(context)
    end, state = history.end, history.state
    assert end is not None and state is not None and not unsettled(bench.workspace, history)
    answer.result.unlink()
    assert unsettled(bench.workspace, history)
    final = bench.workspace.state_folder(state) / approved.path.name
    final.rename(approved.path if refused else bench.workspace.running / final.name)
    assert unsettled(bench.workspace, history) and still_open(bench.workspace, history)
    for _ in range(2):
        with context.trail.locked() as held:
            close_from_trail(context, held, history, end)
        assert only_result(bench.workspace) == before and where(bench, final.name) == [state]
    assert not unsettled(bench.workspace, history) and len(ends_of(bench)) == 1


def test_a_name_that_somebody_took_keeps_nobody_from_starting(bench: Bench, context: Context) -> None:
    """A link that leads nowhere is where the file belongs: it is not replaced, and the daemon starts all the same."""
    approved = waiting(bench, context)
    assert isinstance(launched(context, approved), Ended)
    history, final = history_of(context), bench.workspace.finished / approved.path.name
    claimed = final.rename(bench.workspace.running / final.name)
    final.symlink_to("nowhere")
    assert history.end is not None
    with context.trail.locked() as held:
        close_from_trail(context, held, history, history.end)
    assert final.is_symlink() and claimed.read_bytes() == approved.data


def test_a_name_that_somebody_took_among_the_refused(bench: Bench, context: Context) -> None:
    draft = read_draft(bench.workspace, bench.draft())
    acting = Acting("alice", bench.keys["alice"])
    by = decide(bench.context, REJECT, reject_about(draft, "no"), account="account:me", acting=acting)
    reject_draft(bench.context, draft, reason="no", by=by)
    final = bench.workspace.refused / draft.path.name
    final.rename(draft.path)
    final.symlink_to("nowhere")
    with context.trail.locked() as held:
        history = held.index.history("req-1")
        assert history is not None and history.end is not None
        close_from_trail(context, held, history, history.end)
    assert final.is_symlink() and draft.path.read_bytes() == draft.data, "the only copy stays"


@pytest.mark.parametrize("back", [False, True], ids=["in running/", "back in approved/"])
def test_a_claim_without_an_end_is_interrupted(
    bench: Bench, context: Context, runner: CountingRunner, back: bool
) -> None:
    """As after a crash behind the claim, before or after its rename."""
    approved = waiting(bench, context)
    judgement, _ = judge_now(context, approved)
    assert isinstance(judgement, Cleared)
    claimed = claim(context, approved, judgement)
    assert isinstance(claimed, Path)
    if back:
        claimed.rename(approved.path)
    history = history_of(context)
    before = Claimed.of(history.claimed)
    assert before is not None and unsettled(bench.workspace, history)
    interrupt(context, history, before)
    assert ends_of(bench) == ["interrupted"] and where(bench, claimed.name) == ["refused"]
    assert "status: interrupted" in only_result(bench.workspace).decode()
    assert not unsettled(bench.workspace, history_of(context))
    (bench.workspace.refused / claimed.name).rename(approved.path)
    again = read_approved(context, approved.path)
    assert not isinstance(again, Unrunnable)
    assert launched(context, again).code == "replayed" and not runner.runs, "never run again"


def test_what_waits_is_open_and_settled(bench: Bench, context: Context) -> None:
    approved = waiting(bench, context)
    history = history_of(context)
    assert still_open(bench.workspace, history) and not unsettled(bench.workspace, history)
    assert launched(context, approved).code == "succeeded"
    history = history_of(context)
    assert not still_open(bench.workspace, history) and not unsettled(bench.workspace, history)
    assert control_of(context).run_folder.is_dir()
