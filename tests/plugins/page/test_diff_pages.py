"""The rows of a file's change: whole, in order, with what changed within a line and what must not be missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.approval.shown.escaped_lines import shown, visible
from threegate.core import limits
from threegate.core.file_diff import Mark, Piece, TextChange
from threegate.core.screen_parts import Fact, Field, FileDiff, Note, Section
from threegate.core.syntax_colours import LexerProcess
from threegate.plugins.page.diff_pages import (
    PagePart,
    about_blocks,
    files_of,
    page_parts,
    page_with_colours,
    table_pages,
    with_colours,
)
from threegate.review.text_change import text_change

_CHARS = st.characters(codec=None, exclude_characters="\n") | st.sampled_from("\t\x1b\u202e\udcff a")
LINES = st.text(_CHARS, max_size=40)


@given(LINES, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4))
def test_the_words_of_a_line_are_all_of_it_wherever_they_are_cut(line: str, cuts: list[tuple[int, int]]) -> None:
    spans, at = [], 0
    for start, length in sorted(cuts):
        start, end = max(at, min(start, len(line))), min(len(line), max(at, start) + length)
        if start < end:
            spans.append((start, end))
            at = end
    text = TextChange((), (line,), (Piece(0, 0, 0, 1),), new_changed={0: tuple(spans)})
    ((row,),) = table_pages(text)
    assert row.text == shown(visible(line)) and (row.mark, row.old, row.new) == ("+", 0, 1)
    changed = [words.text for words in row.words if words.changed]
    assert len(changed) == len(spans) and "".join(changed).count("\t") == 0


def test_a_change_within_a_long_line_is_marked_in_each_of_its_cells() -> None:
    size = limits.PAGE_DIFF_CELL_CHARS
    line = "a" * (size - 1) + "b" * (size + 2) + "c"
    text = TextChange((), (line,), (Piece(0, 0, 0, 1),), new_changed={0: ((size - 1, 2 * size + 1),)})
    ((left, first, second),) = table_pages(text)
    assert left.text == f"{size - 1 - limits.DIFF_AROUND_CHARS} equal characters of this line" and not left.mark
    assert [words.changed for row in (first, second) for words in row.words] == [False, True, True, False]
    assert [row.new for row in (left, first, second)] == [0, 1, 0]
    assert first.text + second.text == line[size - 1 - limits.DIFF_AROUND_CHARS :]


def test_an_empty_line_has_a_row() -> None:
    ((row,),) = table_pages(TextChange((), ("",), (Piece(0, 0, 0, 1),)))
    assert row.text == "" and row.new == 1


def test_marks_are_above_their_lines_and_on_the_page_that_has_them() -> None:
    new = tuple(f"{number}" for number in range(limits.PAGE_DIFF_ROWS + 10))
    text = TextChange(("old",), new, (Piece(0, 1, 0, len(new)),))
    marks = (Mark(0, "RUNS LATER"), Mark(1, "what it was", removed=True), Mark(1, "a"), Mark(1, "b"), Mark(505, "c"))
    (part,) = page_parts([Section("X", (FileDiff("MODIFIED", "p", (), marks, text, "1", "2"),))])
    (file,) = files_of([part])
    assert [file.page_of(place) for place in range(5)] == [0, 1, 1, 1, 2] and not file.here
    assert {row.marks for page in file.pages for row in page if row.marks} == {(1,), (2, 3), (4,)}
    assert file.lines == len(new) + 1


def test_files_are_numbered_through_and_what_is_between_them_stays_in_order() -> None:
    text = TextChange(("a",), ("b",), (Piece(0, 1, 0, 1),))
    one, two = (FileDiff("MODIFIED", path, (), (), text, "1", after) for after, path in (("2", "x"), ("3", "x")))
    parts = page_parts(
        [Section("A", (Fact("f", "1"), Note("n"), one, two, Field("l", "v"))), Section("B", (two,), folded="some")]
    )
    assert [[block.kind for block in part.blocks] for part in parts] == [
        ["facts", "notes", "file", "file", "facts"],
        ["file"],
    ]
    files = files_of(parts)
    assert [file.number for file in files] == [1, 2, 3] and parts[1].folded == "some"
    assert files[0].key != files[1].key == files[2].key and all(file.here for file in files)
    assert [block.kind for block in about_blocks((Note("n"), Note("m"), Fact("f", "1")))] == ["notes", "facts"]


def code_of(path: str, old: str, new: str) -> list[PagePart]:
    text = text_change(old, new)
    return page_parts([Section("X", (FileDiff("MODIFIED", path, (), (), text, "1", "2"),))])


def test_code_has_the_colours_of_its_lexer_and_loses_no_character() -> None:
    plain = code_of("a.py", 'x = "one"\n', "# why\nx = 'two \u202e'\nreturn f(3)\n")
    coloured = with_colours(plain)
    (before,), (after,) = files_of(plain), files_of(coloured)
    assert [row.text for row in before.pages[0]] == [row.text for row in after.pages[0]]
    styles = {words.style: words.text for row in after.pages[0] for words in row.words if words.style}
    assert styles["comment"] == "# why" and styles["keyword"] == "return" and styles["number"] == "3"
    assert "\u202e" not in "".join(row.text for row in after.pages[0])
    assert not any(words.style and words.changed for row in after.pages[0] for words in row.words)


@pytest.mark.parametrize("path", ["a.txt", "a", "a.py"])
def test_a_file_without_a_lexer_or_too_long_for_it_stays_plain(path: str) -> None:
    long = "x = 1\n" * (limits.COLOUR_TEXT_BYTES // 6 + 1) if path == "a.py" else "return 1\n"
    plain = code_of(path, "", long)
    (file,) = files_of(plain)
    assert files_of(with_colours(plain)) == [file]
    with LexerProcess(["false"]) as none:
        assert none.colours("python", "x") is None
    assert path == "a.py" or page_with_colours(file, 1) == file


def test_a_page_of_its_own_has_colours_too() -> None:
    (file,) = files_of(code_of("a.py", "", "return 1\n" * (2 * limits.PAGE_DIFF_ROWS)))
    assert not file.here
    found = page_with_colours(file, 2)
    assert found.pages[0] == file.pages[0] and found.pages[1] != file.pages[1]
    assert [row.text for row in found.pages[1]] == [row.text for row in file.pages[1]]
