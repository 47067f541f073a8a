"""doctor says of each project whether it can be changed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support import make_place
from threegate.plugins.changes.apply.apply_journal import STAGE


def test_each_project_that_cannot_be_changed_has_a_line(tmp_path: Path) -> None:
    for name in ("fine", "busy", "gone"):
        (tmp_path / name).mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / "fine", 65534, -1)
        os.chown(tmp_path / "busy", 65534, -1)
        os.chown(tmp_path / "gone", 65534, -1)
    place = make_place(tmp_path, settings={"project.root": "/"})
    for name in ("fine", "busy", "gone"):
        place.run("project", "add", name, str(tmp_path / name), expect=0)
    (tmp_path / "busy" / STAGE).mkdir()
    (tmp_path / "gone").rmdir()
    lines = place.run("doctor", "--no-probes", "--json", expect=0).json()["lines"]
    found = [(line["state"], line["seen"]) for line in lines if line["name"] == "projects"]
    assert [state for state, _ in found] == ["warning", "warning", "warning", "ok"]
    for (_, seen), part in zip(
        found,
        ("belongs to root", "busy is in progress or was interrupted", "gone: cannot", "may change fine"),
        strict=True,
    ):
        assert part in seen
