"""Which words of an interpreter's command line are code or a pattern, so that a slash in them need not be a
path.

Invariant: this only decides how a word is searched for host paths (paths.py); it never makes a line
transparent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.request.command.paths import HostPath, place_in_code, place_in_pattern
from threegate.request.command.programs import names, spellings

Look = Callable[[str], HostPath | None]


@dataclass(frozen=True, slots=True)
class _Language:
    """Short options with code as their value, those with another value, long options with code."""

    code: str
    values: str = ""
    longs: frozenset[str] = frozenset()
    look: Look = place_in_code
    operand: bool = False
    """The first operand is the code where no option holds it."""


_AWK: Final = _Language("e", "Fvfil", names("--source"), place_in_pattern, operand=True)
_GREP: Final = _Language("e", "fABCmdD", names("--regexp"), place_in_pattern, operand=True)
_LANGUAGES: Final = {
    **dict.fromkeys(("python", "pypy", "ipython"), _Language("c", "mWX")),
    **dict.fromkeys(("node", "nodejs"), _Language("ep", "rC", names("--eval --print"))),
    "perl": _Language("eE", "I", look=place_in_pattern),
    "ruby": _Language("e", "ICEr"),
    "rscript": _Language("e"),
    "r": _Language("e", "fg"),
    "php": _Language("rBRE", "cdzfFtS"),
    "lua": _Language("e", "l"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "sed": _Language("e", "fl", names("--expression"), place_in_pattern, operand=True),
    "jq": _Language("", "Lf", look=place_in_pattern, operand=True),
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
}
INTERPRETERS: Final = names(
    "python pypy ipython node nodejs perl ruby rscript php lua awk gawk mawk nawk sed jq sqlite"
)
"""The words of these may be code of their language: quoted shell characters are text for them (TG310)."""


def code_words(words: Sequence[str], start: int) -> dict[int, Look]:
    """The numbers of the words that are code or a pattern of the program at `start`, and how each is looked through."""
    program = "".join(words[start : start + 1])
    language = next((_LANGUAGES[name] for name in spellings(program) if name in _LANGUAGES), None)
    if language is None:
        return {}
    found: dict[int, Look] = {}
    expected = ""
    wanted = language.operand
    for index, word in enumerate(words[start + 1 :], start=start + 1):
        if expected:
            if expected == "code":
                found[index] = language.look
            expected = ""
        elif word.startswith("--"):
            name, equals, _ = word.partition("=")
            if name in language.longs:
                wanted = False
                if equals:
                    found[index] = language.look
                else:
                    expected = "code"
        elif word.startswith("-") and len(word) > 1:
            letter = word[-1] if word[1:].isalpha() else word[1]
            if letter in language.code:
                wanted = False
                if word[-1] == letter:
                    expected = "code"
                else:
                    found[index] = language.look
            elif letter in language.values and word[-1] == letter:
                wanted = wanted and letter != "f"
                expected = "value"
        elif wanted:
            found[index] = language.look
            wanted = False
    return found
