"""The sections of plugins in threegate.toml are set and shown like the core's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import make_place
from threegate.cli import execute
from threegate.core.settings import parse_settings
from threegate.plugins.changes.section import ProjectSettings
from threegate.setup.settings_file import set_values


def test_set_values_adds_a_missing_table(tmp_path: Path) -> None:
    path = tmp_path / "threegate.toml"
    path.write_text("[workspace]\n")
    set_values(path, {"project.root": "/srv/x"})
    assert parse_settings(path.read_bytes()).section(ProjectSettings).root == "/srv/x"


def test_show_tells_their_values_and_origins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = make_place(tmp_path)
    assert execute(["-w", str(place.root), "settings", "show", "--origin"]) == 0
    rows = dict(line.split(" = ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["grants.allow"] == "false   # default"
