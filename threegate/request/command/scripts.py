"""What awk and sed scripts, and the inline code of the other interpreters, would hand to a shell.

awk and sed are read with small scanners, because ``|`` and ``e`` are harmless in most places of them. The other
languages are searched for the calls that start a shell. All linear.
"""

from __future__ import annotations

import re
from typing import Final

from threegate.secretscan.linear import compiled, one_byte_each

_SHELL_CALLS: Final = {
    "perl": r"\b(?:system|exec|readpipe)\s*(?:\(|[\"'$@{/\\]|qw|qq?\b)|\bqx\b|\bopen\b[^;\n]{0,120}(?:\|\s*[\"']|[\"']\s*\||-\||\|-)|\bIPC::|\bopen[23]\b",
    "ruby": r"\b(?:system|exec|spawn|popen|popen[23]e?|capture[23]e?|pipeline)\s*(?:\(|[\"'\[%])|%x[^A-Za-z0-9_\s]|\bOpen3\b|\bPTY\b|\bIO\.popen|\bProcess\.(?:spawn|exec)",
    "node": r"child_process|\bprocess\.binding\b|\bBun\.spawn|\bDeno\.(?:run|Command)\b|\bexecSync\b|\bspawnSync\b",
    "php": r"(?:^|[^>:A-Za-z0-9_\s$]|[^>:]\s)\s*(?:system|shell_exec|passthru|popen|proc_open|pcntl_exec|exec)\s*\(",
    "lua": r"\bos\s*\.\s*execute\b|\bio\s*\.\s*popen\b|\bos\s*\[\s*[\"']execute|\bio\s*\[\s*[\"']popen",
    "r": r"\b(?:system2?|shell|shell\.exec)\s*\(|\bpipe\s*\(|\bprocessx\b",
}
_SHELL_LITERAL: Final = r"[\"'](?:/(?:usr/)?(?:local/)?bin/)?(?:ba|da|z|k|c|tc|a|fi)?sh[\"']\s*,\s*[\[\"']|/bin/(?:ba|da|z|k|c|tc|a)?sh\b"
_R_INSTALLS: Final = r"\binstall_(?:github|version|local|url|git|cran|bioc|gitlab|bitbucket)\b|\bbiocLite\b|\b(?:update|download)\.packages\b"
_INSTALLS: Final = {
    "r": _R_INSTALLS,
    "perl": r"\bCPAN\b|\bApp::cpanminus\b",
    "ruby": r"\bGem\.install\b|\bGem::(?:DependencyInstaller|Commands|Installer)|\bBundler\b",
    "node": r"\brequire\s*\(\s*[\"']npm[\"'/]",
}


def hands_to_shell(language: str, code: str) -> bool:
    """Whether inline code of a language (any but Python) would have a shell run something."""
    if language == "awk":
        return _awk(code)
    if language == "sed":
        return _Sed(code).runs_a_shell()
    if language not in _SHELL_CALLS:
        return False
    data = one_byte_each(code)
    return any(
        compiled(pattern).search(data) is not None for pattern in (_SHELL_CALLS[language], _SHELL_LITERAL)
    )


def installs_by_library(language: str, code: str) -> bool:
    """Whether inline code calls its language's own installer."""
    pattern = _INSTALLS.get(language)
    return pattern is not None and compiled(pattern).search(one_byte_each(code)) is not None


_AWK_TOKEN: Final = re.compile(
    r"""(?P<skip>[ \t\r]+|\\\n|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*+"?)|(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9.]+)|(?P<or>\|\|)|(?P<other>.|\n)""",
    re.DOTALL,
)
_AWK_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\]?[^\]\n]*\])*+/")
_AWK_OPERANDS: Final = frozenset({"name", "number", "string"})


def _awk(program: str) -> bool:
    """Whether an awk program pipes, calls system() or loads a library."""
    position = 0
    operand = False
    previous = ""
    while position < len(program):
        if not operand and program[position] == "/" and (found := _AWK_REGEX.match(program, position)):
            position, operand, previous = found.end(), True, ""
            continue
        match = _AWK_TOKEN.match(program, position)
        assert match is not None
        position = match.end()
        kind = match.lastgroup
        if kind == "skip":
            continue
        text = match[0]
        if text == "|" or (text == "(" and previous == "system") or (text == "load" and previous == "@"):
            return True
        operand = kind in _AWK_OPERANDS or text in ")]$"
        if kind == "name" and text in ("print", "printf", "return", "in", "getline", "case"):
            operand = False
        previous = text
    return False


class _Sed:
    """Reads a sed script command by command; gives up quietly where sed itself would."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.place = 0

    def runs_a_shell(self) -> bool:
        """Whether the script has an `e` command, or an `s` command with the flag `e`."""
        while True:
            self._skip(" \t\n;{}")
            if not self._address():
                return False
            self._skip(" \t!")
            command = self._next()
            if not command:
                return False
            if command == "e":
                return True
            if command in "sy":
                if not self._parts(self._next()):
                    return False
                flags = self._until(";}\n") if command == "s" else ""
                if "e" in flags.split("w", 1)[0]:
                    return True
            elif command in "aicrRwWbtT:#":
                self._until("\n" if command in "aicrRwW#" else ";\n")
            elif command in "qQlLv":
                self._until(";}\n")
            elif command not in "dDgGhHnNpPxzF={}":
                return False

    def _next(self) -> str:
        char = self.script[self.place : self.place + 1]
        self.place += len(char)
        return char

    def _skip(self, chars: str) -> None:
        while self.place < len(self.script) and self.script[self.place] in chars:
            self.place += 1

    def _until(self, ends: str) -> str:
        start = self.place
        while self.place < len(self.script) and self.script[self.place] not in ends:
            self.place += 1
        return self.script[start : self.place]

    def _address(self) -> bool:
        """Zero, one or two addresses."""
        while True:
            char = self.script[self.place : self.place + 1]
            if char == "/" or char == "\\":
                self.place += 1
                if not self._to(self._next() if char == "\\" else "/"):
                    return False
                self._skip("IM")
            elif char and char in "0123456789$+~":
                self._skip("0123456789$+~")
            else:
                return True
            self._skip(" \t")
            if self.script[self.place : self.place + 1] != ",":
                return True
            self.place += 1
            self._skip(" \t")

    def _parts(self, delimiter: str) -> bool:
        return delimiter not in ("", "\n", "\\") and self._to(delimiter) and self._to(delimiter)

    def _to(self, delimiter: str) -> bool:
        """Go behind the next unescaped delimiter. False where there is none."""
        while self.place < len(self.script):
            char = self._next()
            if char == "\\":
                self.place += 1
            elif char == delimiter:
                return True
        return False
