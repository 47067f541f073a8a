"""The default place of workspaces is no project, nothing that an agent reads, and no folder of a program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace, default_workspace
from threegate.plugins.agents.work_copy import refuse_project
from threegate.plugins.changes.projects import check_new, look_at_project
from threegate.runners.jail.program_folder import tree_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a workspace at the default place."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME")
    (default_workspace() / "tool-exec").mkdir(parents=True)
    return tmp_path / "home"


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("below", [".local", ".local/share", ".local/share/threegate", ".local/share/threegate/other"])
@pytest.mark.parametrize("used", ["default", "another"])
def test_it_is_refused_for_agents(below: str, copied: bool, used: str, home: Path, tmp_path: Path) -> None:
    """Also if the run's own workspace is another one, and if it is this one, which may otherwise be in a project."""
    (home / below).mkdir(exist_ok=True)
    workspace = Workspace(default_workspace() if used == "default" else tmp_path / "ws")
    said = "is inside" if below.endswith("other") else "is or contains"
    with pytest.raises(InvalidInput, match=said):
        refuse_project(home / below, workspace, "ws-" + "1" * 32, copied=copied)


@pytest.mark.parametrize(
    "below", [".local/share", ".local/share/threegate", ".local/share/threegate/workspace/tool-exec"]
)
def test_it_is_refused_as_a_registered_project(below: str, home: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(home / below, 65534, 65534)
    with pytest.raises(InvalidInput, match="your own workspace"):
        check_new(Workspace(tmp_path / "ws"), look_at_project("project", str(home / below)))


def test_a_program_beside_it_brings_only_its_file(home: Path) -> None:
    share = home / ".local/share"
    for folder in (share, share / "tool"):
        (folder / "bin").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "bin/agent").touch()
    assert tree_of(share / "bin/agent") == share / "bin/agent"
    assert tree_of(share / "tool/bin/agent") == share / "tool"
