"""`threegate review` as an application: what is on the screen, what the keys do, and a real approval."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from tests.acts.bench_workspace import Bench, make_bench
from tests.conftest import slow
from tests.hostile_texts import MARK, fill
from tests.plugins.tui.terminal import SCREENS, drive, open_first, read_all, rows, until
from threegate.core import limits
from threegate.core.errors import InvalidInput, TrailError
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.plugins.tui import typed_ahead
from threegate.plugins.tui.input_screen import InputScreen
from threegate.plugins.tui.lines import Lines
from threegate.plugins.tui.operator_app import OperatorApp, RequestsScreen, run_operator
from threegate.plugins.tui.reading_pane import ReadingPane
from threegate.plugins.tui.request_list import RequestList
from threegate.plugins.tui.screens import Confirm, TextScreen
from threegate.review import readiness, status
from threegate.review.countersign import verify_approval
from threegate.review.draft_sources import drafts_of
from threegate.review.reviewed_draft import InvalidDraft, open_reviewed_draft, read_draft
from threegate.review.screen import render_invalid, render_reviewed_draft
from threegate.review.status import Line
from threegate.runners.backend import DoctorLine


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


def app_of(bench: Bench, name: str = "alice") -> OperatorApp:
    return OperatorApp(bench.workspace, undecided=True, key=bench.keys[name])


def plain(bench: Bench, path: Path, *, full: bool = False) -> list[str]:
    """The lines of the plain review, but for the moment in them."""
    context = bench.context
    try:
        with open_reviewed_draft(context, read_draft(bench.workspace, path)) as reviewed:
            lines = render_reviewed_draft(reviewed, context.policy.settings, operator="alice", full=full)
    except InvalidDraft as error:
        lines = render_invalid(error)
    return still(lines)


def still(lines: list[str]) -> list[str]:
    return [str(line).rstrip() for line in lines]


def said(app: OperatorApp) -> str:
    content = app.screen.query_one("#say", Static).content
    return content.plain if isinstance(content, Text) else str(content)


def closed(app: OperatorApp) -> bool:
    """Whether the list is there and nothing is open."""
    return isinstance(app.screen, RequestsScreen) and not app.screen.has_class("opened")


def chosen(app: OperatorApp) -> Line:
    line = app.screen.query_one(RequestList).chosen
    assert line is not None
    return line


@pytest.mark.parametrize("full", [False, slow(True)])
def test_it_shows_exactly_the_lines_of_the_plain_review(bench: Bench, full: bool) -> None:
    path = bench.draft(code="x = 1\n" * 90 + f"y = {'z' * 300!r}", purpose="Rank [bold]cities[/bold] {x}.")
    app, seen = app_of(bench), []

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        if full:
            await pilot.press("f")
            await pilot.pause()
        seen.extend(await read_all(pilot, lines))

    drive(app, script)
    assert still(seen) == plain(bench, path, full=full)


def test_hostile_words_stay_behind_the_gutter(bench: Bench) -> None:
    """Every hostile draft, line by line, against the plain review; the list too, and nothing moves out of its row."""
    fill(bench)
    app = app_of(bench)
    paths = {path.name: path for path in drafts_of(bench.workspace)}
    shown: dict[str, list[str]] = {}

    async def script(pilot: Pilot[None]) -> None:
        table = app.screen.query_one(DataTable)
        assert len(paths) == 16 + 8 + 3 and table.row_count == len(paths) - 1, "two of them are a group"
        listed = rows(app)
        assert not any("\x1b" in row or "\u202e" in row for row in listed)
        for row in listed[2:-2]:
            assert MARK not in row.partition("| ")[0], row
        for number in range(0, table.row_count, 7):
            table.move_cursor(row=number)
            if app.screen.query_one(RequestList).chosen is None:  # the group
                await pilot.press("down")
            line = chosen(app)
            lines = await open_first(pilot)
            shown[line.file] = await read_all(pilot, lines)
            foot = rows(app)
            assert any(row.startswith(" DRAFT, short: lines ") for row in foot) and "a Approve" in foot[-1]
            await pilot.press("escape")
            await pilot.pause()

    drive(app, script)
    assert len(shown) == 4
    for name, lines in shown.items():
        if MARK in name:
            continue  # no valid request: what is shown is a message
        assert still(lines) == plain(bench, paths[name]), name
    app.held.close()


def test_an_approval_by_a_real_key(bench: Bench) -> None:
    path = bench.draft(code="x = 1\n" * 40)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await pilot.press("a")
        assert "have not been on the screen" in said(app) and not isinstance(app.screen, Confirm)
        await pilot.press("end")
        await pilot.pause()
        await pilot.press("a")
        assert "have not been on the screen" in said(app), "jumping to the end is not reading"
        await pilot.press("home")
        await read_all(pilot, lines)
        assert lines.unseen == 0
        for key in ("enter", "a"):
            await pilot.press("a")
            assert isinstance(app.screen, Confirm)
            await pilot.press(key)
            assert isinstance(app.screen, Confirm), "only y and n answer"
            await pilot.press("n")
            await pilot.pause()
            assert "nothing was changed" in said(app) and path.exists()
        await pilot.press("a", "y")
        await until(pilot, lambda: closed(app))
        assert said(app) == f"approved {path.name}; no daemon is running: threegate run"
        assert "nothing is waiting for you; u shows everything" in "\n".join(rows(app))

    drive(app, script)
    (promoted,) = app.done.approved
    assert not path.exists() and promoted.path.is_file()
    assert all(check.ok for check in verify_approval(bench.context, promoted.path))
    assert [item.name for item in bench.workspace.inputs.iterdir() if item.name.startswith(".tmp")] == []


@pytest.mark.slow
def test_a_rejection_with_its_reason(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_ahead, "QUIET_SECONDS", 0.0)  # how long a key waits is not tried here
    path = bench.draft(data=None)
    broken = bench.draft("req-2", slug="zbroken", data=None)
    broken.write_text(broken.read_text().replace("network: none", "network: always"))
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        await pilot.press("r", "n", "o", "escape")
        await pilot.pause()
        assert "nothing was changed" in said(app) and path.exists()
        await pilot.press("r", "t", "o", "o", "space", "w", "i", "d", "e", "enter")
        lines = app.screen.query_one(Lines)
        await until(pilot, lambda: str([*lines.lines, ""][0]) == "== NOT VALID: 2 findings")  # it opens by itself
        await until(pilot, lambda: lines.unseen == 0)
        await pilot.press("f", "a")
        assert "cannot be approved" in said(app)
        await pilot.press("r", "enter")
        await until(pilot, lambda: closed(app))

    drive(app, script)
    assert len(app.done.rejected) == 2 and not path.exists() and not broken.exists()
    assert "too wide" in (bench.workspace.verdicts / f"{path.name}.json").read_text()


def test_what_was_shown_is_signed_and_what_changed_is_not(bench: Bench) -> None:
    """The draft's bytes are read once; settings that change while somebody reads make the screen void."""
    path = bench.draft(data=None, code="print('shown')")
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await read_all(pilot, lines)
        path.write_text(path.read_text().replace("shown", "other"))
        bench.settings(approval__ttl="1h")
        await pilot.press("a", "y")
        await until(pilot, lambda: "changed since this was shown" in said(app))
        await pilot.press("escape")
        path.write_text(path.read_text().replace("other", "shown"))
        lines = await open_first(pilot)
        await read_all(pilot, lines)
        path.write_text(path.read_text().replace("shown", "other"))
        await pilot.press("a", "y")
        await until(pilot, lambda: closed(app))

    drive(app, script)
    (promoted,) = app.done.approved
    assert "print('shown')" in promoted.path.read_text() and "print('other')" in path.read_text()
    assert not promoted.draft_removed


@pytest.mark.slow
def test_the_list_is_renewed_and_filtered(bench: Bench) -> None:
    for number in range(4):
        bench.draft(f"req-{number}", slug=f"kind{number % 2}-{number}", data=None, code=f"print({number})")
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        table = app.screen.query_one(DataTable)
        table.move_cursor(row=2)
        here = chosen(app).entry
        await pilot.press("slash", *"kind0", "enter")
        await pilot.pause()
        assert table.row_count == 2 and "UNDECIDED: 2 of 4" in "\n".join(rows(app))
        assert app.focused is table
        await pilot.press("escape")
        await pilot.pause()
        assert table.row_count == 4 and app.screen.query_one("#filter", Input).value == ""
        table.move_cursor(row=table.get_row_index(f"inbox/{here.path.name}"))
        bench.draft("req-9", slug="aaa", data=None, code="print(9)")
        await until(pilot, lambda: table.row_count == 5)
        assert chosen(app).entry.path == here.path, "the cursor stays on its draft"
        here.path.unlink()
        await until(pilot, lambda: table.row_count == 4)

    drive(app, script)


@pytest.mark.parametrize("size", [(120, 40), slow((41, 14))])
def test_every_line_is_whole_at_every_width(bench: Bench, size: tuple[int, int]) -> None:
    bench.draft(purpose="w" * 300)
    app = app_of(bench)
    seen: list[str] = []

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        seen.extend(await read_all(pilot, lines))
        assert lines.unseen == 0 and len(seen) == len(lines.lines)
        assert [row.rstrip() for row in seen] == [str(line).rstrip() for line in lines.lines]

    drive(app, script, size)
    assert sum(row.count("w") for row in seen) >= 300


def test_too_narrow_a_terminal_approves_nothing(bench: Bench) -> None:
    path = bench.draft(data=None, code="x = 1\n" * 40)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        for _ in range(8):
            await pilot.press("space")
        assert lines.unseen
        await pilot.press("a")
        assert "too small" in said(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert lines.unseen > 20, "another width is another text"

    drive(app, script, (30, 20))
    assert path.exists() and not app.done.approved


@pytest.mark.slow
def test_copies_of_inputs_go_when_it_ends(bench: Bench) -> None:
    bench.draft()
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        assert [path for path in bench.workspace.inputs.iterdir() if path.name.startswith(".tmp")]
        await pilot.press("escape")
        await pilot.pause()
        assert not list(bench.workspace.inputs.iterdir())
        await open_first(pilot)
        await pilot.press("q")

    drive(app, script)
    app.held.close()
    assert not list(bench.workspace.inputs.iterdir())


def test_who_reviews_must_be_clear_before_anything_is_shown(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="mallory"):
        run_operator(bench.workspace, undecided=True, name="mallory")


def test_a_trail_that_breaks_stops_it(bench: Bench) -> None:
    bench.draft(data=None)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        bench.workspace.trail_file.unlink()
        await pilot.press("enter")
        await until(pilot, lambda: app.stopped is not None)

    drive(app, script)
    assert isinstance(app.stopped, TrailError)


def test_refusals_are_told_on_the_screen(bench: Bench) -> None:
    path = bench.draft()
    (bench.workspace.files / "data.csv").write_bytes(b"other")
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        assert "the request declares" in " ".join(map(str, lines.lines)).replace("\n", "")
        await pilot.press("a")
        assert "cannot be approved" in said(app)
        await pilot.press("escape")
        path.unlink()
        (bench.workspace.inbox / path.name).symlink_to("/etc/passwd")

    drive(app, script)


@pytest.mark.slow
def test_all_inputs_are_paged_through_from_the_copies(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any screen holds, a page at a time; what is in the inbox meanwhile is not what is read."""
    monkeypatch.setattr(limits, "SHOWN_BYTES", 100)
    monkeypatch.setattr(limits, "INPUT_PAGE_BYTES", 400)
    text = "".join(f"line {number}\n" for number in range(1, 121))
    bench.draft(data=text.encode())
    app, seen = app_of(bench), []

    async def script(pilot: Pilot[None]) -> None:
        draft = await open_first(pilot)
        (bench.workspace.files / "data.csv").write_bytes(b"other\n")
        assert any(line.startswith("  NOT SHOWN WHOLE:") for line in draft.lines)
        unseen = draft.unseen
        await pilot.press("i")
        await until(pilot, lambda: isinstance(app.screen, InputScreen) and "page 1" in rows(app)[0])
        await pilot.press("p")
        assert "this is the first page" in said(app)
        for number in range(2, 5):
            seen.extend(await read_all(pilot, app.screen.query_one(Lines)))
            await pilot.press("n")
            await pilot.pause()
            if number < 4:
                assert f"INPUTS, page {number}" in rows(app)[0] and said(app) == ""
        assert "this is the last page" in said(app)
        await pilot.press("p")
        await pilot.pause()
        assert "INPUTS, page 2" in rows(app)[0]
        await pilot.resize_terminal(50, 20)
        await pilot.pause()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RequestsScreen))
        assert app.screen.query_one(Lines).unseen >= unseen, "what was read there decides nothing here"
        await pilot.press("a")
        assert "have not been on the screen" in said(app)

    drive(app, script)
    app.held.close()
    told = [row.partition("| ")[2] for row in seen if "| line" in row]
    assert told == text.splitlines()


def test_lines_report_what_is_seen_only_when_it_changed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.draft(data=None, code="x = 1\n" * 90)
    app = app_of(bench)
    told: list[int] = []
    monkeypatch.setattr(ReadingPane, "on_lines_seen", lambda pane: told.append(pane.lines.unseen))

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await until(pilot, lambda: bool(told))
        before = list(told)
        for _ in range(3):
            lines.look()
            await pilot.pause()
        assert told == before
        await pilot.press("space")
        await until(pilot, lambda: len(told) > len(before) and told[-1] < before[-1])
        count = len(told)
        await pilot.press("home")
        await until(pilot, lambda: len(told) > count)
        lines.put(lines.lines)
        await until(pilot, lambda: told[-1] == before[-1])

    drive(app, script)
    app.held.close()


def test_a_draft_without_inputs_has_none_to_read(bench: Bench) -> None:
    bench.draft(data=None)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        await pilot.press("i")
        assert "no inputs" in said(app)

    drive(app, script)


@pytest.mark.slow
def test_the_list_stays_beside_the_request_where_there_is_room(bench: Bench) -> None:
    """From 120 columns on; the lines of the request are the same as without it."""
    path = bench.draft(data=None)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        listed = app.screen.query_one(RequestList)
        assert listed.region.width == 40 and lines.region.x == 40 and lines.size.width == 80
        assert still(await read_all(pilot, lines)) == plain(bench, path) and lines.unseen == 0
        assert any("TR-" in row[:40] and "| " in row[:40] for row in rows(app)), "the list is there"
        await pilot.resize_terminal(119, 40)
        await pilot.pause()
        assert not listed.display and listed.region.width == 0
        await pilot.press("a")
        assert isinstance(app.screen, Confirm), "80 columns they were and are: nothing has to be read again"
        await pilot.press("n")

    drive(app, script, (120, 40))
    app.held.close()


@pytest.mark.slow
def test_space_reads_on_with_the_next_line_that_was_not_on_the_screen(bench: Bench) -> None:
    """Also after a jump to the end: then with the first line that was passed over."""
    bench.draft(data=None, code="x = 1\n" * 90)
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await pilot.press("end")
        await until(pilot, lambda: lines.scroll_offset.y > 40)
        left = lines.unseen
        while left:
            await pilot.press("space")
            await until(pilot, lambda: lines.unseen < left)
            left = lines.unseen
        assert lines.scroll_offset.y < len(lines.lines) - lines.size.height

    drive(app, script)
    app.held.close()


@pytest.mark.slow
def test_d_shows_what_differs_from_the_last_of_its_shape(bench: Bench) -> None:
    bench.draft("req-1", slug="first", data=None, code="print(1)")
    app = app_of(bench)

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        await pilot.press("d")
        assert said(app) == "no request of this shape was approved before"
        await pilot.press("escape")
        bench.approve(next(bench.workspace.inbox.glob("TR-*-first.md")))
        bench.draft("req-2", slug="second", data=None, code="print('[b]\u4e2d[/b]')")
        await until(pilot, lambda: "second" in "\n".join(rows(app)))
        await open_first(pilot)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, TextScreen))
        await until(pilot, lambda: "- | print(1)" in "\n".join(rows(app)))
        shown = "\n".join(rows(app))
        assert "+ | print('[b]\u4e2d[/b]')" in shown and "-first.md" in shown
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RequestsScreen))
        bench.workspace.settings_file.write_text("[workspace")
        await pilot.press("d")
        assert "threegate.toml" in said(app) and isinstance(app.screen, RequestsScreen)

    drive(app, script)
    app.held.close()


@pytest.mark.slow
def test_u_goes_on_to_the_next_undecided_one(bench: Bench) -> None:
    for number in range(3):
        bench.draft(f"req-{number}", slug=f"n{number}", data=None, code=f"print({number})")
    app = app_of(bench)

    def open_name() -> str:
        line = app.screen._line  # type: ignore[attr-defined]
        return line.file.rpartition("-")[2] if line is not None else ""

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        for name in ("n2.md", "n1.md", "n0.md", "n2.md"):
            await until(pilot, lambda: open_name() == name)  # noqa: B023 - waited for here
            await until(pilot, lambda: bool(app.screen.query_one(Lines).lines))
            await pilot.press("u")
        await pilot.press("escape")
        assert closed(app) and app.screen.query_one(DataTable).row_count == 3
        bench.approve(bench.draft("req-9", slug="done", data=None))
        await pilot.press("u")
        await until(pilot, lambda: "REQUESTS: 4" in "\n".join(rows(app)))
        assert "approved" in "\n".join(rows(app))

    drive(app, script)
    app.held.close()


@pytest.mark.slow
def test_a_countersignature_after_every_line_was_read(bench: Bench) -> None:
    bench.operator("bob")
    bench.settings(approval__quorum__low=2)
    done = bench.approve(bench.draft())
    verdict = Verdict(done.path.name, "0" * 64, "req-1", "approved", True, "waiting", "quorum_missing")
    write_verdict(bench.workspace, verdict)
    app = app_of(bench, "bob")

    async def script(pilot: Pilot[None]) -> None:
        assert "another operator: threegate approve" in "\n".join(rows(app))
        lines = await open_first(pilot)
        await pilot.press("c")
        assert "have not been on the screen" in said(app)
        text = "\n".join(await read_all(pilot, lines))
        assert "you sign as  bob" in text and "THE CHECKS OF A LAUNCH" in text and "signed by alice" in text
        await pilot.press("a")
        assert not isinstance(app.screen, Confirm), "it is not a draft"
        await pilot.press("c", "y")
        await until(pilot, lambda: closed(app))
        assert "the quorum is met; no daemon is running" in said(app)

    drive(app, script)
    assert all(check.ok for check in verify_approval(bench.context, done.path))


@pytest.mark.slow
def test_x_cancels_what_waits_under_the_operators_name(bench: Bench) -> None:
    done = bench.approve(bench.draft(data=None))
    app = OperatorApp(bench.workspace, undecided=False, key=bench.keys["alice"])

    async def script(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        await pilot.press("x", "escape")
        await pilot.pause()
        assert "nothing was changed" in said(app) and done.path.exists()
        await pilot.press("x", *"late", "enter")
        await until(pilot, lambda: closed(app))
        assert re.fullmatch(r"cancelled req-1: it was waiting for \d+ s and did not run", said(app))
        await until(pilot, lambda: "Ended (1)" in "\n".join(rows(app)))

    drive(app, script)
    events = [event for event in bench.context.trail.events() if event.type == "cancelled"]
    assert [event.actor for event in events] == ["operator:alice"]


def masked(screen: list[str]) -> str:
    """A screen as it is kept: what changes from run to run is written as ~."""
    text = "\n".join(screen) + "\n"
    text = re.sub(r"TR-\d{8}-\d{6}Z", "TR-~~~~~~~~-~~~~~~Z", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "~~~~-~~-~~T~~:~~:~~Z", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "~" * 64, text)
    text = re.sub(r"uid \d+", "uid ~", text)
    text = re.sub(r"(?m)^(draft +)7 s", r"\1~ s", text)
    return re.sub(r"(?m)([┃┛])[0-9a-f]$", r"\1~", text)  # the end of a digest beside a dialog


@pytest.mark.root  # the screens name the account that asks
def test_the_screens_look_as_they_did(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots as text: list, draft, question, reason."""
    bench.draft("req-1", slug="sum")
    broken = bench.draft("req-2", slug="zbroken", data=None)
    broken.write_text(broken.read_text().replace("network: none", "network: always"))
    engine = DoctorLine("engine", "ok", "27.5 at unix:///var/run/docker.sock")
    monkeypatch.setattr(readiness, "backends", lambda: [SimpleNamespace(answers=lambda settings: engine)])
    monkeypatch.setattr(status, "age_text", lambda entry, now: "7 s")  # a longer one moves what is right of it
    app = app_of(bench)
    taken: dict[str, str] = {}
    anew = os.environ.get("THREEGATE_TAKE_SCREENS") == "1"  # then look at them before they are committed

    async def take(pilot: Pilot[None], name: str, *marks: str) -> None:
        """The screen once it has the marks, and is drawn to its end: a slow one still shows parts of the last one."""
        await until(pilot, lambda: all(mark in "\n".join(rows(app)) for mark in marks))
        kept = "" if anew else (SCREENS / f"{name}.txt").read_text()
        with contextlib.suppress(AssertionError):  # then what is different is said below
            await until(pilot, lambda: anew or masked(rows(app)) == kept)
        taken[name] = masked(rows(app))

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "no answer yet" not in rows(app)[0])
        await take(pilot, "list", "UNDECIDED: 2", "q Quit", "zbroken")
        lines = await open_first(pilot)
        await take(pilot, "draft", "lines 1-22 of 34, 12 not seen yet", "a Approve")
        await read_all(pilot, lines)
        await take(pilot, "end", "lines 13-34 of 34, all seen", "a Approve")
        await pilot.press("a")
        await take(pilot, "question", "[y/n]", "all seen")
        await pilot.press("n", "r")
        await take(pilot, "reason", "Reject for good", "nothing was changed", "all seen")
        await pilot.press("escape", "question_mark")
        await take(pilot, "help", "== KEYS", "Back")
        await pilot.press("escape", "escape")
        await pilot.resize_terminal(130, 30)
        await take(pilot, "split-list", "Enter opens a request here", "zbroken")
        await open_first(pilot)
        await take(pilot, "split", "all seen", "a Approve", "zbroken")
        await pilot.press("escape")
        await pilot.resize_terminal(60, 20)
        await take(pilot, "small", "UNDECIDED: 2", "zbroken")

    drive(app, script)
    for name, text in taken.items():
        kept = SCREENS / f"{name}.txt"
        if anew:
            kept.write_text(text)
        assert text == kept.read_text(), name
