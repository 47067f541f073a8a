"""A project's folder is exchanged, and its repository is one that git would not make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.plugins.changes.branches import branching, edit
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.projects import groups_of, hold_project, read_projects


@pytest.mark.root
def test_the_group_of_an_account_without_an_entry_is_that_of_the_held_folder(tmp_path: Path) -> None:
    """At its path may be a link to a folder of root's by now, whose group the child would get."""
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, 54321, 54321)
    facts = project.stat()
    place = ProjectPlace("p", str(project), facts.st_dev, facts.st_ino, facts.st_uid)
    with hold_project(place) as held:
        project.rename(tmp_path / "moved")
        project.symlink_to("/")
        assert groups_of(place, held.fileno()) == (54321, [])


def test_a_tree_with_a_name_that_git_would_not_write() -> None:
    """Such repositories can be cloned. Before, a draft for one ended each list of drafts with a ValueError."""
    with branching({"app.py": "print(1)\n"}) as here:
        draft = here.propose(edit)
        blob = here.git("rev-parse", "HEAD:app.py").strip()
        entries = b"".join(b"100644 %s\0%s" % (name, bytes.fromhex(blob)) for name in (b"..", b"app.py"))
        literally = subprocess.run(
            ["git", "-c", "safe.directory=*", "hash-object", "-t", "tree", "--literally", "-w", "--stdin"],
            cwd=here.project, input=entries, capture_output=True, check=True,
        )  # fmt: skip
        commit = here.git("commit-tree", "-m", "odd", literally.stdout.decode().strip()).strip()
        here.git("update-ref", "refs/heads/main", commit)
        refused = here.approve(draft, expect=2)
        assert "git fsck" in refused.err, refused.err


@pytest.mark.parametrize("name", ["5", "null", '["a"]'])
def test_a_list_of_projects_that_was_edited_by_hand(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "tool-exec").mkdir()
    row = '{{"name": {}, "path": "/p", "device": 1, "inode": 1, "uid": 1}}'
    workspace.projects_file.write_text(f'{{"projects": [{row.format(name)}, {row.format(chr(34) + "a" + chr(34))}]}}')
    with pytest.raises(InvalidInput, match="register the projects again"):
        read_projects(workspace)
