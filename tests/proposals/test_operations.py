"""Proposals at work: what is swept away, what is drafted again after a crash, what apply does at the last moment."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.support import Place, make_place
from threegate.acts import apply
from threegate.changes.project_paths import read_path
from threegate.core import durable
from threegate.core.errors import Refused, Unavailable
from threegate.core.workspace import Workspace
from threegate.daemon.proposals import Proposer
from threegate.proposals.in_workspace import sweep
from threegate.proposals.project import Project
from threegate.trail import Trail


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
        proposer = Proposer(
            workspace, trail, lambda event, file, what: said.append(what), workspace.load_settings
        )
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


def change(project: Project, before: str | None, after: bytes) -> apply.Change:
    """A change of a.txt whose plan was made when it had the sha256 `before`."""
    about = {"before": before, "path": "a.txt"}
    return apply.Change(None, project, "", about, write=(read_path("a.txt"), after))  # type: ignore[arg-type]


def exchange(project: Project, before: str | None) -> None:
    """The last step of apply, without what comes before it."""
    with apply._backup_folder(project, "r") as kept:
        one = change(project, before, b"new\n")
        assert one.write is not None
        apply._exchange(one, *one.write, kept, project.root / apply.BACKUP / "r")


def test_a_change_at_the_last_moment_is_put_back(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("somebody else\n")
    project = Project.open(str(tmp_path))
    with pytest.raises(Refused, match="put back"):
        exchange(project, "0" * 64)
    assert file.read_text() == "somebody else\n"
    with pytest.raises(Refused, match="changed while"):
        exchange(project, None)
    assert file.read_text() == "somebody else\n"
    file.unlink()
    os.symlink("/etc/hostname", file)
    with pytest.raises(Refused, match="put back"):
        exchange(project, "0" * 64)
    assert file.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".threegate-backup", "a.txt"]
    assert not list((tmp_path / ".threegate-backup").iterdir())


@pytest.mark.parametrize("operation", ["create", "write", "sync", "exchange", "rename"])
def test_a_disk_that_fails_loses_no_bytes(tmp_path: Path, operation: str) -> None:
    """Above all not the old ones, which lie under a temporary name between the exchange and the backup."""
    file = tmp_path / "a.txt"
    file.write_text("old\n")

    def fail(moment: str, what: str, path: str) -> None:
        if (moment, what) == ("before", operation):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    forget = durable.observe(fail)
    try:
        with pytest.raises((Refused, OSError)):
            exchange(Project.open(str(tmp_path)), hashlib.sha256(b"old\n").hexdigest())
    finally:
        forget()
    assert file.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".threegate-backup", "a.txt"]


def test_a_backup_that_is_there_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / ".threegate-backup" / "r").mkdir(parents=True)
    (tmp_path / ".threegate-backup" / "r" / "kept").touch()
    with pytest.raises(Unavailable, match="is there already"):
        exchange(Project.open(str(tmp_path)), None)


@pytest.mark.parametrize("text", [".env", "data/x", ".clawguard.json", "../x", "tool-exec/x", "link/x", "."])
def test_apply_touches_nothing_protected(text: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    with pytest.raises(Refused) as caught:
        apply.checked_path(Project.open(str(tmp_path)), text)
    assert caught.value.code == "path_blocked"
