"""Characters that a reader of the file cannot see, or that change what is seen.

Invariant: a text in which `first_hidden` finds nothing looks on a screen like what its bytes mean, as far as
single characters go: no control (except tab and newline), no format, private, unassigned or surrogate code
point, no line or paragraph separator, nothing that Unicode calls Default_Ignorable, no blank that counts as a
letter or symbol. Source: docs/spec/1-tool-request.md, "The file"; Unicode 15.1 DerivedCoreProperties.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_PRINTABLE_BUT_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Default_Ignorable_Code_Point outside the categories that are refused whole, and the blank Braille pattern."""

_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_CONTROL_NAMES = {
    "\x00": "NULL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\x0b": "LINE TABULATION",
    "\x0c": "FORM FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x85": "NEXT LINE",
}


def has_hidden(text: str) -> bool:
    """Whether `text` has a character that is refused. Linear; about 1 ns a character for what is fine."""
    if text.isascii() and text.isprintable():
        return False
    return next(hidden_places(text), None) is not None


def hidden_places(text: str) -> Iterator[int]:
    """Indices of the refused characters in `text`, in order."""
    plain = text.replace("\n", "").replace("\t", "")
    if plain.isprintable() and (plain.isascii() or _PRINTABLE_BUT_HIDDEN.search(plain) is None):
        return
    for index, char in enumerate(text):
        if char not in "\n\t" and is_hidden(char):
            yield index


def is_hidden(char: str) -> bool:
    """Whether one character is refused; tab and newline are controls and count as refused here."""
    if " " <= char <= "~":
        return False
    return unicodedata.category(char) in _REFUSED_CATEGORIES or _PRINTABLE_BUT_HIDDEN.match(char) is not None


def describe(char: str) -> str:
    """``U+202E RIGHT-TO-LEFT OVERRIDE``: the code point and its name, for a message."""
    name = _CONTROL_NAMES.get(char) or unicodedata.name(char, unicodedata.category(char))
    return f"U+{ord(char):04X} {name}"


def visible(text: str) -> str:
    """`text` with each refused character written as ``<U+202E>``; tabs and newlines stay."""
    if not has_hidden(text):
        return text
    return "".join(f"<U+{ord(char):04X}>" if char not in "\n\t" and is_hidden(char) else char for char in text)
