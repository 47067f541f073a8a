"""Foreign text on a screen: behind the gutter, escaped, whole, and never wider than it was counted."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threegate.approval.shown.escaped_lines import (
    GUTTER,
    CodeLine,
    Cut,
    DiffRow,
    FoldRow,
    Title,
    cells,
    colours_of,
    diff_lines,
    fact,
    field,
    goes_on,
    numbered,
    own,
    painted,
    painted_lines,
    quoted,
    render_sections,
    shown,
    texts_of_code,
    with_one_number,
)
from threegate.approval.shown.time_read import Reader
from threegate.core import limits
from threegate.core.file_diff import Mark, Piece, TextChange, said_of
from threegate.core.screen_parts import Fact, Field, FileDiff, Note, Quote, Section
from threegate.core.syntax_colours import LexerProcess

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


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syntax colours on a machine of any speed."""
    monkeypatch.setattr(limits, "COLOUR_TEXT_SECONDS", 60.0)
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)


def test_titles_and_code_have_colours_and_nothing_else_has(patient: None) -> None:
    [code] = lines = numbered("def add(a, b): return a")
    assert painted(Title("== WALLS")) == "\x1b[1m== WALLS\x1b[0m"
    [coloured] = painted_lines(lines)
    assert coloured.startswith("  1 | \x1b[1;34mdef\x1b[0m ") and SGR.sub("", coloured) == code
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


def test_marks_of_a_file_are_above_its_lines_and_beside_the_line() -> None:
    text = TextChange(("a",), ("b", "c" * 90), (Piece(0, 1, 0, 2),))
    marks = (Mark(0, "RUNS LATER: a script"), Mark(1, "odd", removed=True), Mark(2, "starts a process"))
    item = FileDiff("RENAMED", "new.sh", (Note("a note"),), marks, text, old_path="old.sh")
    lines = render_sections([Section("CHANGE", (item,))])[2:]
    assert lines[:6] == [
        "  RENAMED     | new.sh",
        "  was         | old.sh",
        "  RUNS LATER: a script",
        "  old line 1: odd",
        "  line 2: starts a process",
        "  a note",
    ]
    assert [line[:10] for line in lines[6:]] == ["! 1   - | ", "    1 + | ", "!   2 + | ", "      + | "]
    said = [line.said for line in lines if isinstance(line, DiffRow)]
    assert said == [("odd",), (), ("starts a process",), ()] and (item.added, item.removed) == (2, 1)
    assert render_sections([Section("CHANGE", (FileDiff("ADDED", "x"),))])[2:] == ["  ADDED       | x"]
    assert FileDiff("DELETED", "x").added == FileDiff("DELETED", "x").removed == 0


def test_a_note_names_the_first_lines_and_counts_the_others() -> None:
    marks = [Mark(0, "is a test"), *(Mark(number, "odd") for number in range(1, 12)), Mark(3, "even"), Mark(4, "even")]
    assert list(said_of(marks)) == ["is a test", "lines 1, 2, 3, 4, 5, 6, 7, 8 and 3 more: odd", "lines 3, 4: even"]


def test_what_changed_in_a_line_is_in_reverse_and_no_character_is_hidden() -> None:
    old, new = "\tf(a, \u202e, two)", "\tf(a, \u202e, three)"
    text = TextChange((old,), (new,), (Piece(0, 1, 0, 1),), old_changed={0: ((9, 12),)}, new_changed={0: ((9, 14),)})
    before, after = diff_lines(text)
    assert before == "  1   - | \u2192   f(a, \\u202e, two)"
    assert painted(before) == "  1   - | \u2192   f(a, \\u202e, \x1b[7mtwo\x1b[0m)"
    assert SGR.sub("", painted(after)) == after and isinstance(after, DiffRow) and after.changed == ((27, 32),)
    rows = [line for line in diff_lines(text, width=17) if isinstance(line, DiffRow) and line.mark == "+"]
    parts = [str(line[start:end]) for line in rows for start, end in line.changed]
    assert "".join(parts) == "three" and len(parts) == 2


@given(st.text(max_size=80), st.lists(st.integers(0, 80), max_size=8))
def test_spans_change_no_character_of_a_line(text: str, places: list[int]) -> None:
    line = text.replace("\n", " ")
    cuts = sorted(place for place in places if place <= len(line))
    spans = tuple(zip(cuts[::2], cuts[1::2], strict=False))
    change = TextChange((), (line,), (Piece(0, 0, 0, 1),), new_changed={0: spans})
    plain = diff_lines(TextChange((), (line,), (Piece(0, 0, 0, 1),)))
    lines = diff_lines(change)
    assert lines == plain and [SGR.sub("", painted(row)) for row in lines] == plain
    plain_and_narrow(lines)


def test_a_tab_and_an_arrow_are_not_the_same() -> None:
    lines = diff_lines(TextChange((), ("\tx", "\u2192   x", "ab\tx"), (Piece(0, 0, 0, 3),)))
    assert [line[10:] for line in lines] == ["\u2192   x", "\\u2192   x", "ab\u2192 x"]


def test_a_diff_in_colour_has_styles_and_what_changed_and_is_the_same_text(patient: None) -> None:
    old, new = 'return "one"  # x', 'return "two"  # x'
    text = TextChange(
        (old, "\udce9"), (new, "\udce9"), (Piece(0, 1, 0, 1),), False, False, {0: ((8, 11),)}, {0: ((8, 11),)}
    )
    lines = diff_lines(text, path="src/a.py")
    found = painted_lines(["  ours", *lines, "  ours"])
    assert [SGR.sub("", line) for line in found] == ["  ours", *lines, "  ours"]
    assert found[1] == (
        '  1   - | \x1b[1;34mreturn\x1b[0m \x1b[33m"\x1b[0m\x1b[33;7mone\x1b[0m\x1b[33m"\x1b[0m  \x1b[36m# x\x1b[0m'
    )
    assert found[3] == "  2 2   | \\xe9" and found[4] == "  > the file ends here, without a line end"
    plain = diff_lines(text, path="no/ending")
    assert painted_lines(plain)[0] == '  1   - | return "\x1b[7mone\x1b[0m"  # x'


def test_removed_lines_open_no_string_in_others_and_a_wrapped_line_is_one(patient: None) -> None:
    """Nor does what is folded between two parts of a file begin another text."""
    old = ('"""', *["x"] * 20, "return 1")
    text = TextChange(old, ("return 2", *old[1:-1], f"'{'s' * 90}'"), (Piece(0, 1, 0, 1), Piece(21, 22, 21, 22)))
    lines = diff_lines(text, path="a.py")
    [rows] = texts_of_code(lines)
    assert any(isinstance(line, FoldRow) for line in lines)
    with LexerProcess() as process:
        found = dict(zip(rows, colours_of(process, rows), strict=True))
    by_text = {row[row.start :][:8]: (row, colours) for row, colours in found.items()}
    assert by_text["return 2"][1][0] == (0, 6, "keyword"), "it comes after the quotes that were removed"
    strings = [row for row in rows if "ss" in row]
    assert len(strings) == 2
    assert [found[row] for row in strings] == [[(0, len(row) - row.start, "string")] for row in strings]


def test_another_language_begins_another_text() -> None:
    change = TextChange((), ("x", "y"), (Piece(0, 0, 0, 2),))
    python, ruby = diff_lines(change, path="a.py"), diff_lines(change, path="b.rb")
    assert list(texts_of_code([*python, *ruby, "ours", *ruby])) == [python, ruby, ruby]
    assert list(texts_of_code(["ours", *diff_lines(change, path="none")])) == []


def test_code_that_makes_a_lexer_slow_stays_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """And takes no colour of our own lines away."""
    monkeypatch.setattr(limits, "COLOUR_START_SECONDS", 60.0)
    change = TextChange((), ("a " * 100_000,), (Piece(0, 0, 0, 1),))
    lines = [Title("== CHANGE"), *diff_lines(change, path="A.java", width=1 << 30)]
    assert painted_lines(lines) == ["\x1b[1m== CHANGE\x1b[0m", lines[1]]


@given(st.lists(st.text(alphabet="ab\t\"'#\\\u202e\u2192 (){}", max_size=30), min_size=1, max_size=5))
@settings(max_examples=4, deadline=None)
def test_syntax_colours_change_no_character(texts: list[str]) -> None:
    lines = [*diff_lines(TextChange((), tuple(texts), (Piece(0, 0, 0, len(texts)),)), path="a.py", width=40), "  ours"]
    assert [SGR.sub("", line) for line in painted_lines(lines)] == lines


def test_equal_lines_are_folded_and_counted() -> None:
    lines = tuple(f"{number}" for number in range(20))
    found = diff_lines(TextChange(lines, lines[:-1], (Piece(19, 20, 19, 19),)))
    assert found[0] == "  > 16 equal lines" and len(found) == 5
    long = "x" * 3_000
    found = diff_lines(TextChange((long, "1"), (long,), (Piece(1, 2, 1, 1),)), width=300)
    assert found[1:] == ["  > 2800 equal characters of this line", "  2   - | 1"]


def test_a_row_with_one_of_its_numbers() -> None:
    text = TextChange(("a", "old one"), ("a", "old two"), (Piece(1, 2, 1, 2),))
    rows = [line for line in diff_lines(text) if isinstance(line, DiffRow)]
    assert [with_one_number(row, old=row.mark == "-") for row in rows] == [
        "  1   | a",
        "  2 - | old one",
        "  2 + | old two",
    ]
    for row in rows:
        made = with_one_number(row, old=True)
        assert made[made.start :] == row[row.start :] and made.mark == row.mark
        assert [made[low:high] for low, high in made.changed] == [row[low:high] for low, high in row.changed]


def test_the_lines_of_files_can_be_made_by_another() -> None:
    item = FileDiff("ADDED", "x", (Note("is empty"),))
    rows = render_sections([Section("CHANGE", (item,))], files=lambda diff, head: [f"{diff.path}: {len(head)}"])
    assert rows[2:] == ["x: 2"]


def test_a_row_goes_on_with_the_same_line_of_code() -> None:
    first, second, third = numbered("a" * 30 + "\nb", width=30)
    assert (goes_on(first, second), goes_on(second, third), goes_on(first, "our words")) == (True, False, False)
    removed, added = diff_lines(TextChange(("a",), ("b",), (Piece(0, 1, 0, 1),)))
    assert not goes_on(removed, added) and goes_on(added, added)
