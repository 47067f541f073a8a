"""Reads the one line of a Command section.

Invariant: `argv` is there exactly when no problem is an error, and it is what runs, without a shell.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from threegate.request.command.judgement import CommandJudgement
from threegate.request.command.words import split_words
from threegate.request.problem import Problem

WARNINGS: Final = frozenset(("TG330", "TG331"))
"""Rules of a command that are told and refuse nothing."""


@dataclass(frozen=True, slots=True)
class Command:
    """What was read. `argv` is None when an error was found; `problems` are in order of place."""

    argv: tuple[str, ...] | None
    problems: tuple[Problem, ...]
    unusual_program: bool = False
    """A program outside `programs` or below /in would be started: the effective risk is high."""


def read_command(text: str, *, programs: Collection[str]) -> Command:
    """Read the line of a Command section. `programs` are the usual ones (settings). Never raises; linear time.

    Places are columns of `text`, which is one line.
    """
    words, problems = split_words(text)
    if not words or not words[0].value:
        missing = Problem("TG301", 1, 1, "there is no command; write one line, program and words")
        return Command(None, (*problems, missing))
    if any(problem.rule == "TG322" for problem in problems):
        return Command(None, problems)
    judgement = CommandJudgement(words, problems, programs)
    judgement.program(0, len(words), 0)
    found = tuple(sorted(judgement.problems.values(), key=lambda problem: (problem.column, problem.rule)))
    refused = any(problem.rule not in WARNINGS for problem in found)
    return Command(None if refused else tuple(judgement.values), found, judgement.unusual)
