"""What an agent may write to a person's terminal: text, colors and cursor movement, but nothing that makes it
answer or store anything.

Invariant: only listed control sequences pass, complete and in their shortest form; every other one is dropped
completely, however it is split into pieces. So no clipboard (OSC 52), no title, no device control, no report
that would come back as typed input. Two queries that terminal applications wait for are answered here, with
constants, and never reach the terminal.

Source: ECMA-48 for the grammar; xterm's ctlseqs for the private modes.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from threegate.core import limits

_TEXT, _ESCAPE, _CSI, _STRING, _STRING_ESCAPE, _CHARSET = range(6)
_FINALS: Final = frozenset("@ABCDEFGHIJKLMPSTX`abdefgrsu")
_MODES: Final = frozenset("1 4 7 12 20 25 47 1000 1002 1003 1004 1005 1006 1007 1015 1047 1048 1049 2004 2026".split())
_NUMBERS: Final = re.compile(r"[0-9;:]*").fullmatch
_KEYBOARD: Final = re.compile(r"[<>=][0-9;]*").fullmatch
_CURSOR_SHAPE: Final = re.compile(r"[0-9]? ").fullmatch
_CONTROLS: Final = frozenset("\a\b\t\n\r")
_LONE: Final = frozenset("78=>DEHM")
_CHARSETS: Final = frozenset("0AB")

RESET: Final = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?2026l\x1b[?1l\x1b[?7h"
    "\x1b[?1049l\x1b[<9u\x1b>\x1b(B\x1b[r\x1b[?25h\x1b[0m\r\n"
)
"""Undoes every mode that can pass."""


class TerminalFilter:
    """One stream to a terminal. `feed` takes bytes as they arrive and returns bytes that may be written."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._state = _TEXT
        self._sequence = ""
        self.answers = b""
        """Answers for the agent's input, since the last `take_answers`."""

    def feed(self, data: bytes) -> bytes:
        """The part of `data` that may be written now. An unfinished sequence waits for its end."""
        return "".join(map(self._char, self._decoder.decode(data))).encode()

    def take_answers(self) -> bytes:
        """Answers to the agent's queries; each is returned once."""
        answers, self.answers = self.answers, b""
        return answers

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
            return f"\x1b{self._sequence}{char}" if char in _CHARSETS else ""
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
            return f"\x1b{char}" if char in _LONE else ""
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
            self.answers += b"\x1b[1;1R"
        elif char == "c" and body in ("", "0"):
            self.answers += b"\x1b[?6c"
        return f"\x1b[{body}{char}" if _may_pass(body, char) else ""


def _may_pass(body: str, final: str) -> bool:
    """Whether a control sequence is on the list."""
    if final in _FINALS and _NUMBERS(body):
        return True
    if final in "hl":
        numbers = body.removeprefix("?").split(";")
        return all(number in _MODES for number in numbers)
    if final in "JK":
        return _NUMBERS(body.removeprefix("?")) is not None
    if final == "m":
        return _NUMBERS(body) is not None or (body.startswith(">") and _NUMBERS(body[1:]) is not None)
    if final == "u":
        return _KEYBOARD(body) is not None
    return final == "q" and _CURSOR_SHAPE(body) is not None
