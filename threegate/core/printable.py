"""Which characters are unambiguous on a screen, and how the others are written."""

from __future__ import annotations

import unicodedata

_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing."""
_ESCAPE_TOO = frozenset(("R", "AL", "AN"))
"""Bidirectional classes that make some terminals reverse a whole line, our gutter included."""
_UNSURE = (
    ("\u1100", "\u11ff"), ("\ua960", "\ua97f"), ("\ud7b0", "\ud7ff"),  # parts of Hangul syllables
    ("\u2630", "\u2637"), ("\u268a", "\u268f"), ("\u4dc0", "\u4dff"), ("\U0001d300", "\U0001d37f"),  # wide since Unicode 16  # noqa: E501
    ("\U0001f1e6", "\U0001f1ff"), ("\U0001f3fb", "\U0001f3ff"),  # halves of flags, skin tones
)  # fmt: skip
"""Characters that join with a neighbour, or whose width depends on the terminal's version of Unicode. A line
with them could be longer than counted and continue in the next row, where our own words begin.
"""


def is_plain(char: str) -> bool:
    """Whether one character is a visible letter, number, mark or symbol, or a space."""
    return " " <= char <= "~" or (unicodedata.category(char)[0] in "LNPS" and char not in _BLANK)


def escape_of(char: str) -> str:
    """The character as ``\\x1b``, ``\\u202e`` or ``\\U000e0001``."""
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def stands_alone(char: str) -> bool:
    """Whether a visible character neither joins with a neighbour nor reverses the line that it is in."""
    if char <= "~":
        return True
    if any(first <= char <= last for first, last in _UNSURE):
        return False
    return unicodedata.bidirectional(char) not in _ESCAPE_TOO
