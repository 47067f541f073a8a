"""What differs within lines: nothing that changed is outside of the spans."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.core import limits
from threegate.core.file_diff import Piece, Span
from threegate.review.word_diff import changed_words

LINE = st.text(alphabet="ab =(),;{}\t.", max_size=40)


def spans(old: str, new: str) -> tuple[tuple[Span, ...] | None, tuple[Span, ...] | None]:
    one, other = changed_words([old], [new], [Piece(0, 1, 0, 1)])
    return one.get(0), other.get(0)


def without(text: str, changed: tuple[Span, ...]) -> str:
    for start, end in reversed(changed):
        text = text[:start] + text[end:]
    return text


@pytest.fixture
def every_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a long line, whatever share of it changed."""
    monkeypatch.setattr(limits, "DIFF_LINE_CHARS", 0)


@given(old=LINE, new=LINE, cells=st.sampled_from([0, 4, 1 << 22]))
def test_what_is_outside_of_the_spans_is_equal(old: str, new: str, cells: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "DIFF_LINE_CHARS", 0)
        patch.setattr(limits, "DIFF_WORD_CELLS", cells)
        one, other = spans(old, new)
        if old != new:
            whole = ((0, len(old)),), ((0, len(new)),)
            assert without(old, one or whole[0]) == without(new, other or whole[1]) or None in (one, other)


def test_words_of_a_line() -> None:
    assert spans("value = old + 1", "value = new + 1") == (((8, 11),), ((8, 11),))
    assert spans("f(a)", "f(a, b)") == (((3, 3),), ((3, 6),)), "an empty span is where something is more"
    assert spans("one = 1; two = 2; x", "one = 3; two = 4; x") == (((6, 7), (15, 16)), ((6, 7), (15, 16)))
    assert spans("a quick brown fox is here", "a slow red fox is here") == (((2, 13),), ((2, 10),)), "one, not two"
    assert spans("entirely", "different") == (None, None), "all of it changed"
    assert spans("same", "same") == (None, None)


def test_lines_that_are_replaced_by_more_lines() -> None:
    old = ["before", "call(first, second)", "after"]
    new = ["before", "log()", "call(first, third)", "after"]
    assert changed_words(old, new, [Piece(1, 2, 1, 3)]) == ({1: ((0, 0), (12, 18))}, {2: ((12, 17),)})
    assert changed_words([], new, [Piece(0, 0, 0, 4)]) == ({}, {})


def test_a_line_end_that_moved(every_line_counts: None) -> None:
    """The spans of each line stay in it."""
    one, other = changed_words(["call(a, b)"], ["call(", "    a, b)"], [Piece(0, 1, 0, 2)])
    assert one == {0: ((5, 5),)} and other == {1: ((0, 4),)}


def test_a_long_line_is_compared_in_clauses_first() -> None:
    chance = random.Random(7)
    old = "".join(f"function f{number}(a,b){{return a+{chance.randrange(9)}}};" for number in range(40_000))
    new = old.replace("f20000(a,b)", "f20000(a,c)").replace("f39990(", "g39990(")
    assert len(old) > 1_000_000
    for side, text, words in zip(spans(old, new), (old, new), (["b", "f39990"], ["c", "g39990"]), strict=True):
        assert side is not None and [text[start:end] for start, end in side] == words
    noise = "".join(chance.choice("ab;") + chance.choice("cd ") for _ in range(5_000))
    other = "".join(chance.choice("ab;") + chance.choice("cd ") for _ in range(5_000))
    one, two = spans(noise, other)
    assert one is not None and two is not None and without(noise, one) == without(other, two)
