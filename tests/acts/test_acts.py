"""reject, cancel, retry, countersign and operator: each state they meet."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acts.bench_workspace import DATA, Bench
from threegate.acts import cancel
from threegate.acts.cancel import cancel_request
from threegate.acts.operator import add_operator, list_operators, record_operators, revoke_operator
from threegate.acts.reject import reject_draft
from threegate.acts.retry import retry_request
from threegate.acts.signed_acts import OperatorDecision
from threegate.cli import execute as run
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, ThreeGateError
from threegate.launch.results.verdict import read_verdict
from threegate.review.countersign import countersign, open_waiting, verify_approval
from threegate.trail.payloads import Cancelled, Claimed, Validated
from threegate.trail.trail import Trail


def code_of(action: object) -> str:
    with pytest.raises(Refused) as caught:
        action()  # type: ignore[operator]
    return caught.value.code


def events(bench: Bench) -> list[str]:
    return [event.type for event in Trail(bench.workspace).events()]


def test_reject_leaves_a_copy_a_verdict_and_a_result(bench: Bench) -> None:
    path = bench.draft()
    data = path.read_bytes()
    done = reject_draft(bench.context, path, reason="not today", by=OperatorDecision("test"))
    assert not path.exists() and done.path.parent == bench.workspace.refused
    assert done.path.read_bytes() == data and done.path.stat().st_nlink == 1
    verdict = read_verdict(bench.workspace, path.name)
    assert verdict is not None and verdict.state == "refused" and "not today" in str(verdict.reason)
    (result,) = bench.workspace.results.iterdir()
    assert "rejected" in result.read_text()
    path.write_bytes(data)
    assert code_of(lambda: bench.approve(path)) == "replayed"


def test_rejecting_a_draft_that_claims_a_waiting_id_ends_only_the_draft(bench: Bench) -> None:
    approved = bench.approve(bench.draft())
    imitator = bench.draft("req-1", slug="imitator")
    assert reject_draft(bench.context, imitator, reason="", by=OperatorDecision("test")).request_id is None
    assert approved.path.exists()
    assert all(check.ok for check in verify_approval(bench.context, approved.path))


def test_an_unreadable_draft_can_be_rejected(bench: Bench) -> None:
    path = bench.workspace.inbox / "TR-20260101-000000Z-x.md"
    path.write_bytes(b"\xff\xfe nothing")
    assert reject_draft(bench.context, path, reason="", by=OperatorDecision("test")).request_id is None
    assert not path.exists()


def test_a_waiting_request_is_cancelled_at_once(bench: Bench) -> None:
    done = bench.approve(bench.draft())
    context = bench.context
    approval = next(event for event in context.trail.events() if event.type == "approved")
    context.trail.clock = lambda: approval.when + timedelta(seconds=7.9)
    stopped = cancel_request(context, "req-1", by=OperatorDecision("test"))
    assert (stopped.outcome, stopped.ran_ms, stopped.was) == ("cancelled", None, "waiting")
    assert stopped.waited_seconds == 7 and "it was waiting for 7 s" in str(stopped)
    assert "it was about to start and did not run" in str(cancel.Cancelled("req-2", "cancelled", "cancelled"))
    approved, cancelled = (
        next(event.data for event in Trail(bench.workspace).events() if event.type == kind)
        for kind in ("approved", "cancelled")
    )
    for name in ("nonce", "approval_sha256"):
        assert cancelled[name] and cancelled[name] == approved[name]
    assert not done.path.exists()
    moved = bench.workspace.refused / done.path.name
    assert moved.exists() and moved.with_name(moved.name + ".sig").exists()
    (result,) = bench.workspace.results.iterdir()
    assert "status: cancelled" in result.read_text()
    assert code_of(lambda: cancel_request(bench.context, "req-1", by=OperatorDecision("test"))) == "already_ended"
    moved.rename(done.path)
    moved.with_name(moved.name + ".sig").rename(done.path.with_name(done.path.name + ".sig"))
    failed = [check.code for check in verify_approval(bench.context, done.path) if check.ok is False]
    assert failed == ["replayed"]


def test_a_running_request_is_only_asked_to_end(bench: Bench) -> None:
    bench.approve(bench.draft())
    with Trail(bench.workspace).locked() as held:
        held.append(Claimed.from_data({"nonce": "0" * 32}), request_id="req-1", actor="daemon")
    done = cancel_request(bench.context, "req-1", by=OperatorDecision("test"), wait_seconds=0)
    assert done.outcome == "requested"
    assert (bench.workspace.control / "cancel-req-1").exists()
    assert "cancelled" not in events(bench)
    with Trail(bench.workspace).locked() as held:
        held.append(Cancelled(), request_id="req-1", actor="daemon")


def test_nothing_is_cancelled_that_is_not_there(bench: Bench) -> None:
    for wrong in ("nothing", "../x", "a", "req\n1"):
        assert (
            code_of(lambda wrong=wrong: cancel_request(bench.context, wrong, by=OperatorDecision("test")))
            == "unknown_request"
        )
    with Trail(bench.workspace).locked() as held:
        held.append(Validated.from_data({}), request_id="req-1", actor="daemon")
    assert code_of(lambda: cancel_request(bench.context, "req-1", by=OperatorDecision("test"))) == "not_approved"


def test_retry_means_the_same_with_a_new_id(bench: Bench) -> None:
    done = bench.approve(bench.draft())
    cancel_request(bench.context, "req-1", by=OperatorDecision("test"))
    (bench.workspace.files / "data.csv").unlink()
    again = retry_request(bench.context, bench.workspace.refused / done.path.name)
    assert again.request_id == "req-1.r2" and again.restored == ("data.csv",)
    text = again.path.read_text()
    assert "approved_by" not in text and "approved_utc" not in text
    promoted = bench.approve(again.path)
    assert all(check.ok for check in verify_approval(bench.context, promoted.path))
    third = retry_request(bench.context, promoted.path)
    assert third.request_id == "req-1.r3"


def test_what_is_retried_within_a_second_has_a_name_of_its_own(bench: Bench) -> None:
    """A file's name is used once, too; the names of two drafts of one second differ by a number."""
    done = bench.approve(bench.draft())
    now = datetime.now(UTC)
    first = retry_request(bench.context, done.path, now=now)
    names = [first.path.name]
    promoted = bench.approve(first.path)
    for _ in range(2):
        again = retry_request(bench.context, promoted.path, now=now)
        names.append(again.path.name)
        promoted = bench.approve(again.path)
    assert len(set(names)) == 3


def test_retry_takes_the_pinned_bytes_and_leaves_another_file_alone(bench: Bench) -> None:
    done = bench.approve(bench.draft())
    (bench.workspace.files / "data.csv").write_bytes(b"other")
    again = retry_request(bench.context, done.path)
    assert again.restored == ("data.csv",)
    assert (bench.workspace.files / "data.csv").read_bytes() == b"other"
    assert (bench.workspace.files / sha256_hex(DATA)).read_bytes() == DATA
    assert bench.approve(again.path).path.exists()
    assert retry_request(bench.context, done.path).restored == (), "it is there by its content"
    (bench.workspace.files / sha256_hex(DATA)).write_bytes(b"evil")
    with pytest.raises(InvalidInput, match="does not have the sha256 that is its name"):
        retry_request(bench.context, done.path)


def test_retry_of_what_was_never_approved_takes_its_own_file(bench: Bench) -> None:
    path = bench.draft()
    done = reject_draft(bench.context, path, reason="no", by=OperatorDecision("test"))
    assert retry_request(bench.context, done.path).restored == ()


def test_retry_never_takes_other_bytes(bench: Bench) -> None:
    done = bench.approve(bench.draft())
    (bench.workspace.files / "data.csv").write_bytes(b"other")
    for path in bench.workspace.inputs.iterdir():
        path.unlink()
    with pytest.raises(ThreeGateError, match="is now a different file, and nothing is pinned"):
        retry_request(bench.context, done.path)
    with pytest.raises(InvalidInput):
        retry_request(bench.context, bench.draft("req-9", slug="draft"))


def test_two_operators_for_one_request(bench: Bench) -> None:
    bob = bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    done = bench.approve(bench.draft())
    assert done.waits_for_quorum
    failed = [check.code for check in verify_approval(bench.context, done.path) if check.ok is False]
    assert failed == ["quorum_missing"]
    context = bench.context
    waiting, reviewed = open_waiting(context, done.path)
    assert reviewed.inputs[0].path.read_bytes() == b"1\n2\n"
    assert code_of(lambda: countersign(context, waiting, "alice", bench.keys["alice"])) == "replayed"
    assert code_of(lambda: countersign(context, waiting, "bob", bench.keys["alice"])) == "signer_unknown"
    signed = countersign(context, waiting, "bob", bob)
    assert not signed.missing and signed.path.name.endswith(".md.sig.bob")
    assert all(check.ok for check in verify_approval(bench.context, done.path))
    waiting, _ = open_waiting(context, done.path)
    assert code_of(lambda: countersign(context, waiting, "bob", bob)) == "replayed"


def test_one_key_under_two_names_is_no_quorum(bench: Bench) -> None:
    public = bench.keys["alice"].with_suffix(".pub").read_text()
    with pytest.raises(InvalidInput, match="occur only once"):
        add_operator(bench.workspace, "bob", public, actor="test")


def test_a_revoked_operator_cannot_approve_and_what_waits_does_not_run(bench: Bench) -> None:
    bench.operator("bob")
    done = bench.approve(bench.draft(), "bob")
    revoke_operator(bench.workspace, "bob", actor="test")
    failed = [check.code for check in verify_approval(bench.context, done.path) if check.ok is False]
    assert failed == ["signer_revoked"]
    assert code_of(lambda: bench.approve(bench.draft("req-2", slug="two"), "bob")) == "signer_revoked"
    bench.approve(bench.draft("req-3", slug="three"))
    lines, problem = list_operators(bench.workspace)
    assert problem is None
    assert [(line.name, line.revoked) for line in lines] == [("alice", False), ("bob", True)]


def test_a_key_that_was_let_in_again_by_a_comment_is_revoked_again(bench: Bench) -> None:
    bench.operator("bob")
    revoke_operator(bench.workspace, "bob", actor="test")
    file = bench.workspace.revoked_file
    file.write_text(f"# {file.read_text()}")
    record_operators(bench.workspace, actor="test")
    assert not list_operators(bench.workspace)[0][1].revoked
    revoke_operator(bench.workspace, "bob", actor="test")
    assert list_operators(bench.workspace)[0][1].revoked
    again = file.read_bytes()
    revoke_operator(bench.workspace, "bob", actor="test")
    assert file.read_bytes() == again, "a key is listed once"


def test_a_file_changed_by_hand_stops_everything_until_it_is_recorded(bench: Bench) -> None:
    done = bench.approve(bench.draft())
    with bench.workspace.operators_file.open("ab") as stream:
        stream.write(b"# a comment\n")
    failed = [check.code for check in verify_approval(bench.context, done.path) if check.ok is False]
    assert failed == ["operators_changed"]
    assert code_of(lambda: bench.operator("bob")) == "operators_changed"
    assert code_of(lambda: revoke_operator(bench.workspace, "alice", actor="test")) == "operators_changed"
    assert list_operators(bench.workspace)[1] is not None
    record_operators(bench.workspace, actor="test")
    assert all(check.ok for check in verify_approval(bench.context, done.path))


def test_the_commands_say_what_they_did(bench: Bench, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = ["--workspace", str(bench.workspace.root), "--json"]
    key = ["--key", str(bench.keys["alice"])]
    first = bench.draft()
    assert run([*root, "approve", str(first), *key, "--yes"]) == 0
    approved = json.loads(capfd.readouterr().out)["file"]
    assert run([*root, "audit", "approval", approved]) == 0
    assert all(check["ok"] for check in json.loads(capfd.readouterr().out))
    assert run([*root, "cancel", "req-1"]) == 0
    assert run([*root, "draft", "--again", "req-1"]) == 0
    assert run([*root, "audit", "approval", approved]) == 2
    bob = bench.keys["alice"].with_name("bob")
    del bob
    capfd.readouterr()
    assert run([*root, "operator", "list"]) == 0
    assert json.loads(capfd.readouterr().out)["operators"][0]["name"] == "alice"
    assert run([*root, "operator", "revoke", "nobody"]) == 2
    assert run([*root, "reject", str(bench.draft("req-7", slug="seven")), "--reason", "no"]) == 0
