"""`threegate status --watch` as an application, and which form is taken when."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.tui.terminal import drive, open_first, read_all, rows, until
from tests.support import monty_draft
from threegate import cli
from threegate.acts.reject import reject_draft
from threegate.acts.signed_acts import OperatorDecision
from threegate.cli.application import application_here
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp, run_operator
from threegate.plugins.tui.request_list import RequestList


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


@pytest.mark.slow
def test_it_follows_what_happens(bench: Bench) -> None:
    first = bench.draft("req-1", slug="first", data=None)
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        table = app.screen.query_one(DataTable)
        assert table.row_count == 1 and "REQUESTS: 1" in "\n".join(rows(app))
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
            by=OperatorDecision("account:x"),
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
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        line = app.screen.query_one(RequestList).chosen
        assert line is not None
        bench.approve(path)
        app.screen.query_one(RequestList).post_message(RequestList.Opened(line))
        await until(pilot, lambda: bool(app.screen.query_one(Lines).lines))
        assert "cannot be read" in " ".join(map(str, app.screen.query_one(Lines).lines))

    drive(app, script)


def test_drafts_alike_are_one_row_until_enter_shows_each(bench: Bench) -> None:
    for number in range(3):
        text = monty_draft(f"m-{number}", "print(n)", variables=json.dumps({"n": number}))
        bench.workspace.inbox.joinpath(f"TR-2026112{number}-000000Z-month-{number}.md").write_text(text)
    bench.draft("req-9", slug="zother", data=None)
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        table, listed = app.screen.query_one(DataTable), app.screen.query_one(RequestList)
        assert table.row_count == 2 and listed.chosen is None, "of one risk, a group comes first"
        assert "REQUESTS: 4; Enter on drafts alike shows each" in "\n".join(rows(app))
        assert "3 drafts alike" in "\n".join(rows(app)) and len(listed.lines()) == 4
        await pilot.press("enter")
        await until(pilot, lambda: table.row_count == 5)
        shown = [row.partition("| ")[2] for row in rows(app) if " of 3 " in row]
        assert shown == [f"n = {n}  month-{n}" for n in (2, 1, 0)]
        await pilot.press("down", "down")
        assert listed.chosen is not None and "month-1" in listed.chosen.file
        listed.renew()
        assert listed.chosen is not None and "month-1" in listed.chosen.file and table.row_count == 5
        lines = await open_first(pilot)
        assert "month-1" in "\n".join(await read_all(pilot, lines))
        await pilot.press("escape", "up", "up", "enter")
        await until(pilot, lambda: table.row_count == 2)
        await pilot.press("slash", *"month-2", "enter")
        await pilot.pause()
        assert table.row_count == 1 and listed.chosen is not None, "what the filter leaves is not a group"

    drive(app, script)


def test_nothing_is_said_so_and_workers_are_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    app = OperatorApp(bench.workspace, undecided=False)
    worker = {"worker": "w\x1b[2J", "machine": None, "version": "", "heard_utc": None, "cores": 4, "cores_free": 1,
              "memory_mb": 9, "memory_free_mb": 5, "monty": 1, "era": 0, "running": [], "live": True,
              "reason": ""}  # fmt: skip

    async def script(pilot: Pilot[None]) -> None:
        assert "nothing here" in "\n".join(rows(app))
        await pilot.press("enter")
        bench.draft(data=None)
        found = [worker, {**worker, "live": False, "reason": "gone"}]
        monkeypatch.setattr("threegate.plugins.tui.request_list.worker_lines", lambda workspace: found)
        await until(pilot, lambda: "gets nothing: gone" in "\n".join(rows(app)))
        assert "1 of 4 cores and 5 of 9 MiB free" in "\n".join(rows(app)) and "w\\x1b[2J" in "\n".join(rows(app))

    drive(app, script)


def test_who_has_no_key_looks_and_decides_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    path = bench.draft(data=None)
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        assert app.acting is None
        lines = await open_first(pilot)
        text = "\n".join(map(str, lines.lines))
        assert "the operator whose key signs" in text
        for key in ("a", "r"):
            await pilot.press(key)
            assert "none of your keys" in "\n".join(rows(app)), key
        await pilot.press("question_mark")
        await until(pilot, lambda: "== KEYS" in "\n".join(rows(app)))
        assert any("signing is not possible" in str(line) for line in app.screen.query_one(Lines).lines)

    drive(app, script)
    assert path.exists()


def test_the_first_row_says_whether_anything_can_run(bench: Bench) -> None:
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "trail: verifies" in "\n".join(rows(app)))
        assert "daemon: not running" in "\n".join(rows(app))
        with bench.workspace.daemon_lock():
            await until(pilot, lambda: "daemon: runs" in "\n".join(rows(app)))

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
        monkeypatch.setitem(sys.modules, "textual", None)
    assert (application_here(plain) is run_operator) is wanted


def test_it_is_not_taken_where_it_is_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(bench.workspace.root)
    assert application_here(plain=False) is run_operator
    bench.settings(plugins__off=("tui",))
    assert application_here(plain=False) is None


@pytest.mark.slow
def test_off_a_terminal_the_plain_form_stays(bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    bench.draft(data=None)
    assert cli.execute(["-w", str(bench.workspace.root), "status"]) == 0
    said = capfd.readouterr().out
    assert said.startswith("daemon    not running") and "\ndraft     " in said
    assert cli.execute(["-w", str(bench.workspace.root), "review"]) == 2
    assert "needs a terminal" in capfd.readouterr().err


@pytest.mark.slow
def test_the_last_line_of_a_run_is_in_the_list_and_below_the_open_request(bench: Bench) -> None:
    bench.as_if_it_ran(bench.approve(bench.draft(data=None)).path, "req-1", "stdout", "step 1 \x1b[2J")
    app = OperatorApp(bench.workspace, undecided=False)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "stdout    | step 1 \\x1b[2J" in "\n".join(rows(app)))
        lines = await open_first(pilot)
        before = list(lines.lines)
        bench.workspace.output_file.write_text(json.dumps({"req-1": ["stderr", "step 2 " + "w" * 300]}))
        await until(pilot, lambda: "stderr    | step 2 w" in "\n".join(rows(app)))
        assert list(lines.lines) == before, "what is read stays as it is"

    with bench.workspace.daemon_lock():
        drive(app, script)
