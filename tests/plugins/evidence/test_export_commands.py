"""`audit export` and `audit report`: what they write, and what they say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trail.workspaces import approve, make_workspace, run
from threegate import cli


def test_export_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace, trail = make_workspace(tmp_path / "ws")
    with trail.locked() as held:
        approve(held, "ran1")
    run(trail, "ran1")

    def tg(*words: str) -> str:
        assert cli.execute(["-w", str(workspace.root), *words]) == 0
        return capsys.readouterr().out

    assert tg("audit", "export").count("\n") == 5
    assert "5 written" in tg("audit", "export", "--format", "csv", "--out", str(tmp_path / "t.csv"))
    assert "1 written" in tg("audit", "export", "--format", "in-toto", "--out", str(tmp_path / "s"))
    assert "1 requests" in tg("audit", "report", "--out", str(tmp_path / "r.html"))
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
