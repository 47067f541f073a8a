"""The service's unit lets the account write its own projects."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.support import make_place
from threegate.core.workspace import Workspace
from threegate.setup.settings_file import set_values
from threegate.setup.systemd_service import plan_install


@pytest.mark.root
def test_the_account_may_write_its_own_projects_and_is_told_of_the_others(tmp_path: Path) -> None:
    own = pwd.getpwuid(os.geteuid() or 65534)
    place = make_place(tmp_path)
    for name, uid in (("mine", own.pw_uid), ("with space", own.pw_uid), ("gone", own.pw_uid), ("theirs", 1)):
        folder = tmp_path / name
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, uid, -1)
        place.run("project", "add", name.replace(" ", "-"), str(folder), expect=0)
    (tmp_path / "gone").rmdir()
    set_values(place.root / "threegate.toml", {"project.root": "/"})
    plan = plan_install(Workspace(place.root), name="threegate", user=own.pw_name, era=False)
    [line] = [line for line in plan.unit.splitlines() if line.startswith("ReadWritePaths=")]
    assert f' -{tmp_path}/mine "-{tmp_path}/with space"' in line
    assert "gone" not in line and "theirs" not in line
    notes = "\n".join(plan.notes)
    assert "project gone: " in notes and "project default: belongs to uid 0" in notes
    waits = "project theirs: belongs to uid 1, so its change sets will wait"
    assert (waits in notes) == (os.geteuid() == 0), "nobody else can give a folder away"
    as_root = plan_install(Workspace(place.root), name="threegate", user="root", era=True)
    assert "ReadWritePaths=" not in as_root.unit
    assert "project theirs" not in "\n".join(as_root.notes) and "project default" in "\n".join(as_root.notes)
