"""Characters that a reader of the file cannot see, or that change what is seen.

Invariant: a text in which `hidden_places` finds nothing looks on a screen like what its bytes mean, as far as
single characters go: no control (except tab and newline), no format, private, unassigned or surrogate code
point, no line or paragraph separator, nothing that Unicode calls Default_Ignorable, no blank that counts as a
letter or symbol. The exceptions are joiners and variation selectors between the neighbours that they are for: they
change how these are drawn, as Persian, Hindi and emoji need it. Source: docs/spec/1-tool-request.md, "The file";
Unicode 15.1 DerivedCoreProperties; RFC 5892 appendix A.1 and A.2; UTS 51.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

# Default_Ignorable_Code_Point outside the categories that are refused whole, and the blank Braille pattern.
_PRINTABLE_BUT_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_ZWNJ, _ZWJ = "\u200c", "\u200d"
# Text and emoji presentation of the character before.
_SELECTORS = "\ufe0e\ufe0f"
JOINING = {ord(char): None for char in (_ZWNJ, _ZWJ, *_SELECTORS)}
"""For `str.translate`: a text without what `hidden_places` may pass."""
# The canonical combining class of the marks that join Indic consonants.
_VIRAMA = 9
# Scripts whose letters change form with their neighbours, as names of characters begin.
_CURSIVE = frozenset({"ADLAM", "ARABIC", "MANDAIC", "MONGOLIAN", "NKO", "SYRIAC"})
# Vowel marks between a letter and a joiner.
_MARKS_BETWEEN = 4
# What may be an emoji, without the halves of flags.
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
)
_SKIN = re.compile("[\U0001f3fb-\U0001f3ff]")

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
        if char not in "\n\t" and is_hidden(char) and not (ord(char) in JOINING and _joins(text, index)):
            yield index


def is_hidden(char: str) -> bool:
    """Whether one character is refused by itself, whatever its neighbours; here tab and newline are, too."""
    if " " <= char <= "~":
        return False
    return unicodedata.category(char) in _REFUSED_CATEGORIES or _PRINTABLE_BUT_HIDDEN.match(char) is not None


def strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, keys included."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend((*item, *item.values()))
        elif isinstance(item, list):
            stack.extend(item)


def describe(char: str) -> str:
    """``U+202E RIGHT-TO-LEFT OVERRIDE``: the code point and its name, for a message."""
    name = _CONTROL_NAMES.get(char) or unicodedata.name(char, unicodedata.category(char))
    return f"U+{ord(char):04X} {name}"


def visible(text: str) -> str:
    """`text` with each refused character written as ``<U+202E>``; tabs and newlines stay."""
    return escaped(text, lambda char: f"<U+{ord(char):04X}>")


def escaped(text: str, escape: Callable[[str], str]) -> str:
    """`text` with each refused character written as `escape` writes it; tabs and newlines stay."""
    pieces, done = [], 0
    for index in hidden_places(text):
        pieces += [text[done:index], escape(text[index])]
        done = index + 1
    return "".join([*pieces, text[done:]]) if pieces else text


def _joins(text: str, index: int) -> bool:
    """Whether a joiner or selector is between the neighbours that it is for."""
    char, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if char in _SELECTORS:
        return (_EMOJI.match(before) is not None and not _SKIN.match(before)) or (
            before in ("#", "*", *"0123456789") and after == "\u20e3"
        )
    if not before:
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return _letter_before(text, index - 1) != ""
    if after and unicodedata.combining(after) == _VIRAMA:
        return _script(_letter_before(text, index)) == _script(after)
    if char == _ZWJ and _EMOJI.match(after) and not _SKIN.match(after):
        return _EMOJI.match(before) is not None or (
            before in _SELECTORS and _EMOJI.match(text[index - 2 : index - 1]) is not None
        )
    script = _script(_letter_before(text, index))
    if script not in _CURSIVE:
        return False
    if _is_letter(after):
        return _script(after) == script
    # A joiner alone gives a letter the form that it has before another one, as abbreviations in Persian have it.
    return char == _ZWJ and (not after or unicodedata.category(after)[0] in "ZP" or after in "\n\t")


def _letter_before(text: str, index: int) -> str:
    """The letter before a joiner, without its vowel marks; empty if there is none."""
    for place in range(index - 1, max(-1, index - 2 - _MARKS_BETWEEN), -1):
        if unicodedata.category(text[place]) != "Mn":
            return text[place] if _is_letter(text[place]) else ""
    return ""


def _is_letter(char: str) -> bool:
    return char != "" and unicodedata.category(char) in ("Lo", "Lm", "Ll", "Lu") and not char.isascii()


def _script(char: str) -> str:
    return unicodedata.name(char, "").split(" ")[0].split("-")[0] if char else ""
