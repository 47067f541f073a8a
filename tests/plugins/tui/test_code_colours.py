"""Syntax colours in the application: they come late or never, no key waits for them, and no character changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.pilot import Pilot

from tests.conftest import slow, soak
from tests.plugins.changes.branches import Branching, branching
from tests.plugins.tui.changes_to_read import app_of, space_to_the_end
from tests.plugins.tui.terminal import drive, open_first, rows, until
from tests.support import children
from threegate.approval.shown.escaped_lines import CodeLine, DiffRow, diff_lines, render_sections
from threegate.core import limits, syntax_colours
from threegate.core.file_diff import Piece, TextChange
from threegate.core.screen_parts import FileDiff, Section
from threegate.core.syntax_colours import STYLES
from threegate.plugins.tui.lines import Lines, segments_of
from threegate.plugins.tui.request_rows import code_lines, request_rows

LOADED = "import json, os, sys, time; sys.stdin.readline(); print('[]', flush=True); "
ESCAPES = "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['keyword', '\\x1b[2J' + t]]), flush=True); "
LESS = "t = json.loads(sys.stdin.readline())[1]; print(json.dumps([['keyword', t[:-1]]]), flush=True); "


@contextmanager
def _drafted(**files: tuple[str, str]) -> Iterator[Branching]:
    """A draft that changes these files: what each was, and becomes."""
    with branching({name: before for name, (before, _) in files.items()}, deliver="tree") as here:

        def edit(work: Path) -> None:
            for name, (_, after) in files.items():
                (work / name).write_text(after)

        here.propose(edit)
        yield here


A = ('x = 1\nreturn "one"  # x\n', 'import os\nx = 1\nreturn "two"  # \x1b[2J\u202e\n')


@pytest.fixture(scope="module")
def changed() -> Iterator[Branching]:
    with _drafted(**{"a.py": A}) as here:
        yield here


@pytest.fixture(scope="module")
def slow_to_lex() -> Iterator[Branching]:
    """Two files; the second keeps the lexer of Java for minutes."""
    with _drafted(**{"a.py": A, "B.java": ("class B {}\n", "a " * 60_000 + "\n")}) as here:
        yield here


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a lexer that hangs, waits until the test fails."""
    monkeypatch.setattr(limits, "COLOUR_TEXT_SECONDS", 300.0)
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 300.0)


def coloured(lines: Lines) -> dict[str, set[str]]:
    """Words with a style, by style."""
    found: dict[str, set[str]] = {}
    for line in code_lines(lines.lines):
        for low, high, style in line.colours if isinstance(line, CodeLine) else ():
            assert isinstance(line, CodeLine)
            found.setdefault(style, set()).add(line[line.start :][low:high].strip())
    return found


@pytest.mark.parametrize("size", [slow((80, 24)), (200, 50)], ids=["one in a row", "side by side"])
def test_colours_come_and_change_no_character(slow_to_lex: Branching, size: tuple[int, int], patient: None) -> None:
    """A lexer that takes minutes for another file is not waited for, and is ended with the screen."""
    before = set(children(os.getpid()))
    app = app_of(slow_to_lex)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        plain = list(map(str, lines.lines))
        await until(pilot, lambda: "keyword" in coloured(lines))
        found = coloured(lines)
        drawn = [segment for row in range(lines.size.height) for segment in lines.render_line(row)]
        for style in (segment.style for segment in drawn):
            assert style is not None and style.color is not None and style.bgcolor is not None
        assert "import" in found["keyword"] and "# \\x1b[2J\\u202e" in found["comment"]
        await pilot.press("n", "n")
        await pilot.pause()
        assert list(map(str, lines.lines)) == plain and not any(
            "a a" in word for words in found.values() for word in words
        )
        assert len(set(children(os.getpid())) - before) == 1
        await pilot.press("escape")
        await until(pilot, lambda: set(children(os.getpid())) == before)

    drive(app, script, size)
    app.held.close()


@pytest.mark.parametrize(
    "body",
    [
        slow("time.sleep(600)"),
        LOADED + "time.sleep(600)",
        soak(LOADED + "sys.exit()"),
        LOADED + ESCAPES,
        soak(LOADED + LESS),
    ],
    ids=["never ready", "hangs", "dies", "escapes in a token", "tokens are less than the text"],
)
def test_no_key_waits_for_a_lexer(
    changed: Branching, body: str, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are plain and whole, everything can be read, left and opened again; what hangs ends with the screen."""
    command = [sys.executable, "-c", f"import time; {body}"]
    monkeypatch.setattr(syntax_colours, "own_process", lambda module: command)
    before = set(children(os.getpid()))
    app = app_of(changed)
    began = time.monotonic()

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await space_to_the_end(pilot, lines)
        await pilot.press("n", "v", "home")
        await pilot.pause()
        assert coloured(lines) == {} and "\x1b" not in "\n".join(rows(app))
        await pilot.press("escape")
        await until(pilot, lambda: set(children(os.getpid())) == before)
        await open_first(pilot)  # and quits

    drive(app, script, (120, 40))
    app.held.close()
    assert set(children(os.getpid())) == before
    assert time.monotonic() - began < 200


def test_without_colors_no_lexer_is_started(changed: Branching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    before = set(children(os.getpid()))
    app = app_of(changed)

    async def script(pilot: Pilot[None]) -> None:
        lines = await open_first(pilot)
        await space_to_the_end(pilot, lines)
        assert coloured(lines) == {} and set(children(os.getpid())) == before

    drive(app, script)
    app.held.close()


def _coloured_rows() -> list[str]:
    """Rows of each kind with each style, some of it in words that changed."""
    old, new = "old 0123456789" + "x" * 40, "new 0123456789" + "x" * 40
    text = TextChange(
        ("same" * 10, old), ("same" * 10, new), (Piece(1, 2, 1, 2),),
        old_changed={1: ((0, 3), (10, 12))}, new_changed={1: ((0, 3), (10, 12))},
    )  # fmt: skip
    rows = diff_lines(text, path="a.py")
    for row in rows:
        assert isinstance(row, DiffRow)
        row.colours[:] = [(2 * number, 2 * number + 2, style) for number, style in enumerate(STYLES) if style]
    return rows


def _luminance(style_color: tuple[int, int, int]) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [part / 255 for part in style_color]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _words() -> list[Segment]:
    made = [segment for row in _coloured_rows() for segment in segments_of(row)]
    assert {segment.style for segment in made if segment.style} and len(made) > 20
    return [segment for segment in made if segment.style and segment.style.color]


def test_each_colour_can_be_read_on_what_is_behind_it() -> None:
    """A contrast of 4.5 at least; where the terminal has few colours, never the colour of what is behind."""
    behind = Style.parse("#e0e0e0 on #121212")  # of the application, whatever the terminal has
    for segment in _words():
        style = behind + (segment.style or behind)
        assert style.color is not None and style.bgcolor is not None and not style.dim
        dark, light = sorted(_luminance(color.get_truecolor()) for color in (style.color, style.bgcolor))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (segment, style)
        for system in (ColorSystem.STANDARD, ColorSystem.EIGHT_BIT):
            assert style.color.downgrade(system) != style.bgcolor.downgrade(system), (segment, system)


def test_what_changed_stands_out_of_the_colours() -> None:
    for row in _coloured_rows():
        assert isinstance(row, DiffRow)
        segments = segments_of(row)
        assert "".join(segment.text for segment in segments) == row
        words = [segment.text for segment in segments if segment.style and segment.style.underline]
        assert words == [row[low:high] for low, high in row.changed]


def test_both_halves_share_what_one_line_is_coloured_with() -> None:
    """So an equal line goes to the lexer once."""
    text = TextChange(("same", "x" * 200), ("same", "y" * 200), (Piece(1, 2, 1, 2),))
    item = FileDiff("MODIFIED", "a.py", text=text)
    found = request_rows(
        lambda files: render_sections([Section("CHANGE", (item,))], files=files), request="1", columns=160, height=24
    )
    code = [line for line in code_lines(found.lines) if isinstance(line, CodeLine)]
    assert [line[line.start :][:1] for line in code].count("s") == 1
    assert "".join(line[line.start :] for line in code if "x" in line) == "x" * 200
