"""Which workspace a command works with: the named one, this user's own here or above, the default place, any other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from threegate.core.errors import NoWorkspace
from threegate.core.user_state import UserState
from threegate.core.workspace import default_workspace, find_workspace, is_own_workspace

ID = "ws-" + "7" * 32


def settings(root: Path, text: str = f'[workspace]\nid = "{ID}"\n') -> Path:
    """A folder that has the settings of a workspace."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "threegate.toml").write_text(text)
    return root


def register(root: Path, workspace_id: str = ID) -> Path:
    """This user made the workspace that is there."""
    folder = UserState.of(workspace_id).folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "head.json").write_text(json.dumps({"id": workspace_id, "path": str(root)}))
    return root


def found(start: Path, *, only_own: bool = False) -> tuple[Path, list[Path]]:
    """The workspace, and those that were passed over."""
    passed: list[Path] = []
    return find_workspace(start, only_own=only_own, pass_over=passed.append).root, passed


def test_the_nearest_of_ones_own_is_found(tmp_path: Path) -> None:
    other = "ws-" + "8" * 32
    outer, inner = register(settings(tmp_path / "a")), settings(tmp_path / "a/b", f'[workspace]\nid = "{other}"\n')
    assert found(inner / "c") == (outer, [inner])
    register(inner, other)
    assert found(inner / "c") == (inner, [])
    assert found(outer) == (outer, [])


def test_one_that_somebody_else_made_comes_last(tmp_path: Path) -> None:
    theirs = settings(tmp_path / "clone")
    assert found(theirs) == (theirs, [])
    with pytest.raises(NoWorkspace, match="no workspace here or above"):
        found(theirs, only_own=True)
    mine = settings(default_workspace(), "")
    for only_own in (False, True):
        assert found(theirs, only_own=only_own) == (mine, [theirs])
    assert found(tmp_path) == (mine, [])


def test_a_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = settings(tmp_path / "clone")
    mine = register(settings(tmp_path / "mine"))
    assert find_workspace(mine, str(theirs), only_own=True).root == theirs
    monkeypatch.setenv("THREEGATE_WORKSPACE", str(theirs))
    assert find_workspace(mine).root == theirs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[workspace]\n",
        f'[workspace]\n# id = "{ID}"\n',
        f'[workspace]\nid = "{ID}0"\n',
        '[workspace]\nid = "../../ws-77777777777777777777777777777777"\n',
        f'[workspace]\nid = "ws-{"6" * 32}"\n',
        "\0" * 300_000,
    ],
)
def test_what_the_file_claims_is_not_believed(text: str, tmp_path: Path) -> None:
    root = register(settings(tmp_path / "w"))
    assert is_own_workspace(root)
    settings(root, text)
    assert not is_own_workspace(root)


def test_the_same_id_elsewhere_is_not_ones_own(tmp_path: Path) -> None:
    """A clone of a workspace that is published has its id."""
    register(settings(tmp_path / "mine"))
    assert not is_own_workspace(settings(tmp_path / "clone"))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mine")
    assert is_own_workspace(link), "the same folder by another name"


@pytest.mark.parametrize("head", ["", "[]", '{"id": 1}', '{"path": 7}', '{"path": ""}', '{"path": "\\u0000"}'])
def test_a_head_that_cannot_be_read_registers_nothing(head: str, tmp_path: Path) -> None:
    root = register(settings(tmp_path / "w"))
    UserState.of(ID).head_file.write_text(head)
    assert not is_own_workspace(root)


def test_a_settings_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    root = register(settings(tmp_path / "w"))
    os.rename(root / "threegate.toml", tmp_path / "elsewhere")
    (root / "threegate.toml").symlink_to(tmp_path / "elsewhere")
    assert not is_own_workspace(root)


def test_without_a_home_there_is_no_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    theirs = settings(tmp_path / "w")
    assert found(theirs) == (theirs, [])
    with pytest.raises(NoWorkspace):
        found(tmp_path)


def test_the_default_place_is_below_the_data_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_workspace() == tmp_path / "threegate/workspace"
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_workspace() == tmp_path / ".local/share/threegate/workspace"
