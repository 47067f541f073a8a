"""The trail's texts for people: what is visible is shown as it is, what hides stays an escape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.approval.shown.escaped_lines import safe
from threegate.core.printable import is_plain, stands_alone
from threegate.trail.event import trail_text
from threegate.trail.story import readable


@pytest.mark.parametrize("text", ["080a9ed42855… cannot be read", "Café – naïve", "売上", "🙂"])
def test_a_visible_character_is_shown_as_it_is(text: str) -> None:
    assert trail_text(text).isascii() and readable(trail_text(text)) == text


@pytest.mark.parametrize("text", ["\x1b[31m", "a\u202eb", "\u200b", "א", "\U000e0001", "a\nb", "\u0301"])
def test_what_hides_joins_or_reverses_stays_an_escape(text: str) -> None:
    assert readable(trail_text(text)) == trail_text(text)


@pytest.mark.parametrize("text", [r"C:\u2026", r"\\u2026", r"\x41"])
def test_a_backslash_of_the_text_begins_no_escape(text: str) -> None:
    assert readable(trail_text(text)) == text.replace("\\", "\\\\")


@given(st.text(max_size=40))
def test_what_is_read_back_is_safe_for_a_terminal(text: str) -> None:
    shown = readable(trail_text(text))
    assert safe(shown) == shown
    assert all(is_plain(char) and stands_alone(char) for char in shown)
