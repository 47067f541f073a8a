"""A drill in the application, on a plain terminal and on the page: revealed after the yes or the no, before any key
is asked.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import terminal_environment, under_a_terminal
from tests.conftest import slow
from tests.plugins.tui.terminal import drive, open_first, read_all, rows, until
from threegate.acts.signing_key import Acting
from threegate.daemon import run_daemon
from threegate.daemon.log import Log
from threegate.plugins.drills.drills import place_drill, set_drills
from threegate.plugins.drills.kinds import DrillEnded
from threegate.plugins.drills.placed_drill import Drill
from threegate.plugins.tui import operator_app
from threegate.plugins.tui.operator_app import OperatorApp
from threegate.plugins.tui.screens import Confirm, TextScreen
from threegate.review.overview import entries, find_entry
from threegate.review.request_view import view_request
from threegate.review.status import line_rows, status_lines
from threegate.trail.trail import Trail


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A workspace in which one request ran and one drill is open; no key can be used any more."""
    bench = make_bench(tmp_path)
    bench.approve(bench.draft("req-20260101-101010-abcdef"))
    assert run_daemon(bench.workspace, once=True, log=Log()) == 0
    set_drills(bench.context, Acting("alice", bench.keys["alice"]), on=True)
    assert place_drill(bench.context, chance=Random(7)) is not None
    monkeypatch.setattr(operator_app, "sign", lambda *given: pytest.fail("a key was asked"))
    return bench


def outcomes(bench: Bench) -> list[tuple[str | None, bool]]:
    """How drills ended, and whether their reading was measured."""
    found = [event.payload for event in Trail(bench.workspace).events()]
    return [(item.outcome, item.read_seconds is not None) for item in found if isinstance(item, DrillEnded)]


@pytest.mark.parametrize("answer", ["missed", slow("caught")])
@pytest.mark.slow
def test_in_the_application(bench: Bench, answer: str) -> None:
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await read_all(pilot, lines)
        if answer == "missed":
            await pilot.press("a")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press("y")
        else:
            await pilot.press("r", *"odd", "enter")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: "planted" in "\n".join(rows(app)))
        seen = "\n".join(rows(app))
        assert "THIS WAS A DRILL" in seen and f"you {answer} it" in seen and "limit: 100 s (was 10 s)" in seen
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.query_one(DataTable).row_count == 0)

    drive(app, script)
    assert outcomes(bench) == [(answer, True)]
    assert app.done.approved == [] and app.done.rejected == []


@pytest.mark.slow
@pytest.mark.parametrize("answer", [slow("missed"), "caught"])
def test_review_on_a_plain_terminal(bench: Bench, answer: str) -> None:
    bench.keys["alice"].write_text("no key at all")
    command = [
        sys.executable,
        "-m",
        "threegate",
        "--workspace",
        str(bench.workspace.root),
        "review",
        "--plain",
    ]
    given = [b"a\n" if answer == "missed" else b"r\n"]
    words = [*command, "--key", str(bench.keys["alice"])]
    output, status = under_a_terminal(words, given, terminal_environment(NO_COLOR="1"))
    text = output.decode()
    assert status == 0 and f"this was a drill: you {answer} it" in text, text
    assert "planted (limit):" in text and "| limit: 100 s (was 10 s)" in text
    assert "0 approved, 0 rejected, 0 skipped, 1 drill" in text
    assert outcomes(bench) == [(answer, True)]


@pytest.mark.slow
def test_approve_on_a_terminal(bench: Bench) -> None:
    bench.keys["alice"].write_text("no key at all")
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "approve"]
    (line,) = [line for line in status_lines(bench.workspace) if line.state == "draft"]
    words = [*command, str(line.request_id), "--key", str(bench.keys["alice"])]
    output, status = under_a_terminal(words, [b"n\n"], terminal_environment(NO_COLOR="1"))
    assert status == 2 and b"drill" not in output, "a no at the question decides nothing"
    output, status = under_a_terminal(words, [b"y\n"], terminal_environment(NO_COLOR="1"))
    assert status == 2 and b"this was a drill: you missed it" in output
    assert outcomes(bench) == [("missed", True)]


@pytest.mark.slow
def test_lists_say_nothing(bench: Bench) -> None:
    (entry,) = entries(bench.workspace, "drafts")
    assert find_entry(bench.workspace, "inbox", entry.key) == entry
    look = view_request(bench.context, entry)
    (line,) = [line for line in status_lines(bench.workspace) if line.state == "draft"]
    said = [
        *line_rows(line, now=datetime.now(UTC), width=80),
        str(line.to_json()),
        repr(look.sections),
        repr(look.line),
    ]
    assert look.problem == "" and isinstance(entry.path, Path)
    assert not [text for text in said if "drill" in text.replace(str(bench.workspace.root), "").casefold()]
    assert Drill.__name__ not in repr(look.sections)
