"""Which characters are unambiguous on a screen, and how the others are written."""

from __future__ import annotations

import unicodedata

_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing."""


def is_plain(char: str) -> bool:
    """Whether one character is a visible letter, number, mark or symbol, or a space."""
    return " " <= char <= "~" or (unicodedata.category(char)[0] in "LNPS" and char not in _BLANK)


def escape_of(char: str) -> str:
    """The character as ``\\x1b``, ``\\u202e`` or ``\\U000e0001``."""
    number = ord(char)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
