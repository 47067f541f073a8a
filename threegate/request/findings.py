"""What the rules find in one file: collected, and as it is shown, without any part of a secret.

Invariant: a rule that found anything is in the list; only repetitions beyond FINDINGS_PER_RULE are left out,
so a flood of one kind can never hide another kind. A message that shares five consecutive characters with a secret of
the file is replaced by its rule's own words, and a masked line contains the secret's kind instead; lines stay lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from threegate.core import limits
from threegate.core.secretscan.scan import Found
from threegate.core.strict_yaml import YamlNode
from threegate.request.characters import visible
from threegate.request.problem import Problem
from threegate.request.report import Finding
from threegate.request.rules import RULES


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


_GRAM = 5


def tell(problems: Sequence[Problem], text: str, secrets: Sequence[Found]) -> tuple[Finding, ...]:
    """The problems as findings sorted by place, with severity and help of their rules. `text` is the file's."""
    grams = frozenset().union(*(_grams(text[found.start : found.end]) for found in secrets))
    told = []
    for problem in problems:
        rule = RULES[problem.rule]
        shares = bool(grams) and not grams.isdisjoint(_grams(problem.message))
        message = rule.message if shares else visible(problem.message)
        told.append(Finding(rule.id, rule.severity, problem.line, problem.column, message, rule.help))
    return tuple(sorted(told, key=lambda item: (item.line, item.column, item.rule)))


def mask_lines(text: str, secrets: Sequence[Found]) -> tuple[str, ...]:
    """The lines of the file with each secret replaced by its kind and each hidden character shown."""
    parts: list[str] = []
    last = 0
    for found in sorted(secrets, key=lambda item: (item.start, -item.end)):
        if found.end <= last:
            continue
        start = max(found.start, last)
        parts.append(text[last:start])
        parts.append(f"[{found.kind}]" + "\n" * text.count("\n", start, found.end))
        last = found.end
    parts.append(text[last:])
    return tuple(visible("".join(parts)).split("\n"))


def _grams(text: str) -> set[str]:
    return {text[index : index + _GRAM] for index in range(max(len(text) - _GRAM, 0) + 1)}
