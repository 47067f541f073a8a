"""The bytes that digests are taken of: RFC 8785 (JCS) JSON, and the strict reader for JSON from outside.

Invariant: ``canonical_bytes(loads_strict(b)) == canonical_bytes(loads_strict(canonical_bytes(loads_strict(b))))``
and no value that has two meanings (duplicate keys, NaN, lone surrogates, integers beyond 2**53) is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Final

import orjson
import rfc8785

from threegate.core import limits

# RFC 8785 renders every number as a double, and beyond this two integers can be the same double.
INTEGER_MAX = 2**53 - 1
_STRING: Final = re.compile(r'"[^"]*"?')
_BRACKET: Final = re.compile(r"[\[{\]}]")


class StrictJSONError(ValueError):
    """The bytes are not a JSON value that has exactly one meaning. The text never repeats the value."""


def sha256_hex(data: bytes) -> str:
    """SHA-256 of `data` as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 rendering of a JSON value. Raises ValueError for what cannot be canonicalised."""
    try:
        if _is_plain(value, limits.JSON_DEPTH):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        rendered: bytes = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, orjson.JSONEncodeError, UnicodeError, RecursionError) as error:
        raise ValueError("the value has no canonical JSON form") from error
    return rendered


def _is_plain(value: Any, depth: int) -> bool:
    """Whether orjson's sorted rendering is the canonical one, in a tenth of the time: exact types, whole numbers that
    JSON can hold, and ASCII keys, which every order of keys sorts alike. A property test holds it against rfc8785."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -INTEGER_MAX <= int(value) <= INTEGER_MAX
    if depth == 0:
        return False
    if kind is dict:
        for key, item in value.items():  # a loop: a change of many files renders many small objects
            if type(key) is not str or not key.isascii():
                return False
            if type(item) is not str and item is not None and not _is_plain(item, depth - 1):
                return False
        return True
    return (kind is list or kind is tuple) and all(_is_plain(item, depth - 1) for item in value)


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical rendering of a JSON value."""
    return sha256_hex(canonical_bytes(value))


def loads_strict(data: bytes, *, max_bytes: int, max_depth: int = limits.JSON_DEPTH) -> Any:
    """Read one JSON value from UTF-8 bytes, refusing everything ambiguous.

    Raises StrictJSONError for: too long, not UTF-8, a BOM, nesting above `max_depth`, duplicate keys, NaN and
    infinities, integers beyond 2**53 - 1, lone surrogates, anything after the value.
    """
    if len(data) > max_bytes:
        raise StrictJSONError(f"more than {max_bytes} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise StrictJSONError("starts with a byte order mark")
    # Brackets within strings can only raise this count: a text that passes is not too deep.
    if text.count("[") + text.count("{") > max_depth:
        _refuse_depth(text, max_depth)
    try:
        value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANKS)))
        if end < len(text) and (rest := text[end:].lstrip(_BLANKS)):
            raise json.JSONDecodeError("Extra data", text, len(text) - len(rest))
    except json.JSONDecodeError as error:
        raise StrictJSONError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise StrictJSONError("nested too deeply") from None
    # Decoded UTF-8 has no surrogates, so only an escape can bring one in.
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _refuse_depth(text: str, max_depth: int) -> None:
    depth = 0
    # Escaped backslashes go first: in `\\"` the quote does end the string.
    unescaped = text.replace(r"\\", "").replace(r"\"", "")
    for bracket in _BRACKET.findall(_STRING.sub("", unescaped)):
        depth += 1 if bracket in "[{" else -1
        if depth > max_depth:
            raise StrictJSONError(f"nested deeper than {max_depth}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    # Readers differ in whether the first or the last of two equal keys counts, so neither does.
    if len(result) != len(pairs):
        raise StrictJSONError("a key occurs twice in one object")
    return result


def _constant(_name: str) -> Any:
    raise StrictJSONError("NaN and infinities are not JSON")


def _float(text: str) -> float:
    value = float(text)
    # `1e400` is JSON, and Python reads it as infinity.
    if not math.isfinite(value):
        raise StrictJSONError("a number is too large")
    return value


def _int(text: str) -> int:
    # By length first: `int` takes time that grows with the square of the digits, and no number in range has more.
    if len(text) > 17 or abs(value := int(text)) > INTEGER_MAX:
        raise StrictJSONError("an integer is beyond 2**53 - 1")
    return value


def _refuse_surrogates(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if any("\ud800" <= char <= "\udfff" for char in item):
                raise StrictJSONError("a lone surrogate")
        elif isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_constant,
    parse_float=_float,
    parse_int=_int,
)
"""Made once: to make one for each text costs as much as reading a short one."""
_BLANKS: Final = " \t\n\r"
