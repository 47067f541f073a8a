"""Findings and source lines as they are shown: without any part of a secret, and with nothing hidden in them.

Invariant: a message that shares five consecutive characters with a secret of the file is replaced by its
rule's own words, and a masked line contains the secret's kind instead; lines stay lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from threegate.core.secretscan.scan import Found
from threegate.request.characters import visible
from threegate.request.problem import Problem
from threegate.request.report import Finding
from threegate.request.rules import RULES

_GRAM = 5


def tell(problems: Sequence[Problem], text: str, secrets: Sequence[Found]) -> tuple[Finding, ...]:
    """The problems as findings sorted by place, with severity and help of their rules. `text` is the file's."""
    grams = _secret_grams(text, secrets)
    told = []
    for problem in problems:
        rule = RULES[problem.rule]
        message = rule.message if _shares(problem.message, grams) else visible(problem.message)
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


def _secret_grams(text: str, secrets: Sequence[Found]) -> frozenset[str]:
    grams: set[str] = set()
    for found in secrets:
        grams.update(_grams(text[found.start : found.end]))
    return frozenset(grams)


def _shares(message: str, grams: frozenset[str]) -> bool:
    return bool(grams) and not grams.isdisjoint(_grams(message))


def _grams(text: str) -> set[str]:
    return {text[index : index + _GRAM] for index in range(max(len(text) - _GRAM, 0) + 1)}
