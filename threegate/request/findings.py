"""Collects what the rules find in one file.

Invariant: a rule that found anything is in the list; only repetitions beyond FINDINGS_PER_RULE are left out,
so a flood of one kind can never hide another kind.
"""

from __future__ import annotations

from threegate.core import limits
from threegate.core.strict_yaml import YamlNode
from threegate.request.problem import Problem


class Findings:
    """The problems of one file, in the order in which they were found."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._seen: set[Problem] = set()
        self._count: dict[str, int] = {}

    def add(self, rule: str, line: int, column: int, message: str) -> None:
        """Note a problem; the same words at the same place are reported once."""
        place = Problem(rule, line, column, message)
        count = self._count.get(rule, 0)
        if place in self._seen or count >= limits.FINDINGS_PER_RULE:
            return
        self._seen.add(place)
        self._count[rule] = count + 1
        self.problems.append(place)

    def at(self, rule: str, node: YamlNode, message: str) -> None:
        """Note a problem at a value of the front matter."""
        self.add(rule, node.line, node.column, message)

    def take(self, problem: Problem, *, line: int = 1, column: int = 1) -> None:
        """Note a problem of a piece of text that starts at `line`, `column` of the file."""
        shift = column - 1 if problem.line == 1 else 0
        self.add(problem.rule, problem.line + line - 1, problem.column + shift, problem.message)
