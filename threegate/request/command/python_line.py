"""What a command line has Python run: a file, a module, words of the line, or nothing.

Invariant: options are read as CPython reads them; an option that is not in the table ends the reading, and then
nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Kind = Literal["file", "module", "code", "input"]
"""`input`: the program is read from standard input, which is empty in a run."""

_PYTHON: Final = re.compile(r"python(?:3(?:\.([0-9]{1,2}))?)?")
_OPTION: Final = re.compile(r"-([bBdEiIOPqsSuvx]*)(?:([WXcm])(.*))?", re.DOTALL)
_ENDS: Final[dict[str, Kind]] = {"c": "code", "m": "module"}
# What starts another program, with its own words before that program's.
_LAUNCHERS: Final = frozenset(("env", "nice", "nohup", "stdbuf", "time", "timeout"))
_LAUNCHER_WORD: Final = re.compile(r"-.*|[A-Za-z_][A-Za-z0-9_]*=.*|[0-9.]+[smhd]?", re.DOTALL)


class PythonLine(NamedTuple):
    """What Python runs. `at` is the index of the word that names it: of the interpreter, for `input`."""

    kind: Kind
    text: str
    """The file's path, the module's name, or the code."""
    at: int
    isolated: bool
    """Whether neither the script's folder nor the current one is searched for modules (-I, -P)."""
    minor: int | None
    """The version that the program's name asks for, as in ``python3.12``."""


def python_line(argv: Sequence[str]) -> PythonLine | None:
    """What Python would run; None if the line does not start Python, or not to run anything."""
    start = _program(argv)
    match = _PYTHON.fullmatch(argv[start].rpartition("/")[2]) if start < len(argv) else None
    if match is None:
        return None
    minor = int(match[1]) if match[1] else None
    isolated = False
    index = start + 1
    while index < len(argv):
        word = argv[index]
        if word == "-":
            break
        if not word.startswith("-"):
            return PythonLine("file", word, index, isolated, minor)
        option = _OPTION.fullmatch(word)
        if option is None:
            return None
        flags, letter, value = option.groups()
        isolated = isolated or not {"I", "P"}.isdisjoint(flags)
        # The value of a letter that takes one is the rest of its word, or the next word.
        index += 1 if value or not letter else 2
        if letter in _ENDS:
            at = index - 1
            return PythonLine(_ENDS[letter], value or argv[at], at, isolated, minor) if at < len(argv) else None
    return PythonLine("input", "", start, isolated, minor)


def _program(argv: Sequence[str]) -> int:
    """The index of the program that runs, behind launchers such as `timeout 5`."""
    at = 0
    while at < len(argv) and argv[at].rpartition("/")[2] in _LAUNCHERS:
        at += 1
        while at < len(argv) and _LAUNCHER_WORD.fullmatch(argv[at]):
            at += 1
    return at
