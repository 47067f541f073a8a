"""Read the one line of a Command section and refuse what the request format itself forbids.

Invariant: `argv` is set exactly if no problem is an error, and it is what runs, without a shell. What a
program, its options or its inline code would start is not guessed: a line that does not show all of its code
is opaque (exposure.py), and any word in it that is the name of a refused program is refused like the program
itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from threegate.request.command.data_tools import TOOLS, why_opaque
from threegate.request.command.inline_code import INTERPRETERS, code_words
from threegate.request.command.installs import installs, names_installer
from threegate.request.command.paths import place_in_argument
from threegate.request.command.pinned_script import script_word
from threegate.request.command.programs import (
    INSTALLING,
    base_name,
    names,
    names_shell,
    refusal,
    spellings,
    started,
)
from threegate.request.command.words import Word, split_words
from threegate.request.problem import Problem
from threegate.secretscan import mask_secrets

WARNINGS: Final = frozenset(("TG330", "TG331"))
"""Rules of a command that warn and refuse nothing."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+.-]*|/(?:usr|opt|in)(?:/[A-Za-z0-9_+.@-]+)+")
_DOTS: Final = re.compile(r"/\.\.?(?:/|\Z)")
_SLASH_IS_TEXT: Final = names("tr cut paste sort join awk gawk mawk echo printf expr column seq")
_TEXT_PROGRAMS: Final = INTERPRETERS | {name for name, tool in TOOLS.items() if tool.text}
_KINDS: Final = {
    "TG312": "is a shell or starts one; name the program itself",
    "TG313": "changes rights, users or the system; a request runs without any",
    "TG314": "starts containers or virtual machines; the request runs inside one already",
    "TG315": "installs software; use what the sandbox has and send files as inputs",
    "TG316": "mounts or touches devices; none are there",
}
_PATH_RULES: Final = {
    "host-path": ("TG317", "is a path of the host; only /in, /out and /tmp are there"),
    "device": ("TG318", "is a device of the host; only /dev/null is there"),
    "parent-segment": ("TG319", "leads out of a folder; write the whole path under /in, /out or /tmp"),
}


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """What was read. `argv` is None when an error was found; `problems` are in order of place."""

    argv: tuple[str, ...] | None
    problems: tuple[Problem, ...]
    unusual_program: bool = False
    """The program is outside `programs` or below /in: the effective risk is high."""


def read_command(text: str, *, programs: Collection[str]) -> ReadCommand:
    """Read the line of a Command section. `programs` are the usual ones (settings). Never raises; linear time.

    Places are columns of `text`, which is one line.
    """
    words, problems = split_words(text)
    if not words or not words[0].value:
        missing = Problem("TG301", 1, 1, "there is no command; write one line, program and words")
        return ReadCommand(None, (*problems, missing))
    if any(problem.rule == "TG322" for problem in problems):
        return ReadCommand(None, problems)
    found = {problem.rule: problem for problem in problems}
    for rule, word, message in _judge(words, programs):
        found.setdefault(rule, Problem(rule, 1, word.column, mask_secrets(message)))
    ordered = tuple(sorted(found.values(), key=lambda problem: (problem.column, problem.rule)))
    refused = any(problem.rule not in WARNINGS for problem in ordered)
    argv = None if refused else tuple(word.value for word in words)
    return ReadCommand(argv, ordered, "TG330" in found)


_Found = tuple[str, Word, str]
"""A rule, the offending word, the message."""


def _judge(words: Sequence[Word], programs: Collection[str]) -> Iterator[_Found]:
    values = [word.value for word in words]
    yield from _program(words[0], programs)
    script = script_word(values)
    if script is not None:
        at = values.index(script)
        if names_installer(script) or installs(" ".join(values[: at + 2])):
            yield "TG315", words[at], f"{base_name(script)[:24]} {_KINDS['TG315']}"
    elif why_opaque(values):
        yield from _started(words, values)
    yield from _arguments(words, values)


def _program(word: Word, programs: Collection[str]) -> Iterator[_Found]:
    """The rules for the program's name."""
    value = word.value
    if (rule := refusal(value)) is not None:
        yield rule, word, f"{base_name(value)[:40]} {_KINDS[rule]}"
    elif not word.quoted_start and _ASSIGNMENT.match(value):
        yield "TG308", word, "a variable is set before the program, which needs a shell; leave it out"
    elif not _PROGRAM.fullmatch(value) or _DOTS.search(value):
        yield "TG311", word, "the program is no bare name and not under /usr, /opt or /in"
    elif value.startswith("/in/") or not _usual(value, programs):
        yield (
            "TG330",
            word,
            f"{base_name(value)[:40]} is not one of the usual programs: the risk counts as high",
        )


def _usual(program: str, programs: Collection[str]) -> bool:
    """Whether the settings name the program, with or without its version."""
    return any(name in programs for name in (program.rsplit("/", 1)[-1], *spellings(program)))


def _started(words: Sequence[Word], values: Sequence[str]) -> Iterator[_Found]:
    """Refused programs among the words of an opaque line: any word may be what a launcher starts."""
    for word in words[1:]:
        if (rule := started(word.value)) is not None:
            yield rule, word, f"{base_name(word.value)[:40]} {_KINDS[rule]}"
        elif names_shell(word.value):
            yield "TG312", word, "an argument is a command line for a shell; name the program itself"
        elif names_installer(word.value):
            yield "TG315", word, f"an argument {_KINDS['TG315']}"
    following: set[str] = set()
    for word in reversed(words):
        for name in spellings(word.value):
            if name in INSTALLING and not INSTALLING[name].isdisjoint(following):
                yield "TG315", word, f"{name} {_KINDS['TG315']}"
        following.add(word.value.lower())
    if installs(" ".join(values)):
        yield "TG315", words[0], f"the command {_KINDS['TG315']}"


def _arguments(words: Sequence[Word], values: Sequence[str]) -> Iterator[_Found]:
    """Paths and quoted shell characters of the words after the program."""
    at = next((index for index, value in enumerate(values) if _takes_text(value)), len(values))
    code = code_words(values, at)
    slash = base_name(values[0]) in _SLASH_IS_TEXT
    for index, word in enumerate(words[1:], start=1):
        if word.quoted_mark and index <= at:
            yield (
                "TG310",
                word,
                f"{word.quoted_mark} in quotes is text only for interpreters and text tools; pass it in a file",
            )
        look = code.get(index)
        found = look(word.value) if look else place_in_argument(word.value, slash_is_text=slash)
        if found is not None:
            rule, why = _PATH_RULES[found.rule]
            shift = 0 if word.quoted_start else found.place
            yield rule, Word("", word.column + shift), f"{found.shown} {why}"


def _takes_text(program: str) -> bool:
    """Whether the words after a program may be code, patterns or formats."""
    return not _TEXT_PROGRAMS.isdisjoint(spellings(program))
