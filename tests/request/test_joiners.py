"""Joiners and variation selectors: ordinary where a script or an emoji needs them, hidden everywhere else."""

from __future__ import annotations

import pytest

from threegate.request.characters import has_hidden, visible

NEEDED = {
    "a Persian verb": "می\u200cخواهم",
    "a plural after a letter that does not join": "کار\u200cها",
    "with vowel marks": "خانِه\u200cای",
    "an abbreviation": "۱۴۰۱ ه\u200d.ش",
    "a half form of Hindi": "क्\u200dष",
    "a virama that is seen": "क्\u200cष",
    "with a nukta": "ड\u093c्\u200dय",
    "Bengali ya": "র\u200d্যাব",
    "a Malayalam chillu": "ന്\u200d ",
    "Sinhala": "ක්\u200dර",
    "a family": "👨\u200d👩\u200d👧",
    "a flag": "🏳\ufe0f\u200d🌈",
    "a couple": "👩\u200d❤\ufe0f\u200d👨",
    "a skin tone": "👩🏽\u200d🚀",
    "a keycap": "1\ufe0f\u20e3",
    "a sign as emoji": "⚠\ufe0f",
    "a sign as text": "☎\ufe0e",
}
HIDDEN = {
    "in an English word": "pass\u200cword",
    "after an English word": "name\u200d",
    "at the start": "\u200dمی",
    "at the end of a word": "می\u200c ",
    "two of them": "می\u200c\u200cخواهم",
    "between scripts": "می\u200ca",
    "after a virama of nothing": "\u094d\u200d",
    "in Hebrew, which does not join": "א\u200dב",
    "in Greek": "α\u200dβ",
    "after an emoji": "👩\u200d",
    "before a letter": "👩\u200da",
    "between halves of flags": "🇩\u200d🇪",
    "two selectors": "❤\ufe0f\ufe0f",
    "a selector after a letter": "a\ufe0f",
    "a selector after a digit": "1\ufe0f",
    "another selector": "❤\ufe01",
    "a right-to-left override": "می\u202eخ",
}


@pytest.mark.parametrize("text", NEEDED.values(), ids=list(NEEDED))
def test_what_a_script_needs_is_no_hidden_character(text: str) -> None:
    assert not has_hidden(text) and visible(text) == text


@pytest.mark.parametrize("text", HIDDEN.values(), ids=list(HIDDEN))
def test_everywhere_else_it_is_hidden_and_shown(text: str) -> None:
    assert has_hidden(text) and "<U+" in visible(text)
