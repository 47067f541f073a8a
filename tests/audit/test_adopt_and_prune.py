"""A restored, copied or moved workspace goes on only by a signed act; pruning takes nothing that is needed."""

from __future__ import annotations

import hashlib
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support import wait_until
from tests.trail.operated import make_operated
from tests.trail.workspaces import approve, make_workspace, run
from threegate.acts.adopt import adopt, adopt_about
from threegate.acts.signing_key import Acting
from threegate.audit.audit_verify import verify_workspace
from threegate.audit.prune import prune
from threegate.audit.trail_checkpoints import write_trail_checkpoint
from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.launch.context import open_context
from threegate.trail import payloads
from threegate.trail.payloads import Approved, Observed, Rejected
from threegate.trail.trail import Trail


def test_a_restored_backup_is_adopted_by_a_signature_and_old_approvals_are_void(tmp_path: Path) -> None:
    workspace, key = make_operated(tmp_path)
    shutil.copytree(workspace.root, tmp_path / "backup")
    with Trail(workspace).locked() as held:
        held.append(Observed(), actor="x")
        held.keep_head()
    shutil.rmtree(workspace.root)
    shutil.copytree(tmp_path / "backup", workspace.root)
    context = open_context(workspace)
    about = adopt_about(context)
    assert "cut or restored" in about["problem"] and about["epoch"] == 2
    done = adopt(context, Acting("operator", key), about)
    assert (done.epoch, done.new_key) == (2, False)
    event = [item for item in Trail(workspace).events() if item.type == "workspace_adopted"][-1]
    with Trail(workspace).locked() as held:
        assert held.index.epoch == 2 and held.outside_problem() is None
        assert event.actor == "operator:operator" and held.index.nonce_used(event.data["nonce"])
    assert verify_workspace(workspace).ok
    with pytest.raises(Refused, match="nothing to adopt"):
        adopt_about(open_context(workspace))


def test_a_copy_for_another_user_gets_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, key = make_operated(tmp_path)
    with Trail(workspace).locked() as held:
        write_trail_checkpoint(held, actor="x")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    context = open_context(workspace)
    done = adopt(context, Acting("operator", key), adopt_about(context))
    assert done.new_key
    with Trail(workspace).locked() as held:
        write_trail_checkpoint(held, actor="x")
    result = verify_workspace(workspace)
    assert result.ok and result.checkpoints == 2, result.problems


@pytest.mark.parametrize("what", ["trail", "folder", "key", "about"])
def test_what_is_not_adopted(tmp_path: Path, what: str) -> None:
    workspace, key = make_operated(tmp_path)
    (tmp_path / "ws").rename(tmp_path / "moved")
    workspace = Workspace(tmp_path / "moved")
    context = open_context(workspace)
    about = adopt_about(context)
    if what == "trail":
        workspace.trail_file.write_bytes(workspace.trail_file.read_bytes().replace(b"account:test", b"account:tesT", 1))
    elif what == "folder":
        (workspace.approved / "TR-evil.md").touch()
    elif what == "key":
        other, key = make_operated(tmp_path / "other") if (tmp_path / "other").mkdir() is None else (None, key)
    else:
        about = {**about, "seq": 99}
    with pytest.raises(Refused):
        adopt(context, Acting("operator", key), about)
    assert UserState.of(context.policy.settings.workspace.id).read_head()["path"] == str(tmp_path / "ws")


def test_prune_takes_only_what_ended_before(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        for name in ("old1", "new1", "open1"):
            approve(held, name)
    run(trail, "old1")
    middle = trail.clock() + timedelta(seconds=1)
    trail.clock.moment += timedelta(seconds=10)
    run(trail, "new1")
    plan = prune(workspace, before=middle, actor="me", dry_run=True)
    assert plan.runs == ("old1",) and plan.bytes > 0
    assert (workspace.runs / "old1").exists()
    assert prune(workspace, before=middle, actor="me").runs == ("old1",)
    assert sorted(path.name for path in workspace.runs.iterdir()) == ["new1"]
    assert verify_workspace(workspace).ok, verify_workspace(workspace).problems
    assert prune(workspace, before=middle, actor="me").runs == ()


def test_prune_keeps_the_run_of_a_backend_that_is_not_here(tmp_path: Path) -> None:
    """What a change replaced is in its run's folder; only the plugin knows how long it is kept."""
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        for name in ("here1", "gone1"):
            approve(held, name)
    run(trail, "here1")
    run(trail, "gone1", backend="never")
    done = prune(workspace, before=trail.clock() + timedelta(days=400), actor="me")
    assert (done.runs, done.kept) == (("here1",), ("gone1",)) and (workspace.runs / "gone1").is_dir()


def test_prune_keeps_inputs_that_something_else_names(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("both", "only", "nobody's")}
    for name, digest in digests.items():
        (workspace.inputs / digest).write_bytes(name.encode())
    with trail.locked() as held:
        for request_id, names in (("old1", ("both", "only")), ("open1", ("both",))):
            held.append(
                Approved.from_data({"inputs": {name: digests[name] for name in names}}),
                request_id=request_id,
                actor="me",
            )
        held.append(payloads.Refused(), request_id="old1", actor="me")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    done = prune(workspace, before=an_hour_ago, actor="me")
    assert done.inputs == (digests["only"],), "what nobody names yet may be about to be approved"
    assert sorted(path.name for path in workspace.inputs.iterdir()) == sorted([digests["both"], digests["nobody's"]])
    old = prune(workspace, before=datetime.now(UTC) + timedelta(hours=1), actor="me", dry_run=True)
    assert old.inputs == (digests["nobody's"],), "what nobody named for so long goes too"
    with trail.locked() as held:
        held.append(Approved.from_data({"inputs": "cut"}), request_id="cut1", actor="me")
        held.append(Approved.from_data({"inputs": {"n": digests["nobody's"]}}), request_id="old2", actor="me")
        held.append(Rejected(), request_id="old2", actor="me")
    assert prune(workspace, before=datetime.now(UTC), actor="me").inputs == (), "a list that was cut: nothing goes"


def test_prune_removes_inputs_of_drafts_that_are_gone(tmp_path: Path) -> None:
    """Those that `draft`, `retry` and the door put into inbox/files/ under their sha256; files with a name stay."""
    workspace, trail = make_workspace(tmp_path / "ws")
    texts = ("drafted", "broken", "rejected", "nobody's")
    digests = {text: hashlib.sha256(text.encode()).hexdigest() for text in texts}
    for text, digest in digests.items():
        (workspace.files / digest).write_text(text)
    (workspace.files / "data.csv").write_text("an agent's own")
    (workspace.files / ("a" * 64)).mkdir()
    (workspace.files / ("b" * 64)).symlink_to(workspace.files / "data.csv")
    (workspace.inbox / "TR-draft.md").write_text(f"sha256: {digests['drafted']}\n")
    (workspace.inbox / "TR-broken.md").write_text(f"no request, but {digests['broken']}")
    os.mkfifo(workspace.inbox / "TR-fifo.md")
    (workspace.inbox / "TR-large.md").write_bytes(b"x" * (limits.REQUEST_BYTES + 1))
    (workspace.inbox / "TR-link.md").symlink_to("nowhere")
    (workspace.refused / "TR-rejected.md").write_text(f"sha256: {digests['rejected']}\n")
    there = {path.name for path in workspace.files.iterdir()}
    assert prune(workspace, before=datetime.now(UTC) - timedelta(hours=1), actor="me").snapshots == (), "too young"
    later = datetime.now(UTC) + timedelta(hours=1)
    plan = prune(workspace, before=later, actor="me", dry_run=True)
    assert set(plan.snapshots) == {digests["rejected"], digests["nobody's"]} and plan.bytes == len("rejectednobody's")
    assert {path.name for path in workspace.files.iterdir()} == there
    assert prune(workspace, before=later, actor="me").snapshots == plan.snapshots
    assert {path.name for path in workspace.files.iterdir()} == there - set(plan.snapshots)
    (event,) = [event for event in trail.events() if event.type == "pruned"]
    assert event.data["what"] == "snapshots" and sorted(event.data["snapshots"]) == sorted(plan.snapshots)
    (workspace.refused / "TR-rejected.md").unlink()
    assert verify_workspace(workspace).ok, verify_workspace(workspace).problems


def test_prune_keeps_what_was_refused_since_and_all_if_a_draft_cannot_be_read(tmp_path: Path) -> None:
    workspace, _ = make_workspace(tmp_path / "ws")
    digest = hashlib.sha256(b"1").hexdigest()
    (workspace.files / digest).write_bytes(b"1")
    before = datetime.fromtimestamp((workspace.files / digest).stat().st_ctime + 0.001, UTC)
    rejected = workspace.refused / "TR-rejected.md"

    def refused_since() -> bool:
        rejected.write_text(f"sha256: {digest}\n")
        return rejected.stat().st_ctime >= before.timestamp()

    wait_until(refused_since)
    assert prune(workspace, before=before, actor="me").snapshots == ()
    rejected.unlink()
    draft = workspace.inbox / "TR-draft.md"
    draft.write_text("names nothing")
    os.link(draft, workspace.inbox / ".again")
    assert prune(workspace, before=before, actor="me").snapshots == (), "who knows what it names"
    draft.unlink()
    assert prune(workspace, before=before, actor="me").snapshots == (digest,)


def test_prune_removes_nothing_where_a_link_leads_that_took_the_place_of_the_inputs(tmp_path: Path) -> None:
    """An agent may write to inbox/: after the files were found it puts a link in the place of their folder."""
    workspace, _ = make_workspace(tmp_path / "ws")
    digest = hashlib.sha256(b"1").hexdigest()
    (workspace.files / digest).write_bytes(b"1")
    away = workspace.files.with_name("away")

    def exchange(moment: str, operation: str, path: str) -> None:
        if operation == "sync" and moment == "after" and not away.exists():  # the event is on disk
            workspace.files.rename(away)
            workspace.files.symlink_to(workspace.inputs)

    before = datetime.fromtimestamp((workspace.files / digest).stat().st_ctime + 0.001, UTC)
    wait_until(lambda: datetime.now(UTC) > before)
    (workspace.inputs / digest).write_bytes(b"1")  # the same bytes, pinned since for a request that waits
    stop = durable.observe(exchange)
    try:
        assert prune(workspace, before=before, actor="me").snapshots == (digest,)
    finally:
        stop()
    assert away.exists() and (workspace.inputs / digest).exists() and not (away / digest).exists()
