"""What a person does at the end of a run, and the daemon that runs meanwhile."""

from __future__ import annotations

import re

from tests.plugins.agents.people import Person
from tests.plugins.agents.person_at_terminal import Screen
from tests.support import processes, wait_until

CHANGES = "echo new >new.txt; echo more >>README"
_OFFER = re.compile(rb"or ([a-z]{6})\s+to\s+read\s+and\s+sign\s+them\s+here\]|here\? \[([a-z]{6});")


def may_open(screen: Screen) -> list[bytes]:
    """The words that were offered."""
    return [first or second for first, second in _OFFER.findall(screen.seen) if first != b"bababa"]


def word_of(screen: Screen) -> bytes:
    """The word of the question that is open, once it is there."""
    return wait_until(lambda: screen.look() and may_open(screen), lambda: screen.seen)[-1]


def open_review(screen: Screen) -> None:
    """Type the word, and wait for the first draft."""
    screen.press(word_of(screen) + b"\n")
    screen.wait_for(b"[q]uit > ")


def daemons(who: Person) -> list[int]:
    """The daemons that commands started in their workspace."""
    return [pid for pid, line in processes() if b"--while-used" in line and str(who.workspace).encode() in line]
