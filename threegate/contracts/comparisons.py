"""The operators, compiled to functions, in two manners.

Invariant: a rule that must hold fails on a missing or mistyped value; a rule that holds something back (a deny,
a checkpoint) matches on one. Regular expressions run in linear time (RE2); a bool is no number; equality is
deep JSON equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import re2

from threegate.contracts.json_paths import MISSING, Path, selected
from threegate.core import limits

Test = Callable[[Any], bool | None]
"""True: holds. False: does not. None: the value has a type that the operator cannot judge."""

HIDDEN = frozenset({"equals_env"})
"""Operators whose operand is never shown."""


class BadPattern(ValueError):
    """The text is no linear-time pattern."""


def json_equal(left: Any, right: Any) -> bool:
    """Deep JSON equality: 1 equals 1.0, true is no number."""
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


def compile_pattern(text: str) -> Callable[[str], Any]:
    """The search function of a RE2 pattern. Raises BadPattern."""
    if len(text) > limits.CONTRACT_REGEX_CHARS:
        raise BadPattern(f"a pattern has at most {limits.CONTRACT_REGEX_CHARS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = limits.CONTRACT_REGEX_MEMORY_BYTES
    try:
        search = re2.compile(text, options=options).search
    except (re2.error, UnicodeError) as error:
        raise BadPattern(f"no linear-time pattern: {error}") from None

    def find(value: str) -> Any:
        try:
            return search(value)
        except UnicodeError:  # a lone surrogate is in no language that a pattern describes
            return None

    return find


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}


def _equals(operand: Any) -> Test:
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
    "equals": _equals,
    "exact_match": _equals,
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


class Entry:
    """A path and its operators, compiled.

    `failure(root)` gives None when everything holds, else (operator, expected, found).
    `matches(root)` is for what holds back: any value at the path, a missing or a mistyped one.
    """

    __slots__ = ("absent", "failure", "matches", "optional", "path", "present", "tests")

    def __init__(
        self,
        path: Path,
        operators: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        optional: bool = False,
    ) -> None:
        self.path = path
        self.optional = optional
        self.absent = operators.get("exists") is False
        self.present = operators.get("exists") is True
        self.tests: list[tuple[str, Any, Test]] = []
        for name, operand in operators.items():
            if name == "exists":
                continue
            if name == "equals_env":
                expected = environment.get(operand)
                test: Test = (lambda _value: None) if expected is None else _equals(expected)
            else:
                test = BUILDERS[name](operand)
            self.tests.append((name, operand, test))
        self.failure = self._choose()
        self.matches = self._choose_matches()

    def _choose(self) -> Callable[[Any], tuple[str, Any, Any] | None]:
        """The quickest function for what this entry has."""
        get, tests = self.path.get, self.tests
        if get is None or len(tests) != 1 or self.absent or self.present or self.optional:
            return self._failure
        name, operand, test = tests[0]
        shown = None if name in HIDDEN else operand

        def single(root: Any) -> tuple[str, Any, Any] | None:
            value = get(root)
            if value is not MISSING and test(value):
                return None
            return name, shown, None if name in HIDDEN else value

        return single

    def _failure(self, root: Any) -> tuple[str, Any, Any] | None:
        values = selected(self.path, root)
        if values is None:
            return "path", f"at most {limits.CONTRACT_JSONPATH_NODES} values", "more"
        if self.absent:
            return ("exists", False, values[0]) if values else None
        if not values:
            return None if self.optional else ("exists", True, MISSING)
        for value in values:
            if self.present and value is None:
                return "exists", True, None
            for name, operand, test in self.tests:
                if not test(value):
                    hidden = name in HIDDEN
                    return name, None if hidden else operand, None if hidden else value
        return None

    def _choose_matches(self) -> Callable[[Any], bool]:
        """The quickest function for a condition that holds something back."""
        get, tests = self.path.get, self.tests
        if get is None or len(tests) != 1 or self.absent:
            return self._matches
        _, _, test = tests[0]

        def single(root: Any) -> bool:
            value = get(root)
            return value is MISSING or test(value) is not False

        return single

    def _matches(self, root: Any) -> bool:
        """Whether this condition holds something back: it holds for any value, or cannot be judged."""
        values = selected(self.path, root)
        if values is None:
            return True
        if self.absent:
            return not values or None in values
        if not values:
            return not self.present or bool(self.tests)
        return any(all(test(value) is not False for _, _, test in self.tests) for value in values)
