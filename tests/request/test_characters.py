"""Which characters are refused: by category for all of Unicode, and by name for the ignorable ones."""

from __future__ import annotations

import sys
import unicodedata
from itertools import chain

import pytest

from threegate.request.characters import describe, has_hidden, hidden_places, is_hidden, visible

REFUSED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
IGNORABLE = [
    0x034F,
    0x115F,
    0x1160,
    0x17B4,
    0x17B5,
    *range(0x180B, 0x1810),
    0x2065,
    0x3164,
    *range(0xFE00, 0xFE10),
    0xFFA0,
    0xFFF0,
    *range(0xE0000, 0xE1000, 7),
    0x1BCA0,
    0x1D173,
]
"""Default_Ignorable_Code_Point=Yes, of DerivedCoreProperties, in every block that has some."""


def test_every_character_of_a_refused_category_is_hidden() -> None:
    everywhere = (range(0x40000), range(0x40000, sys.maxunicode + 1, 101), range(0xE0000, 0xE1100))
    for number in chain.from_iterable(everywhere):
        char = chr(number)
        category = unicodedata.category(char)
        if category in REFUSED:
            assert is_hidden(char), hex(number)
            if char not in "\n\t" and (category not in ("Cn", "Co") or number % 101 == 0):
                assert has_hidden(f"a{char}b"), hex(number)


@pytest.mark.parametrize("number", IGNORABLE, ids=hex)
def test_every_ignorable_character_is_hidden(number: int) -> None:
    assert list(hidden_places(f"a{chr(number)}\n")) == [1]


def test_letters_marks_and_symbols_of_all_scripts_are_shown() -> None:
    text = "Größe façade ελληνικά русский עברית العربية हिन्दी ไทย 日本語 한국어 😀 ½ ± → ✓ \u00a0 \u3000 e\u0301\n\ttab"
    assert not has_hidden(text) and visible(text) == text


def test_places_are_told_in_order_and_names_are_readable() -> None:
    assert list(hidden_places("\u200ba\n\x07")) == [0, 3]
    assert describe("\u202e") == "U+202E RIGHT-TO-LEFT OVERRIDE"
    assert describe("\x1b") == "U+001B ESCAPE"
    assert describe("\ue000") == "U+E000 Co"
    assert visible("a\u202eb\n\x00") == "a<U+202E>b\n<U+0000>"
