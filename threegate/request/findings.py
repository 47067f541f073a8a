"""What the rules find in one file: collected, and as it is shown, without any part of a secret.

Invariant: a rule that found anything is in the list; only repetitions beyond FINDINGS_PER_RULE are left out,
so a flood of one kind can never hide another kind. A message that shares five consecutive characters with a secret of
the file is replaced by its rule's own words, and a masked line contains the secret's kind instead; lines stay lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from threegate.core import limits
from threegate.core.secretscan.scan import Found
from threegate.core.strict_yaml import YamlNode
from threegate.request.characters import visible
from threegate.request.gate_rules import RULES
from threegate.request.problem import Problem
from threegate.request.report import Finding

_GRAM: Final = 5


class Findings:
    """The problems of one file, in the order in which they were found."""

    def __init__(self) -> None:
        self.problems: dict[Problem, None] = {}
        self._count: Counter[str] = Counter()

    def add(self, rule: str, line: int, column: int, message: str) -> None:
        """Note a problem; the same words at the same place are reported once."""
        problem = Problem(rule, line, column, message)
        if problem not in self.problems and self._count[rule] < limits.FINDINGS_PER_RULE:
            self.problems[problem] = None
            self._count[rule] += 1

    def at(self, rule: str, node: YamlNode, message: str) -> None:
        """Note a problem at a value of the front matter."""
        self.add(rule, node.line, node.column, message)


def tell(problems: Iterable[Problem], text: str, secrets: Sequence[Found]) -> tuple[Finding, ...]:
    """The problems as findings sorted by place, with severity and help of their rules. `text` is the file's."""
    grams = frozenset().union(*(_grams(text[found.start : found.end]) for found in secrets))
    told = []
    for rule, line, column, message in problems:
        # A message may quote the file, and so a part of a secret: who reads a verdict need not be allowed to see it.
        shares = bool(grams) and not grams.isdisjoint(_grams(message))
        told.append(RULES[rule].found(line, column, "" if shares else visible(message)))
    return tuple(sorted(told, key=lambda item: (item.line, item.column, item.rule)))


def mask_lines(text: str, secrets: Sequence[Found]) -> tuple[str, ...]:
    """The lines of the file with each secret replaced by its kind and each hidden character shown."""
    parts: list[str] = []
    last = 0
    for found in sorted(secrets, key=lambda item: (item.start, -item.end)):
        if found.end <= last:
            continue
        start = max(found.start, last)
        parts += [text[last:start], f"[{found.kind}]", "\n" * text.count("\n", start, found.end)]
        last = found.end
    return tuple(visible("".join([*parts, text[last:]])).split("\n"))


def _grams(text: str) -> set[str]:
    return {text[index : index + _GRAM] for index in range(max(len(text) - _GRAM, 0) + 1)}
