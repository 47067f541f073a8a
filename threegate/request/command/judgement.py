"""Judges the words of a command: what they would start, and what they may not say.

Invariant: a program is refused as the first word or wherever a launcher, an option or inline code starts it.
What a launcher starts is found by reading its options; where that cannot be said the command is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from threegate.request.command.installs import installs
from threegate.request.command.interpreters import Roles, language_of, quotes_are_text, read_roles
from threegate.request.command.launchers import launcher_name, read_launch
from threegate.request.command.paths import HostPath, place_in_argument, place_in_code, place_in_pattern
from threegate.request.command.programs import INSTALLING, base_name, names, refusal, spellings
from threegate.request.command.python_code import INSTALLER_MODULES, NotPython, TooMuch, acts, parse
from threegate.request.command.scripts import hands_to_shell, installs_by_library
from threegate.request.command.subprograms import Subprogram, find_subprograms
from threegate.request.command.words import Word, split_words
from threegate.request.problem import Problem
from threegate.secretscan import mask_secrets

_DEPTH: Final = 8
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+.-]*|/(?:usr|opt|in)(?:/[A-Za-z0-9_+.@-]+)+")
_SLASH_IS_TEXT: Final = names("tr cut paste sort join awk gawk mawk echo printf expr column seq")
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


_STARTED_RULES: Final = ("TG312", "TG313", "TG314", "TG315", "TG316", "TG320", "TG321")
"""What counts against a program that code or an option starts."""
_FILTERS: Final = names("gzip bzip2 xz zstd lz4 lzop pigz pbzip2 pixz lbzip2 lzma compress brotli")
"""Programs that a compressing option may name."""
_PATTERNS: Final = frozenset(("awk", "sed", "grep", "perl", "jq"))
"""Languages in whose code /…/ is a pattern."""
_INSTALLER_SCRIPTS: Final = frozenset(
    ("get-pip.py", "ez_setup.py", "npm-cli.js", "npx-cli.js", "yarn.js", "pnpm.cjs", "get-poetry.py")
)
_PYTHON_SHELL: Final = re.compile(
    r"\bos\s{0,9}\.\s{0,9}(?:system|popen)\b|\bshell\s{0,9}=|\bgetoutput\b|\bpty\b"
)


class CommandJudgement:
    """One command being judged; keeps the first problem of each rule."""

    def __init__(
        self, words: tuple[Word, ...], problems: tuple[Problem, ...], programs: Collection[str]
    ) -> None:
        self.words = words
        self.values = [word.value for word in words]
        self.problems = {problem.rule: problem for problem in problems}
        self.programs = programs
        self.unusual = False

    def tell(self, rule: str, word: int, message: str, offset: int = 0) -> None:
        column = self.words[min(word, len(self.words) - 1)].column + offset
        self.problems.setdefault(rule, Problem(rule, 1, column, mask_secrets(message)))

    def program(self, start: int, end: int, depth: int) -> None:
        """Judge the program at word `start` and what it starts; its words end before `end`."""
        value = self.values[start]
        if depth > _DEPTH:
            self.tell("TG320", start, "too many launchers start one another; name the program itself")
            return
        self._name(start, value)
        own = set(range(start + 1, end))
        launcher = launcher_name(value)
        if launcher is not None:
            own -= self._launched(launcher, start, end, depth)
        self._installing(start, end)
        self._subprograms(start, end, depth)
        self._own_words(value, start, end, own, depth)

    def _name(self, start: int, value: str) -> None:
        """The rules for a program's name."""
        word = self.words[start]
        if (rule := refusal(value)) is not None:
            self.tell(rule, start, f"{base_name(value)[:40]} {_KINDS[rule]}")
        elif start == 0 and not word.quoted_start and _ASSIGNMENT.match(value):
            self.tell(
                "TG308", start, "a variable is set before the program, which needs a shell; leave it out"
            )
        elif (
            not _PROGRAM.fullmatch(value)
            or "/../" in value
            or "/./" in value
            or value.endswith(("/..", "/."))
        ):
            self.tell("TG311", start, "the program is no bare name and not under /usr, /opt or /in")
        elif value.startswith("/in/") or not self._usual(value):
            self.unusual = True
            self.tell(
                "TG330",
                start,
                f"{base_name(value)[:40]} is not one of the usual programs: the risk counts as high",
            )

    def _usual(self, value: str) -> bool:
        """Whether the settings name the program, with or without its version."""
        return any(name in self.programs for name in (value.rsplit("/", 1)[-1], *spellings(value)))

    def _launched(self, launcher: str, start: int, end: int, depth: int) -> set[int]:
        """Judge what a launcher starts; gives the words that belong to the started programs."""
        launch = read_launch(launcher, self.values, start, end)
        if launch.unread:
            self.tell("TG320", launch.unread_word, f"{launch.unread}; name the program itself")
        if launch.shell_word is not None:
            self.tell(
                "TG312", launch.shell_word, f"{launcher} hands this to a shell; name the program itself"
            )
        if launch.line:
            self._line(launch.line, launch.line_word)
        taken: set[int] = set()
        for started in launch.started:
            if not launch.line:
                self.program(started.start, started.end, depth + 1)
                taken.update(range(started.start, started.end))
        if not launch.started and not launch.line and depth and launcher != "find":
            self.tell(
                "TG320", start, f"{launcher} does not say which program it starts; name the program itself"
            )
        return taken

    def _line(self, line: str, word: int) -> None:
        """A command line inside one word: told with what it would start, as far as it can be read."""
        words, problems = split_words(line)
        if words and not problems:
            self._started([item.value for item in words], word, "the line")
        self.tell("TG320", word, "a command line inside an argument; write its words out")

    def _started(self, words: Sequence[str], at: int, what: str, depth: int = 0) -> None:
        """Judge a program that something other than the command line itself starts, by its words."""
        if not words or not words[0]:
            return
        inner = CommandJudgement(tuple(Word(word, 1) for word in words), (), self.programs)
        inner.program(0, len(words), depth + 1)
        for rule in _STARTED_RULES:
            if (problem := inner.problems.get(rule)) is not None:
                self.tell(rule, at, f"{what}: {problem.message}")

    def _subprograms(self, start: int, end: int, depth: int) -> None:
        """Options that start other programs."""
        for sub in find_subprograms(self.values, start, end):
            if sub.kind == "shell":
                self.tell("TG312", sub.word, f"{sub.name[:24]} hands its value to a shell; leave it out")
            elif sub.kind == "setting":
                self.tell("TG321", sub.word, f"{sub.name[:24]} can start another program; leave it out")
            else:
                self._command_option(sub, depth)

    def _command_option(self, sub: Subprogram, depth: int) -> None:
        words, problems = split_words(sub.line)
        if problems or not words:
            self.tell("TG321", sub.word, f"{sub.name[:24]} starts a program that is not named plainly")
            return
        values = [word.value for word in words]
        self._started(values, sub.word, sub.name[:24], depth)
        if base_name(values[0]) not in _FILTERS:
            self.tell("TG321", sub.word, f"{sub.name[:24]} starts another program; leave it out")

    def _installing(self, start: int, end: int) -> None:
        """Programs of which only some words install."""
        for name in spellings(self.values[start]):
            for word in range(start + 1, end):
                if self.values[word].lower() in INSTALLING.get(name, ()):
                    self.tell("TG315", word, f"{name} {self.values[word][:20]} {_KINDS['TG315']}")
                    return

    def _own_words(self, program: str, start: int, end: int, own: set[int], depth: int) -> None:
        """Paths, shell characters and code in the words of one program."""
        language = language_of(program)
        code: frozenset[int] = frozenset()
        if language is not None:
            roles = read_roles(language, self.values, start, end)
            self._interpreted(roles, end, depth)
            code = frozenset(index for index, _ in roles.code)
        text_in_quotes = quotes_are_text(program)
        slash = base_name(program) in _SLASH_IS_TEXT
        for index in sorted(own):
            word = self.words[index]
            if word.quoted_mark and not text_in_quotes:
                self.tell(
                    "TG310",
                    index,
                    f"{word.quoted_mark} in quotes is text only for interpreters; pass it in a file",
                )
            if index in code:
                found = place_in_pattern(word.value) if language in _PATTERNS else place_in_code(word.value)
            else:
                found = place_in_argument(word.value, slash_is_text=slash)
            if found is not None:
                self._path(index, found)

    def _interpreted(self, roles: Roles, end: int, depth: int) -> None:
        """Modules, scripts and inline code of an interpreter."""
        for index, text in (*roles.code, *roles.modules):
            if depth and (index >= end or text == "{}"):
                self.tell(
                    "TG320",
                    min(index, end - 1),
                    "a launcher gives this program its code; write the code itself",
                )
        for index, module in roles.modules:
            if module.split(".")[0].split("/")[0].lower() in INSTALLER_MODULES or module == "CPAN":
                self.tell("TG315", index, f"the module {module[:20]} {_KINDS['TG315']}")
        if roles.script is not None:
            self._script(roles.script, end)
        if roles.language == "grep":
            return
        for index, code in roles.code:
            if roles.language == "python":
                self._python(index, code, depth)
            elif hands_to_shell(roles.language, code):
                self.tell(
                    "TG312",
                    index,
                    f"the {roles.language} code hands a command to a shell; let it work itself",
                )
            if installs(code) or installs_by_library(roles.language, code):
                self.tell("TG315", index, f"the code {_KINDS['TG315']}")

    def _script(self, index: int, end: int) -> None:
        """A script that is an installer under another name."""
        name = base_name(self.values[index])
        rule = refusal(name.removesuffix(".pyz"))
        if rule == "TG315" or name in _INSTALLER_SCRIPTS:
            self.tell("TG315", index, f"{name[:24]} {_KINDS['TG315']}")
        elif name == "setup.py" and any(
            word in ("install", "develop") for word in self.values[index + 1 : end]
        ):
            self.tell("TG315", index, f"setup.py install {_KINDS['TG315']}")

    def _python(self, index: int, code: str, depth: int) -> None:
        """Code of ``python -c``."""
        try:
            nodes = parse(code)
        except TooMuch:
            self.tell(
                "TG322", index, "the code is too long or too deeply nested to be read; send it as a script"
            )
            return
        except NotPython:
            if _PYTHON_SHELL.search(code):
                self.tell(
                    "TG312", index, "the code is not to be read as Python and names what starts a shell"
                )
            return
        for act in acts(nodes):
            if act.deed == "shell":
                self.tell(
                    "TG312",
                    index,
                    f"the code hands a command to a shell ({act.what[:40]}); let it work itself",
                )
            elif act.deed == "install":
                self.tell("TG315", index, f"the code uses {act.what[:20]}, which {_KINDS['TG315']}")
            else:
                self._started(act.words, index, act.what, depth)

    def _path(self, index: int, found: HostPath) -> None:
        rule, why = _PATH_RULES[found.rule]
        self.tell(
            rule, index, f"{found.shown} {why}", found.place if not self.words[index].quoted_start else 0
        )
