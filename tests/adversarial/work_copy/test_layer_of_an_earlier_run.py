"""The layer of names that a run takes from an earlier one has what is visible now, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.test_work_copy import SECRET, changed, inside
from threegate.agents.names_layer import METACOPY, REDIRECT
from threegate.agents.work_changes import read_changes
from threegate.agents.work_copy import NAMES, WorkCopy
from threegate.core.workspace import Workspace
from threegate.jail.jail import Account


def made(tmp_path: Path, number: int, take: Callable[[Path], None] = lambda place: None) -> WorkCopy:
    (tmp_path / "tool-exec").mkdir(exist_ok=True)
    run = Workspace(tmp_path).agent_run(f"ar-20261126-10213{number}z-00112233").make()
    return WorkCopy.make(run, tmp_path / "project", account=Account.own(), kind="overlay", take_names=take)


def layer_of(copy: WorkCopy) -> dict[str, tuple[object, ...]]:
    """Everything in a layer, by its path."""
    found: dict[str, tuple[object, ...]] = {}
    top = copy.run.work / NAMES
    for place, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(place, name)
            facts = path.lstat()
            what: tuple[object, ...] = (facts.st_mode,)
            if path.is_symlink():
                what = (os.readlink(path),)
            elif name in files:
                marks = (os.getxattr(path, METACOPY), os.getxattr(path, REDIRECT))
                what = (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_blocks, *marks)
            found[str(path.relative_to(top))] = what
    return found


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda project: None,
    "a file gets a secret": lambda project: (project / "a.txt").write_text(SECRET),
    "a file gets a secret and keeps its time and size": lambda project: _exchanged(project / "a.txt"),
    "a folder is a repository now": lambda project: os.rename(project / "sub", project / ".git"),
    "a file is gone": lambda project: (project / "sub/b.txt").unlink(),
    "a file is a folder": lambda project: ((project / "mode").unlink(), (project / "mode").mkdir()),
    "a folder is a file": lambda project: (
        (project / "gone/x").unlink(), (project / "gone/y").unlink(), (project / "gone").rmdir(),
        (project / "gone").write_text("1"),
    ),
    "a folder is a link": lambda project: (
        os.rename(project / "sub", project / "other"), (project / "sub").symlink_to("other"),
    ),
    "a link leads elsewhere": lambda project: ((project / "link").unlink(), (project / "link").symlink_to("same")),
    "modes": lambda project: ((project / "mode").chmod(0o755), (project / "gone").chmod(0o711)),
    "a new folder": lambda project: ((project / "new/er").mkdir(parents=True), (project / "new/er/f").touch()),
}  # fmt: skip


def _exchanged(path: Path) -> None:
    """Other bytes, and the same size and time: only the inode and the ctime, which the scan looks at, are others."""
    facts = path.stat()
    path.write_text(SECRET)
    os.truncate(path, len(SECRET))
    os.utime(path, ns=(facts.st_mtime_ns, facts.st_mtime_ns))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt", "gone/x", "gone/y", "mode", "same"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n".ljust(len(SECRET), "."))
    (folder / "link").symlink_to("a.txt")
    return folder


@pytest.mark.parametrize("name", CHANGES)
def test_it_is_as_one_that_was_made_anew(tmp_path: Path, project: Path, name: str) -> None:
    first = made(tmp_path, 0)
    before = (first.run.work / NAMES / "same").stat().st_ino
    CHANGES[name](project)
    (first.run.work / NAMES / "planted").write_text("x")
    (first.run.work / NAMES / "gone/planted").mkdir()
    taken = made(tmp_path, 1, lambda place: os.rename(first.run.work / NAMES, place))
    assert (taken.run.work / NAMES / "same").stat().st_ino == before
    assert layer_of(taken) == layer_of(made(tmp_path, 2))
    assert set(layer_of(taken)) == set(taken.start.entries) and ("a.txt" in taken.start.entries) != ("secret" in name)


def test_what_the_earlier_agent_changed_is_still_proposed(tmp_path: Path, project: Path) -> None:
    """An ended run is read from its manifest."""
    first = made(tmp_path, 0)
    inside(first, "echo 1 >a.txt; rm link; mv sub/b.txt new; rm -r gone; mkdir gone; echo x >gone/x")
    made(tmp_path, 1, lambda place: os.rename(first.run.work / NAMES, place))
    assert changed(read_changes(WorkCopy.of(first.run, project, "overlay", Account.own()))) == {
        "a.txt": "modify", "link": "delete", "sub/b.txt": "delete", "new": "add", "gone/x": "modify", "gone/y": "delete",
    }  # fmt: skip
    for place in tmp_path.glob("tool-exec/agents/*/work/scratch/*"):
        place.chmod(0o700)
