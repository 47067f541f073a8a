"""Tab offers the ids and names that the plugins' commands take."""

from __future__ import annotations

import os

import pytest

from tests.cli.test_tab_completion import filled
from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, offered
from threegate.core.workspace import Workspace
from threegate.plugins.tools.kinds import ToolsAdded
from threegate.trail.trail import Trail


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With a project and a server of tools."""
    place = filled(tmp_path_factory.mktemp("tab"))
    project = place.root.parent / "web"
    project.mkdir()
    if os.geteuid() == 0:
        os.chown(project, 65534, 65534)  # a project of root's is never registered
    place.run("project", "add", "web", str(project), expect=0)
    added = ToolsAdded(server="files", files={"tools/files.json": "0" * 64})
    Trail(Workspace(place.root)).announce(added, actor="operator")
    return place


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("project", "redraft", ""), ["TR-first", "TR-second"]),
        (("project", "undo", ""), ["TR-finished", "req-ran"]),
        (("audit", "pack", ""), ["req-ended"]),
        (("project", "remove", ""), ["web"]),
        (("agent", "connect", "co"), ["codex"]),
        (("tools", "show", ""), ["files"]),
    ],
    ids=" ".join,
)
def test_each_command_is_offered_what_it_takes(place: Place, words: tuple[str, ...], names: list[str]) -> None:
    assert offered(place, *words) == names


def test_runs_of_agents_are_offered(place: Place) -> None:
    run = make_run(place).run_id
    assert offered(place, "agent", "stop", "ar-") == offered(place, "agent", "show", "") == [run]


def test_what_cannot_be_read_is_not_offered(place: Place) -> None:
    settings = place.root / "threegate.toml"
    before = settings.read_text()
    settings.write_text("[nonsense")
    try:
        assert offered(place, "agent", "connect", "") == []
        assert offered(place, "approve", "TR-s") == ["TR-second"]
    finally:
        settings.write_text(before)
