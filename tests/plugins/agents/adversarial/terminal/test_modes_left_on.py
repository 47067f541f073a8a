"""An agent that switches on whatever its terminal knows, and leaves it so."""

from __future__ import annotations

import subprocess
from typing import Any

import pyte
import pytest

from tests.plugins.agents.people import Person
from tests.plugins.agents.person_at_terminal import on_terminal
from threegate.plugins.agents.terminal_filter import TerminalFilter

AT_REST = {7: "h", 25: "h"}
"""Private modes that are on in a terminal nobody has changed; every other one is off."""
LASTING = {
    "insert mode": ("\x1b[4h", "\x1b[4l"),
    "keypad": ("\x1b=", "\x1b>"),
    "line drawing": ("\x1b(0", "\x1b(B"),
    "line drawing in the second set": ("\x1b)0", "\x1b)B"),
    "scroll region": ("\x1b[5;6r", "\x1b[r"),
    "cursor shape": ("\x1b[3 q", "\x1b[0 q"),
    "colours": ("\x1b[31;42m", "\x1b[0m"),
    "modified keys": ("\x1b[>4;2m", "\x1b[>4m"),
    "keyboard protocol, pushed": ("\x1b[>31u" * 100, "\x1b[<999u"),
    "keyboard protocol, set": ("\x1b[=31;1u", "\x1b[=0u"),
}


@pytest.mark.parametrize("private", ["?", ""])
def test_each_mode_that_passes_is_undone(private: str) -> None:
    passed = []
    for number in range(3000):
        for letter in "hl":
            screen = TerminalFilter()
            if screen.feed(f"\x1b[{private}{number}{letter}".encode()):
                rest = AT_REST.get(number, "l") if private else "l"
                undone = f"\x1b[{private}{number}{rest}".encode() in screen.reset()
                assert undone or (number in (47, 1047, 1049) and letter == "l"), number
                passed.append(number)
    assert sorted(set(passed)) == (
        [1, 7, 12, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004, 2026] if private else [4]
    )


@pytest.mark.parametrize("name", LASTING)
def test_each_other_lasting_change_is_undone(name: str) -> None:
    change, undo = LASTING[name]
    screen = TerminalFilter()
    assert screen.feed(change.encode()) == change.encode() and undo.encode() in screen.reset()


def test_the_keys_of_both_screens_are_undone() -> None:
    """Each screen has a keyboard protocol of its own."""
    screen = TerminalFilter()
    screen.feed(b"\x1b[>1u\x1b[?1049h\x1b[>1u")
    before, _, after = screen.reset().partition(b"\x1b[?1049l")
    assert b"\x1b[<999u" in before and b"\x1b[<999u" in after


EVERYTHING = (
    r"printf '\033[?1;12;1000;1002;1003;1004;1005;1006;1015;2004;2026;1049h\033[?7;25l\033[4h\033=\033(0\033[2;3r"
    r"\033[3 q\033[31m\033[>4;2m\033[>31u\033[1;1Hforged\033[1;1H'"
)


def screen_of(data: bytes) -> pyte.Screen:
    screen = pyte.Screen(100, 40)
    pyte.ByteStream(screen).feed(data.replace(b"\x1b[>4;2m", b"").replace(b"\x1b[>4m", b""))
    return screen


@pytest.mark.parametrize(
    "piped", ["", "stdin", *(pytest.param(name, marks=pytest.mark.slow) for name in ("stdout", "stderr"))]
)
def test_every_output_that_was_a_terminal_is_reset(user: Person, piped: str) -> None:
    """The modes are as in a terminal that nobody used, and our words are below everything the agent drew."""
    streams: dict[str, Any] = {piped: subprocess.DEVNULL} if piped else {}
    script = f"{EVERYTHING} | tee /dev/stderr"
    with on_terminal(user, "/bin/bash", "-c", script, **streams) as person:
        person.end()
    screen = screen_of(person.seen)
    assert screen.mode == pyte.Screen(100, 40).mode and screen.margins is None
    assert screen.cursor.attrs == pyte.Screen(1, 1).cursor.attrs
    if piped != "stderr":
        rows = [row for row in screen.display if row.strip()]
        assert "threegate: generic ended" in rows[-1]
