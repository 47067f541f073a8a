"""Read the one line of a Command section and refuse what the request format itself forbids.

Invariant: `argv` is set exactly if no problem is an error, and it is what runs, without a shell. What a
program, its options or its inline code would start is not guessed: a line that does not show all of its code
is opaque (exposure.py), and any word in it that is the name of a refused program is refused like the program
itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from threegate.core.secretscan.scan import mask_secrets
from threegate.request.command.data_tools import TOOLS, tool_of, why_opaque
from threegate.request.command.inline_code import INTERPRETERS, code_words
from threegate.request.command.paths import WINDOWS, installs, names_installer, path_like, place_in_argument
from threegate.request.command.pinned_script import script_word
from threegate.request.command.programs import (
    INSTALLING,
    INSTALLING_WORDS,
    base_name,
    names,
    names_shell,
    refusal,
    spellings,
    started,
)
from threegate.request.command.words import MARK, Word, quoted_words, split_words
from threegate.request.problem import Problem

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
# The words are not all of the line.
_CUT_SHORT: Final = "TG322"
_PATH_RULES: Final = {
    "host-path": ("TG317", "is a path of the host; only /in, /out and /tmp are there"),
    "device": ("TG318", "is a device of the host; only /dev/null is there"),
    "parent-segment": ("TG319", "leads out of a folder; write the whole path under /in, /out or /tmp"),
}


class ReadCommand(NamedTuple):
    """What was read. `argv` is None when an error was found; `problems` are in order of place."""

    argv: tuple[str, ...] | None
    problems: tuple[Problem, ...]
    unusual_program: bool = False
    """The program is outside `programs` or below /in: the effective risk is high."""


def read_command(text: str, *, programs: Collection[str]) -> ReadCommand:
    """Read the line of a Command section. `programs` are the usual ones (settings). Never raises; linear time.

    Places are columns of `text`, which is one line.
    """
    return _read(*split_words(text), programs)


def read_argv(argv: Sequence[str], *, programs: Collection[str]) -> ReadCommand:
    """What `read_command` says of the line that `shlex.join` makes of an argv."""
    return _read(*quoted_words(argv), programs)


def _read(words: tuple[Word, ...], problems: tuple[Problem, ...], programs: Collection[str]) -> ReadCommand:
    if not words or not words[0].value:
        missing = Problem("TG301", 1, 1, "there is no command; write one line, program and words")
        return ReadCommand(None, (*problems, missing))
    found = {problem.rule: problem for problem in problems}
    if _CUT_SHORT in found:
        return ReadCommand(None, problems)
    values = tuple(word.value for word in words)
    line = " ".join(values)
    may_name_paths = path_like(line) or MARK.search(line) or any(word.windows for word in words)
    for rule, word, message in (
        *_program(words[0], programs),
        *_started(words, values, line),
        *(_arguments(words, values) if may_name_paths else ()),
    ):
        if rule not in found:
            found[rule] = Problem(rule, 1, word.column, mask_secrets(message))
    ordered = tuple(sorted(found.values(), key=lambda problem: (problem.column, problem.rule)))
    return ReadCommand(values if found.keys() <= WARNINGS else None, ordered, "TG330" in found)


def starts_refused(text: str) -> bool:
    """Whether a command line starts what nothing may start (TG312 to TG316)."""
    words, problems = split_words(text)
    if not words or not words[0].value or any(problem.rule == _CUT_SHORT for problem in problems):
        return False
    values = tuple(word.value for word in words)
    return refusal(values[0]) is not None or bool(_started(words, values, " ".join(values)))


# A rule, the offending word, the message.
_Found = tuple[str, Word, str]


def _program(word: Word, programs: Collection[str]) -> tuple[()] | tuple[_Found]:
    """The rules for the program's name."""
    value = word.value
    if (rule := refusal(value)) is not None:
        return ((rule, word, f"{base_name(value)[:40]} {_KINDS[rule]}"),)
    if "=" in value and not word.quoted_start and _ASSIGNMENT.match(value):
        return (("TG308", word, "a variable is set before the program, which needs a shell; leave it out"),)
    if not _PROGRAM.fullmatch(value) or ("/." in value and _DOTS.search(value)):
        return (("TG311", word, "the program is neither a bare name nor under /usr, /opt or /in"),)
    if value.startswith("/in/") or not _usual(value, programs):
        message = f"{base_name(value)[:40]} is not one of the usual programs: the risk counts as high"
        return (("TG330", word, message),)
    return ()


def _usual(program: str, programs: Collection[str]) -> bool:
    """Whether the settings name the program, with or without its version."""
    name = program.rsplit("/", 1)[-1]
    return name in programs or any(other in programs for other in spellings(program) if other != name)


def _started(words: Sequence[Word], values: Sequence[str], line: str) -> list[_Found]:
    """Refused programs among the words of an opaque line: any word may be what a launcher starts."""
    script = script_word(values)
    if script is not None:
        at = values.index(script)
        if names_installer(script) or installs(" ".join(values[: at + 2])):
            return [("TG315", words[at], f"{base_name(script)[:24]} {_KINDS['TG315']}")]
        return []
    if tool_of(values[0]) is not None and not why_opaque(values):
        return []
    found: list[_Found] = []
    for word in words[1:]:
        value = word.value
        if (rule := started(value)) is not None:
            found.append((rule, word, f"{base_name(value)[:40]} {_KINDS[rule]}"))
        elif names_shell(value):
            message = "an argument is a command line for a shell; name the program itself"
            found.append(("TG312", word, message))
        elif names_installer(value):
            found.append(("TG315", word, f"an argument {_KINDS['TG315']}"))
    if not INSTALLING_WORDS.isdisjoint(map(str.lower, values)):
        following: set[str] = set()
        for word in reversed(words):
            for name in spellings(word.value):
                if name in INSTALLING and not INSTALLING[name].isdisjoint(following):
                    found.append(("TG315", word, f"{name} {_KINDS['TG315']}"))
            following.add(word.value.lower())
    if installs(line):
        found.append(("TG315", words[0], f"the command {_KINDS['TG315']}"))
    return found


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
        if found is None and word.windows and look is None:
            found = WINDOWS
        if found is not None:
            rule, why = _PATH_RULES[found.rule]
            shift = 0 if word.quoted_start else found.place
            yield rule, Word("", word.column + shift), f"{found.shown} {why}"


def _takes_text(program: str) -> bool:
    """Whether the words after a program may be code, patterns or formats."""
    return not _TEXT_PROGRAMS.isdisjoint(spellings(program))
