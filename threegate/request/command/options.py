"""Reads the options of a launcher as getopt would, to find the first word of what it starts.

Invariant: an option that the table does not know ends the reading with None: whoever cannot say where the
started program begins must refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a program knows. A long name stands without dashes."""

    flags: str = ""
    values: str = ""
    attached: str = ""
    """Short options whose value, if any, is attached (GNU's optional arguments)."""
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    operands: int = 0
    """Words between the options and the started program."""
    digits: bool = False
    """``-10`` is an option of its own."""


@dataclass(slots=True)
class Parsed:
    """What was read: option name (short: one letter) with its value and word number, and where the rest begins."""

    options: list[tuple[str, str, int]] = field(default_factory=list)
    rest: int = 0
    operands: list[int] = field(default_factory=list)

    def value(self, *names: str) -> str | None:
        """The last value given to any of these options."""
        return next((value for name, value, _ in reversed(self.options) if name in names), None)


def parse_options(words: Sequence[str], start: int, known: Options) -> Parsed | None:
    """Read options from ``words[start:]`` up to the first operand that ends them. None where one is unknown."""
    parsed = Parsed()
    index = start
    while index < len(words):
        word = words[index]
        if word == "--":
            index += 1
            break
        if word == "-" or not word.startswith("-"):
            break
        used = (
            _long(words, index, known, parsed)
            if word.startswith("--")
            else _short(words, index, known, parsed)
        )
        if used is None:
            return None
        index += used
    for _ in range(known.operands):
        if index < len(words):
            parsed.operands.append(index)
            index += 1
    parsed.rest = index
    return parsed


def _long(words: Sequence[str], index: int, known: Options, parsed: Parsed) -> int | None:
    """One ``--name`` or ``--name=value``; unique beginnings of a name are that name, as with getopt_long."""
    name, equals, value = words[index][2:].partition("=")
    names = known.long_flags | known.long_values
    if name not in names:
        fitting = [candidate for candidate in names if candidate.startswith(name)]
        if len(fitting) != 1:
            return None
        name = fitting[0]
    if name in known.long_values and not equals:
        if index + 1 >= len(words):
            return None
        parsed.options.append((name, words[index + 1], index + 1))
        return 2
    parsed.options.append((name, value, index))
    return 1


def _short(words: Sequence[str], index: int, known: Options, parsed: Parsed) -> int | None:
    """One cluster such as ``-in5``."""
    cluster = words[index][1:]
    if known.digits and cluster.lstrip("-+").isdigit():
        return 1
    for place, letter in enumerate(cluster):
        if letter in known.values:
            value = cluster[place + 1 :]
            if value:
                parsed.options.append((letter, value, index))
                return 1
            if index + 1 >= len(words):
                return None
            parsed.options.append((letter, words[index + 1], index + 1))
            return 2
        if letter in known.attached:
            parsed.options.append((letter, cluster[place + 1 :], index))
            return 1
        if letter not in known.flags:
            return None
        parsed.options.append((letter, "", index))
    return 1
