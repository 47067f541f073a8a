"""Split a command line into words by POSIX shell quoting, and report everything a shell would act on.

Invariant: if no problem is found, the words are what a POSIX shell would pass to the program, except that
plain ``$NAME`` stays unchanged (reported as a warning), because no shell ever sees the line. One pass, linear
time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.request.problem import Problem

MARKS: Final = ";&|<>()"
"""Characters that a shell acts on; in quotes they are text."""
MARK: Final = re.compile(f"[{MARKS}]")

_EASY: Final = re.compile(r"[A-Za-z0-9_./:=,@%+^ -]*")
_EASY_WORD: Final = re.compile(r"[^ ]+")
_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t]+)|(?P<plain>[^ \t'"\\;&|<>()`$*?\[\]{}~\#]+)|'(?P<single>[^']*+)'"""
    r"""|"(?P<double>(?>(?:[^"\\]++|\\.)*))"|\\(?P<escape>.)|(?P<other>.)""",
    re.DOTALL,
)
_LINE_END: Final = re.compile(r"[\n\r\0]")
_DOUBLE_ESCAPE: Final = re.compile(r'\\([$`"\\])')
_VARIABLE: Final = re.compile(r"\$[A-Za-z_0-9@#?!$]")
_SUBSTITUTION: Final = re.compile(r"`|\$[({]")
# Pieces (blanks, quoted parts, single marks) that are read: about what the longest honest line has.
_TOKENS: Final = 5 * limits.COMMAND_WORDS
_NEEDS_QUOTES: Final = re.compile(r"[^A-Za-z0-9_@%+=:,./-]")
_REFUSED_IN_QUOTES: Final = re.compile(r"[\n\r\0`]|\$[({]")
_SHARE: Final = re.compile(r"\\\\[\w.$-]+\\\w")
_QUOTED_SHARE: Final = re.compile(r"(?:^|[=,;@])" + _SHARE.pattern)
_DRIVE: Final = re.compile(r"(?:^|[=,;@])[A-Za-z]:\Z")
_CHAIN: Final = {";": "chains commands", "&": "runs or chains in the background", "|": "is a pipeline"}


class Word(NamedTuple):
    """One word. `column` (from 1) is where it begins; `quoted_mark` is a shell character in its quotes, or ''."""

    value: str
    column: int
    quoted_mark: str = ""
    quoted_start: bool = False
    """The word begins with a quote or a backslash: its first character is text in any case."""
    windows: bool = False
    r"""It is written ``C:\x`` or ``\\host\x``: a shell takes backslashes away, so `value` does not show it."""


class _Splitter:
    """The state of one pass: finished words, the word being read, and the first problem of each rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[Word] = []
        self.problems: dict[str, Problem] = {}
        self.parts: list[str] | None = None
        self.start = 0
        self.mark = ""
        self.quoted_start = self.windows = False
        self.bracket = self.brace = -1
        self.brace_list = False

    def tell(self, rule: str, index: int, message: str) -> None:
        self.problems.setdefault(rule, Problem(rule, 1, index + 1, message))

    def add(self, part: str, index: int, *, quoted: bool) -> None:
        if self.parts is None:
            self.parts, self.start, self.mark, self.quoted_start = [], index, "", quoted
            self.windows = False
            self.bracket = self.brace = -1
            self.brace_list = False
        self.parts.append(part)
        if quoted:
            if not self.mark and (found := MARK.search(part)):
                self.mark = found[0]
        elif self.brace >= 0 and ("," in part or ".." in part):
            self.brace_list = True

    def end_word(self) -> None:
        if self.parts is None:
            return
        value = "".join(self.parts)
        if found := _SUBSTITUTION.search(value):
            self.tell("TG306", self.start, f"{found[0]} is a substitution, in quotes too; write the value itself")
        self.words.append(Word(value, self.start + 1, self.mark, self.quoted_start, self.windows))
        self.parts = None

    def run(self) -> None:
        if (end := _LINE_END.search(self.text)) is not None:
            # in quotes too: what the reader of the line cannot see must not run
            self.tell("TG303", end.start(), "a line break or NUL, also in quotes; write one line")
            self.text = self.text[: end.start()]
        for count, match in enumerate(_TOKEN.finditer(self.text)):
            kind = match.lastgroup
            index = match.start()
            if len(self.words) >= limits.COMMAND_WORDS or count > _TOKENS:
                self.tell("TG322", index, f"more than {limits.COMMAND_WORDS} words; put them into a file")
                break
            if kind == "blank":
                self.end_word()
            elif kind == "plain":
                self.add(match[0], index, quoted=False)
            elif kind == "single":
                self.add(match["single"], index, quoted=True)
            elif kind == "double":
                inner = match["double"]
                if _VARIABLE.search(inner.replace("\\$", "")):
                    self._variable(index)
                self.add(_DOUBLE_ESCAPE.sub(r"\1", inner), index, quoted=True)
                self.windows = self.windows or _QUOTED_SHARE.search(inner) is not None
            elif kind == "escape":
                drive = match["escape"].isalnum() and self.parts is not None and _DRIVE.search(self.parts[-1])
                self.add(match["escape"], index, quoted=True)
                self.windows = self.windows or bool(drive) or _SHARE.match(self.text, index) is not None
            elif self.special(match[0], index):
                break
        self.end_word()

    def special(self, char: str, index: int) -> bool:
        """One unquoted character with a meaning. True ends the reading."""
        following = self.text[index + 1 : index + 2]
        if char in "'\"":
            self.tell("TG302", index, "a quote is opened and never closed; close it")
            return True
        if char == "\\":
            self.tell("TG303", index, "the command does not end on its line; write one line")
            return True
        if char in _CHAIN:
            self.tell("TG304", index, f"{char} {_CHAIN[char]}; write a single command")
        elif char in "<>":
            if following == "(":
                self.tell("TG306", index, "process substitution needs a shell; use files in /in and /out")
            self.tell("TG305", index, f"{char} redirects; let the program open its files in /in and /out")
        elif char == "`":
            self.tell("TG306", index, "a backtick substitutes a command's output; write the value itself")
        elif char == "$":
            if following and following in "({'\"":
                self.tell("TG306", index, f"${following} is a substitution; write the value itself")
            elif _VARIABLE.match(self.text, index):
                self._variable(index)
        elif char in "()":
            self.tell("TG309", index, f"{char} outside quotes starts a subshell; put the argument in quotes")
        else:
            self.pattern(char, index)
        if char in MARKS:
            self.end_word()
        else:
            self.add(char, index, quoted=False)
        return False

    def pattern(self, char: str, index: int) -> None:
        """Characters that a shell expands by place: globs, braces, tilde, comment."""
        begins = self.parts is None
        if char in "*?":
            self.tell("TG307", index, f"{char} is not expanded, there is no shell; name the files or quote it")
        elif char == "~" and begins:
            self.tell("TG307", index, "~ is a home folder; use a path under /in or /out")
        elif char == "#" and begins:
            self.tell("TG307", index, "# begins a comment in a shell; leave it out or quote it")
        elif char == "]" and not begins and self.bracket >= 0:
            self.tell("TG307", self.bracket, "[…] is not expanded, there is no shell; quote it")
        elif char == "}" and not begins and self.brace >= 0 and self.brace_list:
            self.tell("TG307", self.brace, "{…} is not expanded, there is no shell; write the words out")
        if begins:
            self.add("", index, quoted=False)
        if char == "[":
            self.bracket = index
        elif char == "{":
            self.brace, self.brace_list = index, False

    def _variable(self, index: int) -> None:
        self.tell(
            "TG331",
            index,
            "$NAME is not expanded, there is no shell; write the value, or single quotes if meant",
        )


def split_words(text: str) -> tuple[tuple[Word, ...], tuple[Problem, ...]]:
    """The words of a command line and the first problem of each rule. Never raises.

    The words are complete only when no problem among them is an error.
    """
    if _EASY.fullmatch(text) and text.count(" ") < limits.COMMAND_WORDS:
        return tuple([Word(match[0], match.start() + 1) for match in _EASY_WORD.finditer(text)]), ()
    splitter = _Splitter(text)
    splitter.run()
    return tuple(splitter.words), tuple(splitter.problems.values())


def quoted_words(argv: Sequence[str]) -> tuple[tuple[Word, ...], tuple[Problem, ...]]:
    """What `split_words(shlex.join(argv))` gives; nothing is quoted and split where no problem can be found."""
    whole = "".join(argv)
    bare = "" not in argv and not _NEEDS_QUOTES.search(whole)
    odd = not bare and (_REFUSED_IN_QUOTES.search(whole) or whole.count("'") > limits.COMMAND_WORDS)
    if odd or len(argv) > limits.COMMAND_WORDS:
        return split_words(shlex.join(argv))
    words: list[Word] = []
    column = 1
    for value in argv:
        if bare or (value and not _NEEDS_QUOTES.search(value)):
            words.append(Word(value, column))
            column += len(value) + 1
        else:
            mark = MARK.search(value)
            words.append(Word(value, column, mark[0] if mark else "", True))
            column += len(value) + 4 * value.count("'") + 3
    return tuple(words), ()
