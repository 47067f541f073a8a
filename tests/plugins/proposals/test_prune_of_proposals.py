"""prune takes what proposals left."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.trail.workspaces import make_workspace
from threegate.audit.prune import prune


def test_prune_takes_the_snapshots_of_proposals_whose_drafts_are_gone(tmp_path: Path) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    files = workspace.drafts / "files"
    files.mkdir()
    needed, gone = ("a" * 64), ("b" * 64)
    for name in (needed, gone):
        (files / name).write_bytes(b"a snapshot")
    (workspace.drafts / "TR-waits.md").write_text(f"inputs:\n  - sha256: {needed}\n")
    for name in ("TR-waits.md", "TR-gone.md"):
        (workspace.drafts / f"{name}.proposal.json").write_text("{}")
    before = datetime.now(UTC)
    plan = prune(workspace, before=before, actor="me", dry_run=True)
    assert plan.snapshots == ("TR-gone.md.proposal.json", gone) and (files / gone).exists()
    assert prune(workspace, before=before, actor="me").snapshots == plan.snapshots
    assert sorted(path.name for path in workspace.drafts.rglob("*") if path.is_file()) == [
        "TR-waits.md", "TR-waits.md.proposal.json", needed]  # fmt: skip
    (event,) = (event for event in trail.events() if event.type == "pruned")
    assert event.data["what"] == "snapshots" and event.data["snapshots"] == list(plan.snapshots)
    (workspace.drafts / "TR-unreadable.md").mkdir()
    (files / gone).touch()
    assert prune(workspace, before=before, actor="me").snapshots == (), "a draft that cannot be read may name it"
