"""The daemon's account cannot read all of the project: a proposal says so in its verdict, and raises nothing."""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.plugins.changes.applying import as_owner
from threegate.core.settings import Settings
from threegate.plugins.changes.section import ProjectSettings
from threegate.plugins.proposals.proposal_draft import draft_from_proposal
from threegate.plugins.proposals.tools import SCHEMA_VERSION

CALLS = {
    "file.list": {"maxDepth": 2},
    "file.read": {"path": "closed/a"},
    "project.cleanup_safe": {"include": ["closed"]},
    "shell.execute_approved": {"argv": ["ls"]},
    "git.status": {},
}


@pytest.mark.root
@pytest.mark.parametrize("tool", CALLS)
@pytest.mark.parametrize(("folder", "mode"), [("..", 0o700), ("", 0o700), ("closed", 0o704), ("closed", 0o700)])
def test_a_folder_that_is_closed(tool: str, folder: str, mode: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="threegate-closed-") as made:
        Path(made).chmod(0o755)
        project = Path(made) / "project"
        (project / "closed").mkdir(parents=True)
        (project / "closed/a").write_text("1")
        (project / folder).chmod(mode)
        settings = Settings(sections={"project": ProjectSettings(root=str(project))})
        proposal = {"schemaVersion": SCHEMA_VERSION, "tool": tool, "args": CALLS[tool], "risk": "high"}
        with as_owner():
            result = draft_from_proposal(json.dumps(proposal).encode(), settings=settings, now=datetime.now(UTC))
    assert result.problem is not None and result.draft is None, result
