"""Programs whose words hold code, patterns or modules: which word is what.

Knowing the role of a word decides two things: whether shell characters in its quotes are text (docs/spec/1-tool-request.md names the
programs), and whether its slashes may be a pattern's. Options are read until the first operand, as the
programs themselves do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from threegate.request.command.programs import spellings

_LANGUAGES: Final = {
    "python": "python",
    "pypy": "python",
    "ipython": "python",
    "micropython": "python",
    "graalpy": "python",
    "jython": "python",
    "node": "node",
    "nodejs": "node",
    "perl": "perl",
    "ruby": "ruby",
    "rscript": "r",
    "r": "r",
    "php": "php",
    "lua": "lua",
    "luajit": "lua",
    "awk": "awk",
    "gawk": "awk",
    "mawk": "awk",
    "nawk": "awk",
    "original-awk": "awk",
    "sed": "sed",
    "gsed": "sed",
    "jq": "jq",
    "grep": "grep",
    "egrep": "grep",
    "fgrep": "grep",
    "zgrep": "grep",
}
_TEXT_IN_QUOTES: Final = frozenset(
    {
        "python",
        "node",
        "nodejs",
        "perl",
        "ruby",
        "rscript",
        "php",
        "lua",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "sed",
        "jq",
    }
)


@dataclass(slots=True)
class Roles:
    """What the words of an interpreter are, by word number."""

    language: str
    code: list[tuple[int, str]] = field(default_factory=list)
    """Words with inline code, and the code itself (a part of the word when an option is attached)."""
    modules: list[tuple[int, str]] = field(default_factory=list)
    script: int | None = None
    """The script file, or a program that the interpreter looks up (``ruby -S``)."""


def language_of(program: str) -> str | None:
    """The language whose words a program takes, or None."""
    return next((_LANGUAGES[name] for name in spellings(program) if name in _LANGUAGES), None)


def quotes_are_text(program: str) -> bool:
    """Whether shell characters inside quotes are text for this program (docs/spec/1-tool-request.md, Command)."""
    return any(name in _TEXT_IN_QUOTES for name in spellings(program))


def read_roles(language: str, words: Sequence[str], start: int, end: int) -> Roles:
    """The roles of ``words[start+1:end]`` of an interpreter of `language`."""
    roles = Roles(language)
    if language == "python":
        _python(roles, words, start, end)
    else:
        _general(roles, words, start, end)
    return roles


def _python(roles: Roles, words: Sequence[str], start: int, end: int) -> None:
    """CPython's own options: -c and -m end them, wherever they stand in a cluster."""
    index = start + 1
    while index < end:
        word = words[index]
        if word == "--":
            index += 1
            break
        if word == "-" or not word.startswith("-"):
            break
        if word.startswith("--"):
            index += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for place, letter in enumerate(word[1:], start=2):
            if letter in "cmWX":
                value, at = (
                    (word[place:], index)
                    if word[place:]
                    else (words[index + 1] if index + 1 < end else "", index + 1)
                )
                if letter == "c":
                    roles.code.append((at, value))
                    return
                if letter == "m":
                    roles.modules.append((at, value))
                    _modules_run_by_modules(roles, words, at, end)
                    return
                index = at
                break
        index += 1
    roles.script = index if index < end else None


def _modules_run_by_modules(roles: Roles, words: Sequence[str], at: int, end: int) -> None:
    """``-m runpy pip``, ``-m cProfile -m pip``, ``-m timeit CODE``: modules that run what follows."""
    outer = roles.modules[-1][1].split(".")[0]
    if outer == "timeit":
        roles.code += [
            (index, words[index]) for index in range(at + 1, end) if not words[index].startswith("-")
        ]
    if outer == "runpy" and at + 1 < end:
        roles.modules.append((at + 1, words[at + 1]))
    for index in range(at + 1, end):
        if words[index] == "-m" and index + 1 < end:
            roles.modules.append((index + 1, words[index + 1]))
        elif words[index].startswith("-m") and len(words[index]) > 2:
            roles.modules.append((index, words[index][2:]))


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a language's program reads its options."""

    code: str = ""
    long_code: tuple[str, ...] = ()
    values: str = ""
    """Short options that take the rest of their word or the next word."""
    attached: str = ""
    """Short options that take the rest of their word only."""
    modules: str = ""
    long_values: tuple[str, ...] = ()
    two_values: tuple[str, ...] = ()
    files: str = ""
    """Options that name a file with the code, so that no operand is code."""
    long_files: tuple[str, ...] = ()
    operand_is_code: bool = False
    lookup: str = ""
    """An option that makes the script a program looked up in PATH."""


_SHAPES: Final = {
    "perl": _Shape(code="eE", values="I", attached="iMmFxDVC0l", modules="Mm", lookup="S"),
    "ruby": _Shape(code="e", values="ICEr", attached="iFxWKT0", modules="r", lookup="S"),
    "node": _Shape(
        code="ep",
        long_code=("--eval", "--print"),
        values="rC",
        modules="r",
        long_values=("--require", "--import", "--loader", "--input-type", "--conditions"),
    ),
    "php": _Shape(
        code="rBRE",
        long_code=("--run", "--process-begin", "--process-code", "--process-end"),
        values="cdzfFtS",
    ),
    "lua": _Shape(code="e", values="l", modules="l"),
    "r": _Shape(code="e", values="fg", long_values=("--file", "--args")),
    "awk": _Shape(
        code="e",
        long_code=("--source",),
        values="Fvfil",
        long_values=("--field-separator", "--assign", "--file", "--include", "--load", "--exec"),
        files="fE",
        long_files=("--file", "--exec"),
        operand_is_code=True,
    ),
    "sed": _Shape(
        code="e",
        long_code=("--expression",),
        values="fl",
        attached="i",
        long_values=("--file", "--line-length"),
        files="f",
        long_files=("--file",),
        operand_is_code=True,
    ),
    "jq": _Shape(
        values="Lf",
        long_values=("--indent", "--from-file", "--library-path"),
        two_values=("--arg", "--argjson", "--slurpfile", "--rawfile", "--argfile"),
        files="f",
        long_files=("--from-file",),
        operand_is_code=True,
    ),
    "grep": _Shape(
        code="e",
        long_code=("--regexp",),
        values="fABCmdD",
        long_values=("--file", "--after-context", "--before-context", "--context", "--max-count", "--label"),
        files="f",
        long_files=("--file",),
        operand_is_code=True,
    ),
}


def _named(name: str, options: tuple[str, ...]) -> bool:
    """Whether a long option is one of these, or the beginning of one as getopt_long takes it."""
    return name in options or (len(name) > 3 and any(option.startswith(name) for option in options))


def _general(roles: Roles, words: Sequence[str], start: int, end: int) -> None:
    """Options of the other languages, by their shape."""
    shape = _SHAPES[roles.language]
    no_operand = lookup = False
    permutes = roles.language in ("sed", "jq", "grep", "r")
    index = start + 1
    while index < end:
        word = words[index]
        if word == "--":
            index += 1
            break
        if not word.startswith("-") or word == "-":
            if not permutes:
                break
            if roles.script is None:
                roles.script = index
            index += 1
            continue
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if _named(name, shape.long_code):
                at, text = (
                    (index, value) if equals else (index + 1, words[index + 1] if index + 1 < end else "")
                )
                roles.code.append((at, text))
                no_operand = True
                index = at + 1
                continue
            no_operand = no_operand or _named(name, shape.long_files)
            index += (
                3 if name in shape.two_values else 2 if _named(name, shape.long_values) and not equals else 1
            )
            continue
        for place, letter in enumerate(word[1:], start=2):
            takes = letter in shape.code or letter in shape.values
            if letter == shape.lookup:
                lookup = True
            if takes or letter in shape.attached:
                following = word[place : place + 1]
                if letter == "p" and following == "e" and roles.language == "node":
                    continue
                if letter in "0l" and letter in shape.attached and following and not following.isdigit():
                    continue
                rest = word[place:]
                at, text = (
                    (index, rest)
                    if rest or not takes
                    else (index + 1, words[index + 1] if index + 1 < end else "")
                )
                if letter in shape.code:
                    roles.code.append((at, text))
                    no_operand = True
                elif letter in shape.modules:
                    roles.modules.append((at, text))
                no_operand = no_operand or letter in shape.files
                index = at
                break
        index += 1
    if roles.script is None and index < end:
        roles.script = index
    if roles.script is not None and shape.operand_is_code:
        if not no_operand:
            roles.code.append((roles.script, words[roles.script]))
        roles.script = None
    elif no_operand and not lookup:
        roles.script = None
