"""After a decision the next undecided draft opens; keys that were typed before that decide nothing about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.acts.bench_workspace import Bench, make_bench
from tests.plugins.tui.terminal import drive, open_first, rows, until
from tests.plugins.tui.test_real_terminal import Terminal
from threegate.plugins.tui import typed_ahead
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp
from threegate.plugins.tui.screens import Confirm, ReasonScreen

TALL = (80, 50)
"""A whole card is on the screen at once."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = make_bench(tmp_path)
    for number in range(3):
        made.draft(f"req-{number}", slug=f"n{number}", data=None, code=f"print({number})")
    return made


def said(app: OperatorApp) -> str:
    return str(app.screen.query_one("#say", Static).content)


def drafts(bench: Bench) -> int:
    return len(list(bench.workspace.inbox.glob("*.md")))


def test_the_next_opens_and_needs_a_pause(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_ahead, "QUIET_SECONDS", 600.0)  # no machine is that slow between two keys
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: lines.unseen == 0)
        await pilot.press("a", "y", "a", "y", "r")
        await until(pilot, lambda: drafts(bench) == 2 and bool(lines.lines) and lines.unseen == 0)
        for key in ("a", "y", "a", "r", "c", "a"):
            await pilot.press(key)
            assert not isinstance(app.screen, Confirm | ReasonScreen) and drafts(bench) == 2
        assert said(app) == "this request opened by itself: pause, then press the key again"
        monkeypatch.setattr(typed_ahead, "QUIET_SECONDS", 0.0)
        await pilot.press("a")
        assert isinstance(app.screen, Confirm)
        await pilot.press("n", "r", *"no", "enter")
        await until(pilot, lambda: drafts(bench) == 1 and bool(lines.lines))
        await until(pilot, lambda: said(app) != "reading …")
        assert said(app).startswith("rejected ")
        await until(pilot, lambda: lines.unseen == 0)
        await pilot.press("a", "y")
        await until(pilot, lambda: not app.screen.has_class("opened"))
        assert "nothing is waiting for you" in "\n".join(rows(app))

    drive(app, script, TALL)
    assert len(app.done.approved) == 2 and len(app.done.rejected) == 1


def test_what_cannot_be_done_leaves_the_request_open(bench: Bench) -> None:
    app = OperatorApp(bench.workspace, undecided=True, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: lines.unseen == 0)
        bench.settings(approval__ttl="1h")
        await pilot.press("a", "y")
        await until(pilot, lambda: "changed since this was shown" in said(app))
        assert app.screen.query_one(Lines).lines and drafts(bench) == 3

    drive(app, script, TALL)
    app.held.close()


def test_keys_typed_ahead_on_a_real_terminal_sign_one_request(bench: Bench) -> None:
    terminal = Terminal(bench, "review", "--key", str(bench.keys["alice"]), size=TALL)
    terminal.wait("UNDECIDED: 3")
    terminal.type("\r")
    terminal.wait("all seen")
    terminal.type("ay" * 40)
    terminal.wait("-n1.md")  # the message on the first may go at once: a key that waited gets another
    terminal.wait("all seen")
    terminal.type("q")
    assert terminal.end() == 0
    assert drafts(bench) == 2 and "1 approved, 0 rejected, 2 left" in terminal.text()
