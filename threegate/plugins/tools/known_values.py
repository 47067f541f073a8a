"""Masks values that are known, such as the secrets that a process was given, in everything that it says.

Invariant: what `KnownValues` returns contains none of its values in any of these forms, in text, keys, numbers,
and text that continues in the next field of the same name: plain, with JSON escapes, percent-encoded, hexadecimal,
base64 (standard and URL-safe, wrapped, at each alignment), and base64 of any of these. The time is linear in the
text. Other encodings pass: masking prevents accidents, it does not confine a process that wants to tell its secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import pairwise
from typing import Any, Final

import re2

from threegate.core import limits
from threegate.core.secretscan.scan import OPTIONS, mask_secrets, one_byte_each

MASK: Final = "[secret]"
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE: Final = {"+": "+-", "/": "/_"}
_TO_STANDARD: Final = str.maketrans("-_", "+/", " \t\r\n")
_BETWEEN_BYTES: Final = r"(?:[\s:,-]|0[xX]|\\+[nrtx])*"
"""What hexadecimal text may have between two bytes: ``61 62``, ``61:62``, ``\\x61\\x62``, ``0x61, 0x62``, lines."""
_BETWEEN_DIGITS: Final = r"(?:\s|\\+[nrt])*"
"""Where base64 is wrapped, perhaps in a JSON text."""
_DIGITS: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
"""Base64 of SECRET_CHARS_MIN bytes or more."""
_BINARY_KEYS: Final = frozenset(("data", "blob"))

Span = tuple[int, int]


class KnownValues:
    """Values to be masked, each one token of ASCII characters with at least SECRET_CHARS_MIN of them."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = sorted({piece for value in values for piece in _pieces(value)})
        # Not `linear.compiled`: that keeps each pattern, and with it the value, for good.
        self._patterns = [re2.compile(_pattern(value).encode("ascii"), OPTIONS) for value in self._values]
        self.met = False
        """Whether any value was masked so far."""
        self._numbers = {number for value in self._values if (number := _number(value)) is not None}

    def text(self, text: str) -> str:
        """The text with each value replaced by MASK."""
        return self._texts([text])[0]

    def json(self, value: Any, *, scanned: bool) -> Any:
        """A JSON value with each known value masked, keys and numbers included; with `scanned`, also what looks like
        a secret. The base64 of an object with a `mimeType` is not scanned: it is an image or the like.
        """
        found: dict[str, list[str]] = {}
        for key, text in _leaves(value, ""):
            found.setdefault(key, []).append(text)
        # Texts of one key are searched as one text, because a value may continue in the next block.
        masked = {key: iter(self._texts(texts)) for key, texts in found.items()}
        return self._rebuilt(value, "", masked, scanned=scanned)

    def _rebuilt(self, value: Any, key: str, masked: Mapping[str, Iterator[str]], *, scanned: bool) -> Any:
        if isinstance(value, str):
            text = next(masked[key])
            return mask_secrets(text) if scanned else text
        if isinstance(value, Mapping):
            binary = _BINARY_KEYS if isinstance(value.get("mimeType"), str) else frozenset()
            return {
                self._key(name, scanned=scanned): self._rebuilt(
                    item, name, masked, scanned=scanned and (name not in binary or exact_base64(item) is None)
                )
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self._rebuilt(item, key, masked, scanned=scanned) for item in value]
        if type(value) in (int, float) and self._is_number(value):
            self.met = True
            return MASK
        return value

    def _key(self, name: str, *, scanned: bool) -> str:
        name = self.text(name)
        return mask_secrets(name) if scanned else name

    def _is_number(self, value: float) -> bool:
        """Whether a number is a value, or its digits contain one."""
        if not self._values:
            return False
        exact = abs(Decimal(repr(value)))
        digits = f"{exact:f}"
        return (exact in self._numbers and len(digits) >= limits.SECRET_CHARS_MIN) or bool(self._spans(digits))

    def _texts(self, texts: Sequence[str]) -> list[str]:
        """The texts, each masked, with the values that begin in one and end in a later one."""
        if not self._values:
            return list(texts)
        spans = self._spans("".join(texts))
        end = 0
        made: list[str] = []
        for text in texts:
            start, end = end, end + len(text)
            within = [
                (max(low, start) - start, min(high, end) - start) for low, high in spans if low < end and high > start
            ]
            made.append(_replaced(text, _joined(within + self._decoded_spans(text))))
            self.met = self.met or made[-1] != text
        return made

    def _spans(self, text: str) -> list[Span]:
        """Places of all values, by place; none overlaps the next."""
        data = one_byte_each(text)
        return _joined(match.span() for pattern in self._patterns for match in pattern.finditer(data))

    def _decoded_spans(self, text: str) -> list[Span]:
        """Places of base64 that decodes to a value in any form: the text as a whole, and each run of digits in it."""
        if self._holds(text.translate(_TO_STANDARD)):
            return [(0, len(text))]
        return [run.span() for run in _DIGITS.finditer(text) if self._holds(run[0].translate(_TO_STANDARD))]

    def _holds(self, digits: str) -> bool:
        digits = digits.rstrip("=")
        try:
            data = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except (binascii.Error, ValueError):
            return False
        return any(pattern.search(data) for pattern in self._patterns)


def exact_base64(text: object) -> bytes | None:
    """The bytes of base64 that round-trips exactly; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each text of a JSON value with the key that it is below, in order."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, key)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Overlapping places joined into one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _replaced(text: str, spans: Sequence[Span]) -> str:
    pieces: list[str] = []
    last = 0
    for start, end in spans:
        pieces += (text[last:start], MASK)
        last = end
    return "".join((*pieces, text[last:]))


def _number(value: str) -> Decimal | None:
    """The number that a value is; None for anything else."""
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


# ---- the forms of a value, as one pattern for RE2


def _pieces(value: str) -> list[str]:
    """A value in pieces of nearly the same length."""
    count = -(-len(value) // limits.MASKED_PIECE_CHARS)
    edges = [len(value) * number // count for number in range(count + 1)] if count else []
    return [value[start:end] for start, end in pairwise(edges)]


def _pattern(value: str) -> str:
    data = value.encode("ascii")
    forms = ["".join(map(_char, value)), _BETWEEN_BYTES.join(_byte(byte) for byte in data)]
    forms += [_BETWEEN_DIGITS.join(map(_char, _base64(data, before))) for before in range(3)]
    return "|".join(forms)


@cache
def _char(chars: str) -> str:
    """One of the characters: itself, or its JSON or percent escape, however often that was escaped again."""
    codes = "|".join(f"{code[0]}{_any_case(code[1])}" for code in (f"{ord(char):02x}" for char in chars))
    slash = r"|\\+/" if "/" in chars else ""
    return rf"(?:[{re.escape(chars)}]|(?:\\+(?:u00|x)|%(?:25)*)(?:{codes}){slash})"


@cache
def _byte(byte: int) -> str:
    return "".join(map(_any_case, f"{byte:02x}"))


def _any_case(digit: str) -> str:
    return digit if digit.isdigit() else f"[{digit}{digit.upper()}]"


def _base64(data: bytes, before: int) -> list[str]:
    """For each base64 digit that depends on the data, the digits it can be, if `before` unknown bytes are in front."""
    low, high = before * 8, (before + len(data)) * 8
    bits = int.from_bytes(data)
    sets = []
    for first in range(low - low % 6, high, 6):
        if low <= first and first + 6 <= high:
            digit = _ALPHABET[bits >> (high - first - 6) & 63]
            sets.append(_URL_SAFE.get(digit, digit))
            continue
        known = [bit for bit in range(first, first + 6) if low <= bit < high]
        fits = "".join(
            digit
            for number, digit in enumerate(_ALPHABET)
            if all(number >> (first + 5 - bit) & 1 == bits >> (high - 1 - bit) & 1 for bit in known)
        )
        sets.append("".join(_URL_SAFE.get(digit, digit) for digit in fits))
    return sets
