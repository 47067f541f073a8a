"""Where an input of a draft lies."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace


def test_an_inbox_has_an_input_by_its_digest_or_by_its_name(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.files.mkdir(parents=True)
    digest = "0" * 64
    assert workspace.input_place(workspace.inbox, "a.txt", digest) == workspace.files / "a.txt"
    (workspace.files / digest).touch()
    assert workspace.input_place(workspace.inbox, "a.txt", digest) == workspace.files / digest
    assert workspace.input_place(workspace.drafts, "a.txt", digest).name == digest
