"""A path of a contract with its operators, compiled in two modes.

Invariant: a rule that must hold fails on a missing or mistyped value; a rule that blocks (a deny, a
checkpoint) matches on one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from threegate.contracts.json_paths import MISSING
from threegate.contracts.path_compiler import Path, compile_path
from threegate.core import limits
from threegate.core.json_operators import Test, equals, json_equal
from threegate.request.strict_texts import OPERATORS, all_clear, negation

Judge = Callable[[Any, Any], bool | None]
"""A test of a value beside the root that the value is in."""


class Variable(str):
    """The name of an environment variable, with the value that it had when the contract was read."""

    value: str | None = None


def _is_hidden(name: str, operand: Any) -> bool:
    """Whether operand and compared value must never be shown."""
    return name == "equals_env" or (name == "not" and "equals_env" in operand)


def _test(name: str, operand: Any) -> Test:
    """The test of an operator that looks at one value. Raises BadPattern, BadOperand."""
    if name == "not":
        return negation([_test(inner, item) for inner, item in operand.items()])
    if name == "equals_env":
        # An unset variable is equal to nothing, and its `not` does not hold either.
        return (lambda _value: None) if operand.value is None else equals(operand.value)
    return OPERATORS[name](operand)


def _judge(name: str, operand: Any) -> Judge:
    """The test of any operator; `equals_arg` looks at two values of the arguments. Raises BadPattern, BadOperand."""
    if name == "equals_arg":
        other = compile_path(operand)
        return lambda value, root: _same(value, other.selected(root))
    if name == "not" and "equals_arg" in operand:
        inner = [_judge(*item) for item in operand.items()]
        return lambda value, root: negation([_beside(root, one) for one in inner])(value)
    test = _test(name, operand)
    return lambda value, _root: test(value)


def _beside(root: Any, judge: Judge) -> Test:
    return lambda value: judge(value, root)


def _same(value: Any, others: list[Any] | None) -> bool | None:
    """Whether a value is the one that was found; unknown if there is not exactly one, or if it only looks
    similar.
    """
    if others is None or len(others) != 1:
        return None
    return json_equal(value, others[0]) or (False if all_clear(others[0]) else None)


class Entry:
    """A path and its operators, compiled. Raises BadPattern, BadOperand.

    `failure(root)` returns None if all checks pass, else (operator, expected, found). `matches(root)` is for
    blocking rules: any value at the path, a missing or a mistyped one.
    """

    __slots__ = ("absent", "failure", "matches", "optional", "path", "present", "tests")

    def __init__(self, path: Path, operators: Mapping[str, Any], *, optional: bool = False) -> None:
        self.path = path
        self.optional = optional
        self.absent = operators.get("exists") is False
        self.present = operators.get("exists") is True
        named = {name: operand for name, operand in operators.items() if name != "exists"}
        self.tests = [(name, operand, _judge(name, operand)) for name, operand in named.items()]
        self.failure: Callable[[Any], tuple[str, Any, Any] | None] = self._failure
        self.matches: Callable[[Any], bool] = self._matches
        related = any(name == "equals_arg" or (name == "not" and "equals_arg" in named[name]) for name in named)
        if path.get is not None and len(named) == 1 and not (related or self.absent):
            # Nearly all entries are one test of one value; this way takes half the time of the general one.
            [(name, operand)] = named.items()
            test = _test(name, operand)
            self.matches = _single_match(path.get, test)
            if not (self.present or optional):
                self.failure = _single_failure(path.get, name, operand, test)

    def _failure(self, root: Any) -> tuple[str, Any, Any] | None:
        values = self.path.selected(root)
        if values is None:
            return "path", f"at most {limits.CONTRACT_JSONPATH_NODES} values", "more"
        if self.absent:
            found = next((value for value in values if value is not None), MISSING)
            return None if found is MISSING else ("exists", False, found)
        if not values:
            return None if self.optional else ("exists", True, MISSING)
        for value in values:
            if self.present and value is None:
                return "exists", True, None
            for name, operand, judge in self.tests:
                if not judge(value, root):
                    hidden = _is_hidden(name, operand)
                    return name, None if hidden else operand, None if hidden else value
        return None

    def _matches(self, root: Any) -> bool:
        """Whether this condition blocks: it is true for some value, or cannot be judged."""
        values = self.path.selected(root)
        if values is None:
            return True
        if self.absent:
            return not values or None in values
        if not values:
            return not self.present or bool(self.tests)
        return any(all(judge(value, root) is not False for _, _, judge in self.tests) for value in values)


def _single_failure(
    get: Callable[[Any], Any], name: str, operand: Any, test: Test
) -> Callable[[Any], tuple[str, Any, Any] | None]:
    hidden = _is_hidden(name, operand)
    shown = None if hidden else operand

    def failure(root: Any) -> tuple[str, Any, Any] | None:
        value = get(root)
        if value is not MISSING and test(value):
            return None
        return name, shown, None if hidden else value

    return failure


def _single_match(get: Callable[[Any], Any], test: Test) -> Callable[[Any], bool]:
    def matches(root: Any) -> bool:
        value = get(root)
        return value is MISSING or test(value) is not False

    return matches
