"""A drill of a change set in the application: the tree and the diff of any change, and revealed after the yes."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.plugins.changes.applying import picture
from tests.plugins.drills.project_drills import outcomes, placed_change, with_project
from tests.plugins.tui.terminal import drive, open_first, read_all, rows, until
from threegate.plugins.tui import operator_app
from threegate.plugins.tui.operator_app import OperatorApp
from threegate.plugins.tui.screens import Confirm, TextScreen


@pytest.mark.slow
def test_it_is_read_as_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, project = with_project(tmp_path)
    before, drill = picture(project), placed_change(bench)
    monkeypatch.setattr(operator_app, "sign", lambda *given: pytest.fail("a key was asked"))
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])
    seen: list[str] = []

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        seen.append("\n".join(rows(app)))
        await read_all(pilot, lines)
        seen.append("\n".join(rows(app)))
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: "planted" in "\n".join(rows(app)))
        seen.append("\n".join(rows(app)))

    drive(app, script, size=(160, 50))
    assert "drill" not in "".join(seen[:2]).replace(str(tmp_path), "").casefold()
    assert "THIS WAS A DRILL" in seen[2] and "you missed it" in seen[2]
    assert drill.path.rpartition("/")[2] in seen[0]
    assert outcomes(bench) == ["missed"] and picture(project) == before
