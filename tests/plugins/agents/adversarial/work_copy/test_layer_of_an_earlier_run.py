"""The layer of names that a run takes from an earlier one has what is visible now, and nothing else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.agents.test_work_copy import SECRET, changed, inside
from threegate.core.workspace import Workspace
from threegate.plugins.agents.names_layer import METACOPY, REDIRECT, make_names
from threegate.plugins.agents.project_survey import Original, Survey
from threegate.plugins.agents.work_changes import read_changes
from threegate.plugins.agents.work_copy import NAMES, WorkCopy
from threegate.runners.jail.jail import Account


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


CHANGES: dict[str, str] = {
    "nothing": "true",
    "a file gets a secret": "cp SECRET a.txt",
    "a file gets a secret and keeps its time and size": "touch -r a.txt ../t; cat SECRET >a.txt; touch -r ../t a.txt",
    "a folder is a repository now": "mv sub .git",
    "a file is gone": "rm sub/b.txt",
    "a file is a folder": "rm mode; mkdir mode",
    "a folder is a file": "rm -r gone; echo 1 >gone",
    "a folder is a link": "mv sub other; ln -s other sub",
    "a link leads elsewhere": "ln -sfn same link",
    "modes": "chmod 755 mode; chmod 711 gone",
    "a new folder": "mkdir -p new/er; touch new/er/f",
}
"""What a person does with the project between two runs; `SECRET` is a file with a token."""


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
    (tmp_path / "SECRET").write_text(SECRET)
    subprocess.run(["sh", "-ec", CHANGES[name].replace("SECRET", "../SECRET")], cwd=project, check=True)
    (first.run.work / NAMES / "planted").write_text("x")
    (first.run.work / NAMES / "gone/planted").mkdir()
    taken = made(tmp_path, 1, lambda place: os.rename(first.run.work / NAMES, place))
    assert (taken.run.work / NAMES / "same").stat().st_ino == before
    assert layer_of(taken) == layer_of(made(tmp_path, 2))
    assert set(layer_of(taken)) == set(taken.start.entries) and ("a.txt" in taken.start.entries) != ("secret" in name)


def test_a_folder_that_only_the_agent_had_is_made_for_what_is_shown_in_it(tmp_path: Path) -> None:
    start = Survey({path: Original("file", 0o644, 3, 1, 1, 1) for path in ("a/b/c", "a/d")})
    source = os.open(tmp_path, os.O_RDONLY)
    make_names(start, source, tmp_path / "layer")
    os.close(source)
    found = sorted(str(path.relative_to(tmp_path / "layer")) for path in (tmp_path / "layer").rglob("*"))
    assert found == ["a", "a/b", "a/b/c", "a/d"]


def test_what_the_earlier_agent_changed_is_still_proposed(tmp_path: Path, project: Path) -> None:
    """An ended run is read from its manifest."""
    first = made(tmp_path, 0)
    inside(first, "echo 1 >a.txt; rm link; mv sub/b.txt new; rm -r gone; mkdir gone; echo x >gone/x")
    made(tmp_path, 1, lambda place: os.rename(first.run.work / NAMES, place))
    assert changed(read_changes(WorkCopy.of(first.run, project, "overlay", Account.own()))) == {
        "a.txt": "modify", "link": "delete", "sub/b.txt": "delete", "new": "add", "gone/x": "modify",
        "gone/y": "delete",
    }  # fmt: skip
    for place in tmp_path.glob("tool-exec/agents/*/work/scratch/*"):
        place.chmod(0o700)
