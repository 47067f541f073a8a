"""The folder of one run of an agent: its id, and what is in it."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from threegate.core.errors import InvalidInput
from threegate.core.file_names import is_agent_run_id, new_agent_run_id
from threegate.core.workspace import Workspace


def test_an_id_says_when_the_run_began_and_is_unique() -> None:
    now = datetime(2026, 11, 23, 10, 21, 39, tzinfo=UTC)
    made = {new_agent_run_id(now) for _ in range(50)}
    assert len(made) == 50 and all(is_agent_run_id(name) for name in made)
    assert all(name.startswith("ar-20261123-102139z-") for name in made)


@pytest.mark.parametrize("name", ["", "ar-", "../ar-20261123-102139z-00112233", "ar-20261123-102139z-0011223/", "AR-x", "ar-20261123-102139z-00112233\n"])  # fmt: skip  # noqa: E501
def test_what_is_no_id_names_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="threegate agent list"):
        Workspace(tmp_path).agent_run(name)


def test_everything_of_a_run_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "tool-exec").mkdir()
    run = Workspace(tmp_path).agent_run(new_agent_run_id(datetime.now(UTC))).make()
    folders = [
        run.folder.parent,
        run.folder,
        run.inbox,
        run.files,
        run.verdicts,
        run.results,
        run.state,
        run.work,
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    with pytest.raises(FileExistsError):
        run.make()
