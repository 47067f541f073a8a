"""The operators of contracts and grants, as functions over JSON values.

Invariant: pure; a value of a type that an operator cannot judge is neither true nor false. Regular expressions run in
linear time (RE2); a bool is not a number; equality is deep JSON equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import re2

from threegate.core import limits

Test = Callable[[Any], bool | None]
"""True: holds. False: does not. None: the value has a type that the operator cannot judge."""


class BadPattern(ValueError):
    """The text is not a linear-time pattern."""


def json_equal(left: Any, right: Any) -> bool:
    """Deep JSON equality: 1 equals 1.0, true is not a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list):
        return (
            isinstance(right, list)
            and len(left) == len(right)
            and all(json_equal(a, b) for a, b in zip(left, right, strict=True))
        )
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(json_equal(value, right[key]) for key, value in left.items())
        )
    return bool(left == right)


def is_number(value: Any) -> bool:
    """Whether `value` is a JSON number (a bool is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compile_pattern(text: str, *, whole: bool = False) -> Callable[[str], Any]:
    """The search function of a RE2 pattern; with `whole` the text has to match from end to end. Raises BadPattern."""
    pattern = _compiled(text)
    search = pattern.fullmatch if whole else pattern.search

    def find(value: str) -> Any:
        try:
            return search(value)
        except UnicodeError:  # a lone surrogate is in no language that a pattern describes
            return None

    return find


def first_match(text: str) -> str | None:
    """A text that a RE2 pattern matches whole: the first one in the order of bytes, where that can be known."""
    try:
        pattern = _compiled(text)
        first = pattern.possiblematchrange(limits.GRANT_WORD_CHARS)[0].decode()
    except (BadPattern, re2.error, UnicodeError):
        return None
    return first if pattern.fullmatch(first) else None


def _compiled(text: str) -> Any:
    if len(text) > limits.CONTRACT_REGEX_CHARS:
        raise BadPattern(f"a pattern has at most {limits.CONTRACT_REGEX_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = limits.CONTRACT_REGEX_MEMORY_BYTES
    try:
        return re2.compile(text, options=options)
    except (re2.error, UnicodeError) as error:
        raise BadPattern(f"no linear-time pattern: {error}") from None


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def equals(operand: Any) -> Test:
    """Deep JSON equality with one value."""
    if isinstance(operand, str):
        return lambda value: isinstance(value, str) and value == operand
    return lambda value: json_equal(value, operand)


def _one_of(operand: list[Any]) -> Test:
    texts = frozenset(item for item in operand if isinstance(item, str))
    others = [item for item in operand if not isinstance(item, str)]

    def test(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        return any(json_equal(value, item) for item in others)

    return test


def _contains(operand: str) -> Test:
    def test(value: Any) -> bool | None:
        if isinstance(value, str):
            return operand in value
        if isinstance(value, list):
            return any(isinstance(item, str) and item == operand for item in value)
        return None

    return test


def _regex(operand: str) -> Test:
    search = compile_pattern(operand)
    return lambda value: search(value) is not None if isinstance(value, str) else None


def _gte(operand: Any) -> Test:
    def test(value: Any) -> bool | None:
        kind = type(value)
        if kind is int or kind is float:
            return bool(value >= operand)
        return None

    return test


def _lte(operand: Any) -> Test:
    def test(value: Any) -> bool | None:
        kind = type(value)
        if kind is int or kind is float:
            return bool(value <= operand)
        return None

    return test


def _gt(operand: Any) -> Test:
    return lambda value: bool(value > operand) if is_number(value) else None


def _lt(operand: Any) -> Test:
    return lambda value: bool(value < operand) if is_number(value) else None


def _length(compare: Callable[[int], bool]) -> Test:
    return lambda value: compare(len(value)) if isinstance(value, str | list) else None


def _text_length(compare: Callable[[int], bool]) -> Test:
    return lambda value: compare(len(value)) if isinstance(value, str) else None


BUILDERS: Mapping[str, Callable[[Any], Test]] = {
    "equals": equals,
    "exact_match": equals,
    "type": lambda operand: _TYPES[operand],
    "contains": _contains,
    "one_of": _one_of,
    "regex": _regex,
    "gte": _gte,
    "lte": _lte,
    "length_gte": lambda operand: _length(lambda size: size >= operand),
    "length_lte": lambda operand: _length(lambda size: size <= operand),
    # only derived from JSON Schema; no contract can spell them
    "exclusive_minimum": _gt,
    "exclusive_maximum": _lt,
    "min_length": lambda operand: _text_length(lambda size: size >= operand),
    "max_length": lambda operand: _text_length(lambda size: size <= operand),
}
