"""What an agent may write to a person's terminal: text, colors and cursor movement, but nothing that makes it
answer or store anything.

Invariant: only listed control sequences pass, complete and in their shortest form; every other one is dropped
completely, however it is split into pieces. So no clipboard (OSC 52), no title, no device control, no report
that would come back as typed input. Two queries that terminal applications wait for are answered here, with
constants, and never reach the terminal. A listed sequence that has a lasting effect is in the same table with the
sequence that undoes it, and `reset` is made from that table.

Source: ECMA-48 for the grammar; xterm's ctlseqs for the private modes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from threegate.core import limits

_TEXT, _ESCAPE, _CSI, _STRING, _STRING_ESCAPE, _CHARSET = range(6)
_CONTROLS: Final = frozenset("\a\b\t\n\r")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Sequences that pass, as a pattern of everything behind ESC, and what undoes them. `undo` is empty if they have no
    effect beyond what they draw. An `opened` one is undone only if it is still in effect: leaving a screen that was
    never entered would move the cursor.
    """

    pattern: re.Pattern[str]
    undo: str = ""
    opened: str = ""


def _mode(number: int, rest: str, *, private: bool = True, opens: bool = False) -> Allowed:
    """A mode and its state at rest, h (on) or l (off)."""
    start = f"[{'?' if private else ''}{number}"
    return Allowed(re.compile(re.escape(start) + "[hl]"), f"\x1b{start}{rest}", f"{start}h" if opens else "")


ALLOWED: Final = (
    Allowed(re.compile(r"\[[0-9;:]*[@ABCDEFGHIJKLMPSTX`abdefsu]|\[\?[0-9;:]*[JK]|[78DEM]")),
    Allowed(re.compile(r"\[[<>=][0-9;]*u"), "\x1b[<999u\x1b[=0u"),
    _mode(47, "l", opens=True),
    _mode(1047, "l", opens=True),
    _mode(1049, "l", opens=True),
    Allowed(re.compile(r"\[[<>=][0-9;]*u"), "\x1b[<999u\x1b[=0u"),  # each of the two screens has its own
    *(_mode(number, "l") for number in (1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026, 1, 12)),
    _mode(7, "h"),
    _mode(25, "h"),
    _mode(4, "l", private=False),
    Allowed(re.compile(r"\[>4(;[0-3]?)?m"), "\x1b[>4m"),
    Allowed(re.compile(r"[=>]"), "\x1b>"),
    Allowed(re.compile(r"[()][0AB]"), "\x1b(B\x1b)B"),
    Allowed(re.compile(r"\[[0-9;]*r"), "\x1b7\x1b[r\x1b8"),  # which alone would move the cursor
    Allowed(re.compile(r"\[[0-9]? q"), "\x1b[0 q"),
    Allowed(re.compile(r"\[[0-9;:]*m"), "\x1b[0m"),
)
"""Every sequence that passes, in the order in which they are undone. Not in it, although programs use them: tab stops
(nothing sets them back everywhere), alternate scrolling (terminals differ in its state at rest).
"""
_LONE: Final = frozenset("78=>DEM")
_BELOW: Final = 999
"""Rows: more than any terminal has. The cursor stops at the last one."""
_STAYS: Final = re.compile(r"\[[0-9;:]*m|[=>]").fullmatch
"""Whether a sequence leaves the cursor where it is; of all others it is assumed that they move it."""


def _split(body: str) -> Iterator[str]:
    """The sequences for single modes that a sequence for several modes means."""
    if body[-1] not in "hl":
        yield body
        return
    private = "?" if body.startswith("[?") else ""
    for number in body[1:-1].removeprefix("?").split(";"):
        yield f"[{private}{number}{body[-1]}"


@lru_cache(1024)
def may_pass(body: str) -> bool:
    """Whether a sequence, without its ESC, is listed completely."""
    return all(any(allowed.pattern.fullmatch(single) for allowed in ALLOWED) for single in _split(body))


class TerminalFilter:
    """One stream to a terminal. `feed` takes bytes as they arrive and returns bytes that may be written."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = _TEXT
        self._sequence = ""
        self._answers = b""
        self._opened: set[str] = set()
        """Screens that were entered and not left, as the sequence that entered them."""
        self._styled = self._moved = False
        self._in_line = False

    def feed(self, data: bytes) -> bytes:
        """The part of `data` that may be written now. An unfinished sequence waits for its end."""
        text = "".join(map(self._char, self._decoder.decode(data)))
        if text:
            self._in_line = not text.endswith("\n")
        return text.encode()

    def take_answers(self) -> bytes:
        """Answers to the agent's queries; each is returned once, and more than a screenful of them is dropped."""
        answers, self._answers = self._answers, b""
        return answers

    def reset(self) -> bytes:
        """What undoes every sequence that passed, and starts a line below everything that was drawn."""
        undone = "".join(item.undo for item in ALLOWED if not item.opened or item.opened in self._opened)
        below = f"\x1b[{_BELOW}B" if self._moved else ""
        line = "\r\n" if self._in_line or self._moved else ""
        self._opened.clear()
        return f"{undone if self._styled else ''}{below}{line}".encode()

    def _passed(self, body: str) -> str:
        """A whole sequence without its ESC: noted and returned if it is listed, else nothing."""
        if not may_pass(body):
            return ""
        for single in _split(body):
            if single.endswith("h"):
                self._opened.add(single)
            elif single.endswith("l"):
                self._opened.discard(f"{single[:-1]}h")
        self._styled = True
        self._moved = self._moved or _STAYS(body) is None
        return f"\x1b{body}"

    def _answer(self, text: bytes) -> None:
        if len(self._answers) < limits.AGENT_ANSWER_BYTES:
            self._answers += text

    def _char(self, char: str) -> str:
        code = ord(char)
        if 0x80 <= code <= 0x9F:  # eight-bit C1: some terminals treat it as an escape
            return ""
        if char in "\x18\x1a":  # CAN and SUB end any sequence
            self._state = _TEXT
            return ""
        if self._state == _TEXT:
            return self._text(char, code)
        if self._state in (_STRING, _STRING_ESCAPE):
            return self._string(char)
        if char == "\x1b":
            self._state = _ESCAPE
            return ""
        if self._state == _ESCAPE:
            return self._escape(char)
        if self._state == _CHARSET:
            self._state = _TEXT
            return self._passed(self._sequence + char)
        return self._csi(char)

    def _text(self, char: str, code: int) -> str:
        if char == "\x1b":
            self._state = _ESCAPE
            return ""
        return char if (code >= 0x20 and code != 0x7F) or char in _CONTROLS else ""

    def _escape(self, char: str) -> str:
        self._sequence = ""
        if char == "[":
            self._state = _CSI
        elif char in "]PX^_":
            self._state = _STRING
        elif char in "()":
            self._state, self._sequence = _CHARSET, char
        else:
            self._state = _TEXT
            return self._passed(char) if char in _LONE else ""
        return ""

    def _string(self, char: str) -> str:
        """OSC, DCS, SOS, PM, APC: dropped, up to their end."""
        if char == "\a" or (char == "\\" and self._state == _STRING_ESCAPE):
            self._state = _TEXT
        else:
            self._state = _STRING_ESCAPE if char == "\x1b" else _STRING
        return ""

    def _csi(self, char: str) -> str:
        if char < "\x20" or char == "\x7f":
            return char if char in _CONTROLS else ""
        if char < "\x40":
            # A sequence that is too long continues in a state that allows nothing, so its rest is not taken
            # for text.
            self._sequence = (self._sequence + char)[: limits.AGENT_SEQUENCE_CHARS + 1]
            return ""
        self._state = _TEXT
        body = self._sequence
        if len(body) > limits.AGENT_SEQUENCE_CHARS or ord(char) > 0x7E:
            return ""
        if char == "n" and body == "6":
            self._answer(b"\x1b[1;1R")
        elif char == "c" and body in ("", "0"):
            self._answer(b"\x1b[?6c")
        return self._passed(f"[{body}{char}")
