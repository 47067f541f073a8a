"""Projects by name: a name means one folder, and what may be registered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import make_bench
from tests.plugins.changes.applying import OWNER, own
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.changes.projects import find_project, look_at_project, read_projects
from threegate.plugins.changes.registered_projects import add_project, remove_project


def test_names_and_folders(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    workspace = bench.workspace
    folder = tmp_path / "web"
    folder.mkdir()
    own(folder)

    def found(name: str) -> str:
        return find_project(workspace, workspace.load_settings(), name).path

    for name in ("web", "default"):
        with pytest.raises(Refused) as caught:
            found(name)
        assert caught.value.code == "project_unknown"
    (tmp_path / "link").symlink_to(folder)
    place = add_project(workspace, "web", str(tmp_path / "link"), actor="test")
    assert place.path == found("web") == str(folder) and place.uid == OWNER
    for name, path in (("web", str(folder)), ("default", str(folder)), ("../x", str(folder)), ("x", "web"), ("x", str(folder / "no")),  # noqa: E501
                       ("x", str(bench.keys["alice"])), ("x", str(workspace.root)), ("x", str(workspace.inbox)),  # noqa: E501
                       ("x", "/"), *[("x", str(tmp_path))] * (os.geteuid() == 0)):  # fmt: skip
        # The last is root's: a person's folder with a workspace in it may be a project, and the workspace is hidden.
        with pytest.raises(InvalidInput):
            add_project(workspace, name, path, actor="test")
    bench.settings(project__root=str(folder))
    assert found("default") == str(folder)
    bench.settings(project__root=str(tmp_path / "gone"))
    with pytest.raises(Refused):
        found("default")
    folder.rename(tmp_path / "other")
    with pytest.raises(Refused):
        found("web")
    folder.mkdir()
    with pytest.raises(Refused) as caught:
        found("web")
    assert caught.value.code == "project_changed"
    remove_project(workspace, "web", actor="test")
    assert read_projects(workspace) == ()
    with pytest.raises(InvalidInput):
        remove_project(workspace, "web", actor="test")


@pytest.mark.root
def test_nothing_of_roots_and_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path)
    (tmp_path / "roots").mkdir()
    with pytest.raises(InvalidInput, match="root"):
        add_project(bench.workspace, "x", str(tmp_path / "roots"), actor="test")
    home = own_folder(tmp_path / "home")
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(InvalidInput, match="home"):
        add_project(bench.workspace, "x", str(home), actor="test")


def own_folder(path: Path) -> Path:
    path.mkdir()
    return own(path)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"projects": [{"name": "x"}]}', b'{"projects": []}'])
def test_a_file_that_is_not_ours(tmp_path: Path, data: bytes) -> None:
    bench = make_bench(tmp_path)
    bench.workspace.projects_file.write_bytes(data)
    with pytest.raises(InvalidInput, match="projects.json"):
        read_projects(bench.workspace)
    with pytest.raises(Refused):
        find_project(bench.workspace, bench.workspace.load_settings(), "web")
    assert look_at_project("x", str(tmp_path)).path == str(tmp_path)
