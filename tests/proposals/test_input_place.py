"""Where an input of a draft lies."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace
from threegate.proposals.in_workspace import input_place


def test_an_inbox_has_an_input_by_its_digest_or_by_its_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.files.mkdir(parents=True)
    digest = "0" * 64
    assert input_place(workspace, workspace.inbox, "a.txt", digest) == workspace.files / "a.txt"
    (workspace.files / digest).touch()
    assert input_place(workspace, workspace.inbox, "a.txt", digest) == workspace.files / digest
    assert input_place(workspace, workspace.drafts, "a.txt", digest).name == digest
