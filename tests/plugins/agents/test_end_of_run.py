"""The end of a run at a terminal: one question, a word that opens the review, and a change that is applied and can be
undone, with a daemon that starts and ends by itself.
"""

from __future__ import annotations

import re
import subprocess

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.person_at_terminal import Screen, on_terminal
from tests.support import processes, wait_until

CHANGES = "echo new >new.txt; echo more >>README"
QUESTION = re.compile(rb"or ([a-z]{6}) to read and sign them here\]")


def word_of(screen: Screen) -> bytes:
    """The word of the question that is open."""
    screen.wait_for(b"to read and sign them here]")
    return QUESTION.findall(screen.seen)[-1]


def daemons(who: Person) -> list[bytes]:
    return [line for _, line in processes() if b"--while-used" in line and str(who.workspace).encode() in line]


def test_two_commands_and_one_terminal(user: Person) -> None:
    """`init` was the first one. What is approved is applied before the command ends, and undone by the printed line."""
    with on_terminal(user, "/bin/sh", "-c", CHANGES, options=[]) as screen:
        screen.press(word_of(screen) + b"\n")
        screen.wait_for(b"[q]uit > ")
        screen.press(b"a\n")
        assert screen.end() == 0, screen.seen
    print(screen.seen.decode())
    assert (user.project / "new.txt").read_text() == "new\n"
    [line] = re.findall(r"undo +(threegate [^\r\n]+)", screen.seen.decode())
    done = subprocess.run(
        ["/bin/sh", "-c", f"threegate() {{ {user.command()[0]} -m threegate \"$@\"; }}; {line} --yes"],
        env=user.environ(), cwd=user.home, capture_output=True, text=True, **as_account(user.account),
    )  # fmt: skip
    assert done.returncode == 0, done
    assert not (user.project / "new.txt").exists()
    wait_until(lambda: not daemons(user), lambda: daemons(user))
    assert [event["status"] for event in user.events("finished")] == ["succeeded"]
