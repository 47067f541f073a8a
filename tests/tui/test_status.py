"""`threegate status --watch` as an application, and which form is taken when."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from tests.acts.bench_workspace import Bench, make_bench
from tests.tui.terminal import drive, open_first, read_all, rows, until
from threegate import cli
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import Decision
from threegate.cli import invocation
from threegate.tui.lines import Lines
from threegate.tui.status_screen import LookScreen, StatusApp


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def test_it_follows_what_happens(bench: Bench) -> None:
    first = bench.draft("req-1", slug="first", data=None)
    app = StatusApp(bench.workspace, 20)

    async def script(pilot: Pilot[None]) -> None:
        table = app.screen.query_one(DataTable)
        assert table.row_count == 1 and "REQUESTS: 1" in rows(app)[0]
        bench.approve(first)
        await until(pilot, lambda: any(row.strip().startswith("approved") for row in rows(app)))
        lines = await open_first(pilot)
        text = "\n".join(await read_all(pilot, lines))
        assert "THE CHECKS OF A LAUNCH" in text and "signed by alice" in text and "== WHAT RUNS" in text
        await pilot.press("escape")
        await pilot.pause()
        reject_draft(
            bench.context,
            bench.draft("req-2", slug="no", data=None),
            reason="[b]no[/b]",
            by=Decision("account:x"),
        )
        await until(pilot, lambda: table.row_count == 2)
        await pilot.press("slash", *"refused", "enter")
        await pilot.pause()
        lines = await open_first(pilot)
        assert "[b]no[/b]" in "\n".join(map(str, lines.lines))
        await pilot.press("f", "escape", "q")

    drive(app, script)


def test_a_file_that_went_on_is_said_so(bench: Bench) -> None:
    path = bench.draft(data=None)
    app = StatusApp(bench.workspace, 20)

    async def script(pilot: Pilot[None]) -> None:
        row = app.screen.chosen()  # type: ignore[attr-defined]
        bench.approve(path)
        app.push_screen(LookScreen(row))
        await until(pilot, lambda: bool(app.screen.query(Lines)) and bool(app.screen.query_one(Lines).lines))
        assert "cannot be read" in " ".join(map(str, app.screen.query_one(Lines).lines))

    drive(app, script)


def test_nothing_is_said_so_and_workers_are_told(bench: Bench) -> None:
    app = StatusApp(bench.workspace, 20)
    worker = {"worker": "w\x1b[2J", "machine": None, "cores": 4, "cores_free": 1, "memory_mb": 9, "memory_free_mb": 5,
              "monty": 1, "era": 0, "running": [], "live": True, "reason": ""}  # fmt: skip

    async def script(pilot: Pilot[None]) -> None:
        assert "nothing here" in "\n".join(rows(app))
        await pilot.press("enter")
        bench.draft(data=None)
        bench.workspace.workers_file.write_text(
            json.dumps([worker, {**worker, "live": False, "reason": "gone"}])
        )
        await until(pilot, lambda: "takes no work: gone" in "\n".join(rows(app)))
        assert "1 of 4 cores free" in "\n".join(rows(app)) and "w\\x1b[2J" in "\n".join(rows(app))

    drive(app, script)


@pytest.mark.parametrize(
    ("plain", "terminal", "there", "wanted"),
    [(False, "xterm", True, True), (True, "xterm", True, False), (False, "dumb", True, False),
     (False, None, True, False), (False, "xterm", False, False)],
)  # fmt: skip
def test_when_the_application_is_taken(
    plain: bool, terminal: str | None, there: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    if terminal is not None:
        monkeypatch.setenv("TERM", terminal)
    if not there:
        monkeypatch.setattr(invocation.importlib.util, "find_spec", lambda name: None)
    assert invocation.wants_application(plain) is wanted


def test_off_a_terminal_the_plain_form_stays(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft(data=None)
    assert cli.execute(["-w", str(bench.workspace.root), "status"]) == 0
    assert capfd.readouterr().out.startswith("draft ")
    assert cli.execute(["-w", str(bench.workspace.root), "review"]) == 2
    assert "on a terminal" in capfd.readouterr().err
