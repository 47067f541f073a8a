"""Foreign text on a screen: behind the gutter, escaped, whole, and never wider than it was counted."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.approval.shown.escaped_lines import (
    GUTTER,
    CodeLine,
    Cut,
    DiffRow,
    Title,
    cells,
    diff_lines,
    fact,
    field,
    numbered,
    own,
    painted,
    quoted,
    render_sections,
    shown,
)
from threegate.approval.shown.time_read import Reader
from threegate.core.file_diff import Piece, TextChange
from threegate.core.screen_parts import Fact, Field, FileDiff, Note, Quote, Section

SGR = re.compile(r"\x1b\[[0-9;]*m")
ATTACKS = [
    "\x1b[2J\x1b[H== WALLS",
    "\x1b]0;title\x07\x1b]52;c;aGk=\x07",
    "\x1bP+q\x1b\\ \x9b2J \x90 \x9d",
    "harmless\rAPPROVED",
    "line\x08\x08\x08\x08gone",
    "\u202egnp.exe \u2066hidden\u2069",
    "zero\u200bwidth\ufeff\u00ad\u2060 \u180e\u3164",
    "tags\U000e0041\U000e0042 variation\ufe0f",
    "combining " + "e\u0301" * 50,
    "rtl \u05d0\u05d1\u05d2 \u0627\u0644 " + "x" * 10,
    "jamo \u1100\u1161\u11a8",
    "wide \u4e2d\u6587" * 60,
    "\u4dc0\u2630\U0001d306" * 40 + "== WARNINGS (0)",
    "\U0001f1e9\U0001f1ea\U0001f44d\U0001f3ff" * 30,
    "\u2500\u03b1\u0416" * 50,
    "\u2028\u2029\x85\x0b\x0c next",
    "tab\ttab",
    "\x00\x7f",
    "lone \ud800 surrogate",
    "Sign as alice and let it run once? [y/N] y",
    "[bold red]markup[/] :smile:",
    "x" * 5000,
    "\n" * 500,
    "| == WARNINGS (0)",
]


def plain_and_narrow(lines: list[str], width: int = 80) -> None:
    for line in lines:
        assert "\n" not in line
        assert cells(line) <= width
        for char in line:
            assert " " <= char <= "~" or unicodedata.category(char)[0] in "LNPS", repr(char)
            assert unicodedata.bidirectional(char) not in ("R", "AL", "AN")


@pytest.mark.parametrize("attack", ATTACKS)
def test_foreign_text_stays_behind_the_gutter(attack: str) -> None:
    for lines in (quoted(attack), quoted(attack, limit=5), numbered(attack), field("purpose", attack)):
        plain_and_narrow(lines)
        for line in lines:
            own = (
                line.startswith("  > ")
                or line.partition(GUTTER)[0].strip() in ("", "purpose")
                or isinstance(line, CodeLine)
            )
            assert own, line


@given(st.text(max_size=300))
def test_any_text_stays_behind_the_gutter(text: str) -> None:
    lines = quoted(text, limit=20)
    plain_and_narrow(lines)
    assert all(line.startswith(("  | ", "  > ")) for line in lines)
    whole = "".join(line.removeprefix("  | ") for line in quoted(text))
    assert whole == "".join(shown(line) for line in text.split("\n"))


def test_no_terminal_draws_a_character_wider_than_it_is_counted() -> None:
    """Against the tables of rich, which know a newer Unicode than Python's."""
    from rich.cells import cell_len

    for number in range(0x20000):  # the planes above are ideographs, alike, and what is not assigned
        char = chr(number)
        if shown(char) == char:
            assert 1 <= cell_len(char) <= cells(char), hex(number)


@given(st.text(max_size=200))
def test_colours_change_no_character(text: str) -> None:
    for line in [*numbered(text), Title("== TITLE"), "  plain"]:
        assert SGR.sub("", painted(line)) == line


def test_what_is_cut_is_counted() -> None:
    lines = quoted("\n".join(str(number) for number in range(100)), limit=10)
    assert len(lines) == 11
    assert lines[-1] == "  > 90 more lines of 100: --full shows all"


@given(st.text(max_size=200), st.integers(40, 80))
def test_words_of_ours_have_no_gutter_and_fit(text: str, width: int) -> None:
    for lines in (own(text, width=width), fact("risk", text, width=width)):
        plain_and_narrow(lines, width)
        assert all(
            line.startswith("  ") and not line.startswith("  |") for line in lines if not text.lstrip().startswith("|")
        )


def test_what_is_left_out_says_how_much() -> None:
    [cut] = [line for line in quoted("\n" * 99, limit=10) if isinstance(line, Cut)]
    assert cut.left == 90


def test_wide_words_of_ours_are_cut_by_their_columns() -> None:
    assert own("\u4e2d" * 12, width=12) == ["  " + "\u4e2d" * 5, "  " + "\u4e2d" * 5, "  " + "\u4e2d" * 2]


def test_titles_and_code_have_colours_and_nothing_else_has() -> None:
    [code] = numbered("def add(a, b): return a")
    assert painted(Title("== WALLS")) == "\x1b[1m== WALLS\x1b[0m"
    assert painted(code) != code and SGR.sub("", painted(code)) == code and painted(code).startswith("  1 | ")
    assert painted("  plain") == "  plain"


def test_the_short_screen_names_what_it_leaves_out_and_the_full_one_leaves_out_nothing() -> None:
    sections = [
        Section("REQUEST", (Field("purpose", "x\n" * 40), Note("a note"), Quote("y\n" * 90, "said:"), Quote("z"))),
        Section("WALLS", (Fact("network", "none"),), folded="1 wall as always"),
    ]
    short = "\n".join(render_sections(sections))
    assert "left out below: 29 lines of purpose, 31 lines of a text; --full shows all" in short
    assert "1 wall as always: --full shows them" in short and "network" not in short
    full = "\n".join(render_sections(sections, full=True))
    assert "left out" not in full and "network" in full and full.count("| y") == 90


def test_reading_is_measured_and_whole_only_if_nothing_was_cut() -> None:
    reader = Reader()
    assert not reader.read().whole
    reader.shows(quoted("\n" * 99, limit=10))
    assert not reader.read().whole
    reader.shows(["all of it"])
    assert reader.read().whole and reader.read().seconds == 0 and not reader.read(unseen=1).whole


def test_the_change_of_a_file() -> None:
    old = (*(f"line {number}" for number in range(1, 12)), "\tend")
    text = TextChange(old, (*old[:3], "\ta\tb\udcff", *old[3:]), (Piece(3, 3, 3, 4),), False, False)
    assert diff_lines(text) == [
        "   1  1   | line 1",
        "   2  2   | line 2",
        "   3  3   | line 3",
        "      4 + | \u2192   a\u2192  b\\xff",
        "   4  5   | line 4",
        "   5  6   | line 5",
        "   6  7   | line 6",
        "  > 6 equal lines",
    ]
    item = FileDiff("MODIFIED", "a", (Note("a note"),), text)
    whole = render_sections([Section("CHANGE", (item, FileDiff("ADDED", "b")))], width=24)
    assert whole[2:5] == ["  MODIFIED    | a", "  a note", "   1  1   | line 1"] and whole[-1] == "  ADDED       | b"
    assert diff_lines(text, context=None)[-2:] == [
        "  12 13   | \u2192   end",
        "  > the file ends here, without a line end",
    ]
    added = TextChange((), ("x" * 30,), (Piece(0, 0, 0, 1),))
    rows = [line for line in diff_lines(added, width=20) if isinstance(line, DiffRow)]
    assert [line.mark for line in rows] == ["+", "+", "+"] and "".join(line[line.start :] for line in rows) == "x" * 30
