"""Proposals at work: what is swept away, what is drafted again after a crash."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support import Place, make_place
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.in_workspace import sweep
from threegate.plugins.proposals.proposer import Proposer
from threegate.trail.trail import Trail


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace with a project of one file."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old\n")
    return make_place(tmp_path, settings={"project.root": str(project)})


def take(place: Place, value: object, name: str = "AP-x.json") -> str:
    """Give one proposal to a proposer, as the daemon does; what was said about it."""
    workspace = Workspace(place.root)
    said: list[str] = []
    trail = Trail(workspace)
    try:
        proposer = Proposer(workspace, trail, lambda event, file, what: said.append(what), workspace.load_settings)
        path = workspace.inbox / name
        data = json.dumps(value).encode()
        path.write_bytes(data)
        proposer(path, data, path.stat().st_uid)
    finally:
        trail.close()
    return said[-1]


def test_a_crash_before_the_delivery_is_made_good(place: Place) -> None:
    value = {"tool": "file.read", "args": {"path": "a.txt"}}
    assert take(place, value) == "auto: drafted"
    drafts = place.root / "tool-exec" / "drafts"
    draft = next(drafts.glob("*.md"))
    draft.unlink()
    assert take(place, value) == "auto: drafted"
    assert len(list(drafts.glob("*.md"))) == 1
    assert take(place, value) == "auto: drafted_before"
    assert len(place.events("proposed")) == 2


def test_files_of_drafts_are_the_operators_alone(place: Place) -> None:
    take(place, {"tool": "file.read", "args": {"path": "a.txt"}})
    folder = place.root / "tool-exec" / "drafts" / "files"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert place.events("proposed")[0]["data"]["owner_uid"] == os.getuid()


def test_what_no_draft_needs_is_swept_away(place: Place) -> None:
    workspace = Workspace(place.root)
    take(place, {"tool": "file.read", "args": {"path": "a.txt"}})
    take(place, {"tool": "memory.propose", "args": {"content": "x"}}, "AP-y.json")
    assert sweep(workspace) == 0
    kept = next(workspace.drafts.glob("*memory-propose*.md"))
    next(workspace.drafts.glob("*file-read*.md")).unlink()
    assert sweep(workspace) == 3
    assert sweep(workspace) == 0
    assert kept.with_name(f"{kept.name}.proposal.json").exists()
    (workspace.drafts / "strange.md").mkdir()
    kept.unlink()
    assert sweep(workspace) == 0
    assert sweep(Workspace(place.root / "nowhere")) == 0
