"""What an agent may write to a terminal: a list, and nothing else, however it is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.plugins.agents.terminal_filter import ALLOWED, TerminalFilter

PASSES = [
    "text, ünïcode, 漢字 and 🙂\r\n\ttab\b\a",
    "\x1b[0;1;38;2;1;2;3m\x1b[4:3m\x1b[>4;2m",
    "\x1b[H\x1b[12;40H\x1b[2J\x1b[K\x1b[?2K\x1b[3A\x1b[L\x1b[M\x1b[P\x1b[@\x1b[2X\x1b[S\x1b[T\x1b[d\x1b[G",
    "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000;1006h\x1b[?2026l\x1b[4h",
    "\x1b7\x1b8\x1b=\x1b>\x1bM\x1b(0lqk\x1b(B",
    "\x1b[1;20r\x1b[2 q\x1b[>1u\x1b[<u\x1b[=5;1u\x1b[?12;25h",
]
DROPPED = {
    "the clipboard": "\x1b]52;c;c2VjcmV0\x07",
    "the clipboard with ST": "\x1b]52;c;?\x1b\\",
    "a title": "\x1b]0;root@host\x07",
    "a link": "\x1b]8;;http://x\x07",
    "a question for colours": "\x1b]11;?\x07",
    "device control": '\x1bP$q"p\x1b\\',
    "sixel": "\x1bPq#0;2;0;0;0~~\x1b\\",
    "an application command": "\x1b_Gi=1;AAAA\x1b\\",
    "a privacy message": "\x1b^x\x1b\\",
    "a start of string": "\x1bXx\x1b\\",
    "device attributes": "\x1b[c\x1b[>c\x1b[=c",
    "status reports": "\x1b[5n\x1b[6n\x1b[?6n",
    "mode reports": "\x1b[?2004$p\x1b[?u\x1b[>q",
    "window reports": "\x1b[21t\x1b[18t\x1b[14t",
    "printing": "\x1b[5i\x1b[4i",
    "answerback": "\x05",
    "eight bit controls": "\x9b6n\x9d52;c;x\x9c\x90q\x9c",
    "shifts": "\x0e\x0f",
    "a reset": "\x1bc",
    "modes that are not listed": "\x1b[?5h\x1b[?1001h\x1b[?9h\x1b[?1337h",
    "one listed mode among others": "\x1b[?25;1337h",
    "tab stops": "\x1b[3g\x1bH",
    "modes of the terminal's own programs": "\x1b[20h\x1b[12l\x1b[7h\x1b[25l",
    "alternate scrolling": "\x1b[?1007h",
    "other modifiers of keys": "\x1b[>0;1m\x1b[>1;2m\x1b[>m",
    "a long sequence": "\x1b[" + "1;" * 200 + "m",
    "linux palette": "\x1b]P0ff0000",
}


def passed(text: str) -> str:
    return TerminalFilter().feed(text.encode()).decode()


@pytest.mark.parametrize("text", PASSES)
def test_what_applications_draw_with_passes(text: str) -> None:
    assert passed(text) == text


@pytest.mark.parametrize("name", DROPPED)
def test_what_asks_or_keeps_is_dropped(name: str) -> None:
    assert "\x1b" not in passed(DROPPED[name])
    assert not any(char in passed(DROPPED[name]) for char in "\x05\x0e\x0f\x90\x9b\x9d")


def test_text_after_a_dropped_sequence_is_text() -> None:
    assert passed("a\x1b]52;c;eA==\x07b\x1bP q\x1b\\c\x1b[6nd") == "abcd"
    assert passed("a\x1b[" + "1;" * 200 + "mb") == "ab"


def test_two_questions_are_answered_by_us() -> None:
    screen = TerminalFilter()
    assert screen.feed(b"\x1b[6n\x1b[c") == b""
    assert screen.take_answers() == b"\x1b[1;1R\x1b[?6c" and screen.take_answers() == b""


def test_a_broken_string_does_not_reach_the_terminal() -> None:
    """A string without an end keeps everything after it; only its end, CAN or SUB brings text back."""
    screen = TerminalFilter()
    assert screen.feed(b"\x1b]52;c;" + b"x" * 100_000) == b"" and screen.feed(b"\x18text") == b"text"


PIECES = st.lists(
    st.sampled_from([*PASSES, *DROPPED.values(), "\x1b", "\x1b[", "\x1b]", "x", "\xff", "\x1b\x1b["]),
    max_size=12,
)
LISTED = re.compile(
    r"\x1b(\[[0-9;:]*[@A-HJKLMPSTX`abdefgrsum]|\[\??[0-9;]*[hlJK]|\[[<>=][0-9;]*[um]|\[[0-9]? q|[78=>DEHM]|[()][0AB])"
)


@given(PIECES, st.integers(1, 5))
def test_only_listed_sequences_pass_however_it_is_cut(pieces: list[str], size: int) -> None:
    data = "".join(pieces).encode()
    whole = TerminalFilter().feed(data)
    screen = TerminalFilter()
    cut = b"".join(screen.feed(data[place : place + size]) for place in range(0, len(data), size))
    assert cut == whole
    rest = LISTED.sub("", whole.decode())
    assert not any((ord(char) < 32 and char not in "\a\b\t\r\n") or 0x7F <= ord(char) < 0xA0 for char in rest)


@given(st.binary(max_size=200))
def test_no_bytes_break_it(data: bytes) -> None:
    rest = LISTED.sub("", TerminalFilter().feed(data).decode())
    assert "\x1b" not in rest


def test_what_undoes_is_itself_listed() -> None:
    for allowed in ALLOWED:
        assert passed(allowed.undo) == allowed.undo


def test_text_needs_no_reset_but_a_line_of_its_own() -> None:
    for text, reset in (("", b""), ("a\n", b""), ("a", b"\r\n"), ("a\nb\r", b"\r\n")):
        screen = TerminalFilter()
        screen.feed(text.encode())
        assert screen.reset() == reset


def test_only_a_screen_that_was_entered_is_left() -> None:
    """Leaving one moves the cursor, also where none was entered."""
    for drawn, left in (("\x1b[?1049h", True), ("\x1b[?1049h\x1b[?1049l", False), ("\x1b[?25;1049h", True)):
        screen = TerminalFilter()
        screen.feed(drawn.encode())
        assert (b"\x1b[?1049l" in screen.reset()) is left


def test_a_flood_of_questions_is_bounded() -> None:
    screen = TerminalFilter()
    screen.feed(b"\x1b[6n" * 100_000)
    assert len(screen.take_answers()) < 2048
