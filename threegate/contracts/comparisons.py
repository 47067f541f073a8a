"""A path of a contract with its operators, compiled in two modes.

Invariant: a rule that must hold fails on a missing or mistyped value; a rule that blocks (a deny, a
checkpoint) matches on one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from threegate.contracts.json_paths import MISSING, Path, selected
from threegate.contracts.path_compiler import compile_path
from threegate.core import limits
from threegate.core.json_operators import Test, equals, json_equal
from threegate.request.strict_texts import OPERATORS, all_clear, negation


def _is_hidden(name: str, operand: Any) -> bool:
    """Whether operand and compared value must never be shown."""
    return name == "equals_env" or (name == "not" and "equals_env" in operand)


def _test(name: str, operand: Any, environment: Mapping[str, str]) -> Test:
    if name == "not":
        return negation([_test(inner, item, environment) for inner, item in operand.items()])
    if name == "equals_env":
        expected = environment.get(operand)
        return (lambda _value: None) if expected is None else equals(expected)
    return OPERATORS[name](operand)


def _is_related(name: str, operand: Any) -> bool:
    """Whether an operator looks at more than one value of the arguments."""
    return name == "equals_arg" or (name == "not" and "equals_arg" in operand)


def _related(name: str, operand: Any, environment: Mapping[str, str]) -> Callable[[Any, Any], bool | None]:
    """A test of a value beside the root that it is in."""
    if name == "equals_arg":
        other = compile_path(operand)
        return lambda value, root: _same(value, selected(other, root))
    plain = [_test(inner, item, environment) for inner, item in operand.items() if inner != "equals_arg"]
    same = _related("equals_arg", operand["equals_arg"], environment)
    return lambda value, root: negation([*plain, lambda found: same(found, root)])(value)


def _same(value: Any, others: list[Any] | None) -> bool | None:
    """Whether a value is the one that was found; unknown if there is not exactly one, or if it only looks
    similar.
    """
    if others is None or len(others) != 1:
        return None
    return json_equal(value, others[0]) or (False if all_clear(others[0]) else None)


class CompiledEntry:
    """A path and its operators, compiled.

    `failure(root)` returns None if all checks pass, else (operator, expected, found). `matches(root)` is for
    blocking rules: any value at the path, a missing or a mistyped one.
    """

    __slots__ = ("absent", "failure", "matches", "optional", "path", "present", "related", "tests")

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
        self.tests: list[tuple[str, Any, Test]] = [
            (name, operand, _test(name, operand, environment))
            for name, operand in operators.items()
            if name != "exists" and not _is_related(name, operand)
        ]
        self.related = [
            (name, operand, _related(name, operand, environment))
            for name, operand in operators.items()
            if _is_related(name, operand)
        ]
        self.failure = self._choose()
        self.matches = self._choose_matches()

    def _choose(self) -> Callable[[Any], tuple[str, Any, Any] | None]:
        """The fastest function for this entry."""
        get, tests = self.path.get, self.tests
        if get is None or len(tests) != 1 or self.related or self.absent or self.present or self.optional:
            return self._failure
        name, operand, test = tests[0]
        hidden = _is_hidden(name, operand)
        shown = None if hidden else operand

        def single(root: Any) -> tuple[str, Any, Any] | None:
            value = get(root)
            if value is not MISSING and test(value):
                return None
            return name, shown, None if hidden else value

        return single

    def _failure(self, root: Any) -> tuple[str, Any, Any] | None:
        values = selected(self.path, root)
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
            for name, operand, test in self.tests:
                if not test(value):
                    hidden = _is_hidden(name, operand)
                    return name, None if hidden else operand, None if hidden else value
            for name, operand, judged in self.related:
                if not judged(value, root):
                    hidden = _is_hidden(name, operand)
                    return name, None if hidden else operand, None if hidden else value
        return None

    def _choose_matches(self) -> Callable[[Any], bool]:
        """The fastest function for a condition that blocks."""
        get, tests = self.path.get, self.tests
        if get is None or len(tests) != 1 or self.related or self.absent:
            return self._matches
        _, _, test = tests[0]

        def single(root: Any) -> bool:
            value = get(root)
            return value is MISSING or test(value) is not False

        return single

    def _matches(self, root: Any) -> bool:
        """Whether this condition blocks: it is true for some value, or cannot be judged."""
        values = selected(self.path, root)
        if values is None:
            return True
        if self.absent:
            return not values or None in values
        if not values:
            return not self.present or bool(self.tests or self.related)
        return any(
            all(test(value) is not False for _, _, test in self.tests)
            and all(judged(value, root) is not False for _, _, judged in self.related)
            for value in values
        )
