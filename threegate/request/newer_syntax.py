"""Code in the grammar of later Pythons, rewritten so that the Python that runs ThreeGate can look into it.

Monty reads f-strings with any quotes in their fields (PEP 701) and type parameters (PEP 695); `ast.parse` of Python
3.11 does not. The rewritten text is for the rules of gate 1 only: it has the same names, calls and statements at the
same lines and columns, and is never run. Who asks parses the result again, so a text that is rewritten wrongly is
refused as one that cannot be read.

Invariant: every expression of a field stays in the text. Linear time; nesting is bounded by `limits.FSTRING_DEPTH`.
"""

from __future__ import annotations

import re
from typing import Final

from threegate.core import limits

_NEXT: Final = re.compile(
    r"\#[^\n]*"
    r"|(?:(?<!\w)(?P<prefix>(?i:[rbuf]|br|rb|fr|rf)))?(?P<quote>\"\"\"|'''|\"|')"
    r"|\b(?:def|class)[ \t]+\w+[ \t]*(?P<parameters>\[[\w\s,.*:|]*\])",
)
# `(?>…*)` and not `*+`, which Python 3.11 matches wrongly around a look-ahead.
_STRINGS: Final = {
    '"""': re.compile(r'(?>(?:[^"\\]++|\\.|"(?!""))*)"""', re.DOTALL),
    "'''": re.compile(r"(?>(?:[^'\\]++|\\.|'(?!''))*)'''", re.DOTALL),
    '"': re.compile(r'(?>(?:[^"\\\n]++|\\.)*)"', re.DOTALL),
    "'": re.compile(r"(?>(?:[^'\\\n]++|\\.)*)'", re.DOTALL),
}
"""The rest of a string without fields."""
_BETWEEN: Final = re.compile(r"(?>(?:\s|\\\n|\#[^\n]*)*)")
"""What may be between two strings that are one."""
_WORD: Final = re.compile(r"\w+")
_NAMED: Final = re.compile(r"\\N\{[^}\n]*\}")
_END: Final = re.compile(r"\s*(?:![rsa]\s*)?(?=[:}])")
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}


class _Unreadable(ValueError):
    """The text is not what this module understands."""


def in_older_syntax(text: str) -> str | None:
    """The text as Python 3.11 reads it, of the same length and lines; None if it has nothing newer or is not read."""
    rewritten = _rewritten(text)
    result = text if rewritten is None else "".join(rewritten.out)
    return None if result == text else result


def newer_f_string(text: str) -> int | None:
    """The line of the first f-string with its own quotes, a backslash or a comment in a field, which needs Python 3.12
    (PEP 701); None if there is none, or the text is not read.
    """
    rewritten = _rewritten(text)
    found = rewritten.newer if rewritten is not None else []
    return text.count("\n", 0, min(found)) + 1 if found else None


def _rewritten(text: str) -> _Rewritten | None:
    rewritten = _Rewritten(text)
    try:
        rewritten.read_code()
    except _Unreadable:
        return None
    return rewritten


class _Rewritten:
    """The text so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newer: list[int] = []
        """Where f-strings are that Python 3.11 cannot read."""
        self.out = list(text)
        self._row: list[tuple[int, int, bool]] = []
        """Strings that follow each other and so are one: where each begins and ends, and whether it has fields."""

    def read_code(self) -> None:
        """The whole text. Raises _Unreadable."""
        at = 0
        while (match := _NEXT.search(self.text, at)) is not None:
            at = match.end()
            if match["quote"] is not None:
                at = self._string(match, 0)
            elif match["parameters"] is not None:
                self._blank(match.start("parameters"), at)

    def _blank(self, start: int, end: int) -> None:
        for index in range(start, end):
            if self.out[index] != "\n":
                self.out[index] = " "

    def _string(self, match: re.Match[str], depth: int) -> int:
        """A string from its prefix on; return where it ends. One without fields stays as it is."""
        if depth > limits.FSTRING_DEPTH:
            raise _Unreadable
        prefix, quote = (match["prefix"] or "").lower(), match["quote"]
        row = self._row
        if not row or _BETWEEN.fullmatch(self.text, row[-1][1], match.start()) is None:
            row = []
        if "f" in prefix:
            self._row = []
            at = self._literal(match.end(), quote, depth, raw="r" in prefix)
            end = at + len(quote)
            older = _STRINGS[quote].match(self.text, match.end())
            if older is None or older.end() != end:
                self.newer.append(match.start())
            # What it says becomes a tuple of its fields: `f"a{b}{c:{d}}"` is `(b,c,d,)`.
            self._parentheses(match.start(), match.end(), at, end)
        else:
            rest = _STRINGS[quote].match(self.text, match.end())
            if rest is None:
                raise _Unreadable
            end = rest.end()
        row.append((match.start(), end, "f" in prefix))
        self._row = row
        if any(fields for _, _, fields in row):
            # A text beside a tuple is not Python: beside one, `"a"` is `( )`.
            for start, last, fields in row:
                if not fields:
                    self._parentheses(start, last - 1, last - 1, last)
            self._row = [(match.start(), end, True)]
        return end

    def _parentheses(self, start: int, inside: int, until: int, end: int) -> None:
        """Instead of the quotes before `inside` and from `until` on."""
        self._blank(start, inside)
        self._blank(until, end)
        self.out[start], self.out[end - 1] = "(", ")"

    def _literal(self, at: int, quote: str, depth: int, *, raw: bool) -> int:
        """The text of an f-string; return where its closing quote begins."""
        text = self.text
        while at < len(text) and not text.startswith(quote, at):
            if text.startswith(("{{", "}}"), at):
                self._blank(at, at + 2)
                at += 2
            elif text[at] == "{":
                at = self._field(at, depth)
            elif text[at] == "\\" and text[at + 1 : at + 2] not in ("{", "}"):
                named = None if raw else _NAMED.match(text, at)
                end = named.end() if named is not None else at + 2
                self._blank(at, min(end, len(text)))
                at = end
            else:
                self._blank(at, at + 1)
                at += 1
        if at >= len(text):
            raise _Unreadable
        return at

    def _field(self, at: int, depth: int) -> int:
        """A field from its `{` on; return where it ends."""
        text = self.text
        closing: list[str] = []
        if depth > limits.FSTRING_DEPTH:
            raise _Unreadable
        self.out[at] = " "
        start = at
        at += 1
        while at < len(text):
            mark = text[at]
            match = _NEXT.match(text, at)
            if match is not None and match["quote"] is not None:
                at = self._string(match, depth + 1)
                continue
            if mark == "#":
                self.newer.append(at)
                at = match.end() if match is not None else at + 1
                continue
            if not closing and mark in "}:!=" and (end := self._end(at)) is not None:
                if "\\" in text[start:at]:
                    self.newer.append(start)
                return self._specified(end, depth)
            if mark in _CLOSES:
                closing.append(_CLOSES[mark])
            elif mark in ")]}" and (not closing or closing.pop() != mark):
                raise _Unreadable
            word = _WORD.match(text, at)
            at = word.end() if word is not None else at + 1
        raise _Unreadable

    def _end(self, at: int) -> int | None:
        """Where `:` or `}` is, if the expression of a field ends at `at`; what is before it is blanked."""
        text = self.text
        start = at
        if text[at] == "=":
            if text[at + 1 : at + 2] == "=" or text[at - 1] in "=!<>":
                return None
            at += 1
        match = _END.match(text, at)
        if match is None:
            return None
        self._blank(start, match.end())
        return match.end()

    def _specified(self, at: int, depth: int) -> int:
        """The end of a field, at its `:` or `}`; return what follows."""
        text = self.text
        specified = text[at] == ":"
        self.out[at] = ","
        at += 1
        while specified:
            if at >= len(text):
                raise _Unreadable
            if text[at] == "{":
                at = self._field(at, depth + 1)
                continue
            specified = text[at] != "}"
            self._blank(at, at + 1)
            at += 1
        return at
