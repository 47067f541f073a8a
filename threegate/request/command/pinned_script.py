"""Command lines that run one script file: ``python3 /in/a.py …``, ``awk -f /in/a.awk …``.

Invariant: a word is the script only if all of the interpreter's options neither load nor run other code;
inline programs (``-c``, ``-e``), modules (``-m``) and standard input do not count. A closed table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """How an interpreter is given a script file."""

    suffixes: tuple[str, ...]
    options: re.Pattern[str] = re.compile(r"(?!)")
    """Words before the script that change nothing about which code runs."""
    by_option: bool = False
    """The script follows ``-f``; the words after it are read by the interpreter, so none may begin with a dash."""


_AWK: Final = _Interpreter((".awk",), by_option=True)
_INTERPRETERS: Final = {
    "python": _Interpreter((".py",), re.compile(r"-[uBIEsSqbO]+|-W(?:error|ignore|default|always|once)|-Xutf8|-Xdev")),
    "node": _Interpreter((".js", ".mjs", ".cjs")),
    "perl": _Interpreter((".pl",)),
    "ruby": _Interpreter((".rb",)),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "sed": _Interpreter((".sed",), re.compile(r"-[nEs]+"), by_option=True),
    "jq": _Interpreter((".jq",), by_option=True),
}
_PROGRAM: Final = re.compile(r"(?:/usr/(?:local/)?bin/)?(?:(python)(?:3(?:\.[0-9]{1,2})?)?|([a-z]+))")
_TWO_WORDS: Final = ("-W", "-X")


def script_word(argv: Sequence[str]) -> str | None:
    """The word that names the only code which the command line runs, a script file; None for any other line."""
    program = _PROGRAM.fullmatch(argv[0])
    interpreter = _INTERPRETERS.get(program[1] or program[2]) if program else None
    if interpreter is None:
        return None
    words = list(argv[1:])
    while words:
        taken = 2 if words[0] in _TWO_WORDS else 1
        if not interpreter.options.fullmatch("".join(words[:taken])):
            break
        del words[:taken]
    if interpreter.by_option:
        if words[:1] != ["-f"] or any(word.startswith("-") for word in words[1:]):
            return None
        del words[0]
    return words[0] if words and words[0].endswith(interpreter.suffixes) and words[0][0] != "-" else None
