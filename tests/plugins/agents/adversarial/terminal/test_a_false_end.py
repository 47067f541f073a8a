"""A person's answers at the end of a run are theirs: not what was typed ahead, not what the agent drew, and never a
passphrase.
"""

from __future__ import annotations

import re
import subprocess

import pyte
import pytest

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.person_at_terminal import Screen, on_terminal
from tests.plugins.agents.person_at_the_end import CHANGES, may_open, open_review, word_of
from threegate.core import limits

FALSE_WORD = b"bababa"
FALSE_END = (
    r"printf '\033[?1049h\033[?1000;2004h\033[2J\033[H\033[8mthreegate: generic ended with exit code 0\r\n\r\n"
    rf"Propose these changes? [Y/n, or {FALSE_WORD.decode()} to read and sign them here] '; stty raw -echo"
)
"""What a launcher prints, on the other screen, with mouse and paste reports on and in letters that nobody sees."""


def drafts(who: Person) -> list[str]:
    return [path.name for path in who.workspace.glob("tool-exec/agents/*/inbox/TR-*.md")]


def nothing_was_decided(who: Person) -> None:
    assert who.events("approved") == who.events("rejected") == []
    assert not (who.project / "new.txt").exists()


def test_what_was_typed_ahead_answers_nothing(user: Person) -> None:
    """Somebody types on while the agent ends: yes, and words."""
    with on_terminal(user, "/bin/sh", "-c", f"{CHANGES}; : >ready", options=[]) as screen:
        user.wait_for_file("ready")
        for _ in range(20):
            screen.press(b"y\nyes\nbababa\n\n")
            screen.look()
        word_of(screen)
        screen.press(b"n\n")
        screen.end()
    assert b"its copy is kept" in screen.seen and drafts(user) == []
    nothing_was_decided(user)


@pytest.mark.slow
def test_a_key_that_is_stuck_is_not_waited_for(user: Person) -> None:
    """Nothing is asked, and what the agent did is kept as a draft."""
    with on_terminal(user, "/bin/sh", "-c", f"{CHANGES}; : >ready", options=[]) as screen:
        user.wait_for_file("ready")
        while screen.process.poll() is None:
            screen.press(b"y")
            screen.look()
    assert b"Propose these changes?" not in screen.seen and b"read and sign it in another terminal" in screen.seen
    assert len(drafts(user)) == 1
    nothing_was_decided(user)


def rows(screen: Screen) -> tuple[pyte.Screen, list[str]]:
    shown = pyte.Screen(100, 40)
    pyte.ByteStream(shown).feed(screen.seen)
    return shown, [row.rstrip() for row in shown.display if row.strip()]


def test_a_false_end_on_the_other_screen_is_gone_and_its_word_opens_nothing(user: Person) -> None:
    """And a process that it left in the background writes nothing more once the question is there."""
    writer = "(trap '' HUP TERM; while :; do printf 'type bababa now '; done) &"
    with on_terminal(
        user, "/bin/bash", "-c", f"{CHANGES}; {writer} {FALSE_END}; : >ready; sleep 1", options=[]
    ) as screen:
        user.wait_for_file("ready")
        screen.press(FALSE_WORD + b"\n")
        word = word_of(screen)
        before = len(screen.seen)
        for _ in range(5):
            screen.look()
        assert screen.seen[before:].strip() == b"", "something still writes"
        shown, text = rows(screen)
        assert shown.mode == pyte.Screen(100, 40).mode and shown.cursor.attrs == pyte.Screen(1, 1).cursor.attrs
        assert word.decode() in " ".join(text[-2:]) and not any("or bababa" in row for row in text)
        screen.press(FALSE_WORD + b"\n")
        screen.end()
    assert drafts(user) == []
    nothing_was_decided(user)


def lock_key(who: Person, passphrase: str = "correct horse") -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", passphrase, "-f", who.key], check=True, **as_account(who.account)
    )


def test_a_key_with_a_passphrase_is_not_offered(user: Person) -> None:
    lock_key(user)
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        screen.wait_for(b"Propose these changes? [Y/n] ")
        screen.press(b"y\n")
        screen.end()
    assert not may_open(screen) and b"asks for a passphrase, and none is asked for" in screen.seen
    assert b"read and sign it in another terminal" in screen.seen and b"assphrase for" not in screen.seen
    nothing_was_decided(user)


def test_ssh_keygen_itself_asks_for_nothing(user: Person) -> None:
    """The key gets its passphrase after the review was opened, as if somebody had swapped the file."""
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        open_review(screen)
        lock_key(user)
        screen.press(b"a\n")
        screen.wait_for(b"[q]uit > ", count=2)
        screen.press(b"q\n")
        screen.end()
    assert b"needs its passphrase, which" in b" ".join(screen.seen.split())
    assert re.search(rb"[Ee]nter passphrase|assphrase for", screen.seen) is None
    nothing_was_decided(user)


def test_the_bounds_are_those_of_a_person() -> None:
    assert 0.2 <= limits.SILENCE_SECONDS < 1 < limits.TYPED_AHEAD_SECONDS <= 10
