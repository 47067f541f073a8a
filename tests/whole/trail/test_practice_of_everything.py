"""Records of practice of a workspace where everything happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.whole.trail.everything import make_everything
from threegate.audit.practice import practice_of
from threegate.cli import execute as run
from threegate.trail.trail import Trail


@pytest.mark.slow
def test_of_a_workspace_where_everything_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = make_everything(tmp_path)
    practice = practice_of(Trail(workspace).events())
    capsys.readouterr()
    assert run(["--workspace", str(workspace.root), "audit", "stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == practice.to_json()
    assert practice.operators["alice"].rejected == 2 and practice.reasons["no"] == 2
    assert practice.operators["bob"].countersigned >= 1 and practice.stops["cancelled"] == 1
    assert [grant.approved for grant in practice.grants.values()] == [1]
    assert run(["--workspace", str(workspace.root), "audit", "stats", "--since", "never"]) == 2
    assert "give a date, a time or a duration" in capsys.readouterr().err
