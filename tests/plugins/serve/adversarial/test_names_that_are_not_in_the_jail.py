"""The door reads what an agent names, and nothing that its jail hides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.agents.conftest import project as project  # noqa: PLC0414 - a fixture that this file uses
from tests.plugins.agents.test_work_copy import working
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.agents.door_files import read_files
from threegate.plugins.agents.runs import RunFacts


def test_the_door_reads_no_name_that_the_agent_cannot(tmp_path: Path, project: Path) -> None:
    (project / ".env").write_text("CANARY\n")
    (project / "a.txt").write_text("seen\n")
    with working(tmp_path, "overlay") as copy:
        RunFacts(profile="generic", started_utc="", root=str(project), copy="overlay").write(copy.run)
        (project / "later").write_text("CANARY\n")
        workspace = Workspace(tmp_path)
        assert read_files(workspace, copy.run, ("a.txt",)) == [("a.txt", b"seen\n")]
        for path in (".env", "later"):
            with pytest.raises(InvalidInput, match="no such file"):
                read_files(workspace, copy.run, (path,))
