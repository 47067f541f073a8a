"""A rule's finding in a piece of text, before the piece is placed in a file."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """A broken rule and where: `line` and `column` count from 1 in the text that the reader was given; who cut it out
    of a file adds where it began. `message` is one line and never repeats a secret.
    """

    rule: str
    line: int
    column: int
    message: str


def placed(rule: str, text: str, offset: int, message: str) -> Problem:
    """A problem at a character of a text."""
    return Problem(rule, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset), message)
