"""An agent with a terminal: a pty of ours between it and the person's."""

from __future__ import annotations

import termios

import pytest

from tests.plugins.agents.people import Person
from tests.plugins.agents.person_at_terminal import on_terminal


@pytest.mark.slow
def test_it_has_a_terminal_that_is_resized(somebody: Person) -> None:
    script = "stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.1; done"
    with on_terminal(somebody, "/bin/bash", "-c", script) as screen:
        screen.wait_for(b"ready")
        assert b"40 100" in screen.seen
        screen.resize(30, 77)
        screen.wait_for(b"30 77")
        assert screen.end() == 4


@pytest.mark.slow
def test_ctrl_c_is_the_agents(somebody: Person) -> None:
    """It ends what runs in there; the launcher goes on and sees the agent's own end.

    The sleeps are short, because a key that arrives just before the shell starts one is its answer only after it.
    """
    script = "trap 'echo got it; exit 9' INT; echo ready; while :; do sleep 0.1; done"
    with on_terminal(somebody, "/bin/bash", "-c", script) as screen:
        screen.wait_for(b"ready")
        screen.press(b"\x03")
        assert screen.end() == 9 and b"got it" in screen.seen
    assert [event["exit"] for event in somebody.events("agent_ended")] == [9]


@pytest.mark.slow
def test_a_sequence_that_keeps_or_asks_never_arrives(somebody: Person) -> None:
    script = r"printf 'A\033]52;c;c2VjcmV0\aB\033[6nC\033[21tD\033P+q\033\\E\033[31mred\033[0m done'; sleep 0.3"
    with on_terminal(somebody, "/bin/bash", "-c", script) as screen:
        screen.end()
    assert b"ABCDE\x1b[31mred\x1b[0m done" in screen.seen
    assert b"52;c" not in screen.seen and b"\x1b[6n" not in screen.seen and b"21t" not in screen.seen


@pytest.mark.slow
def test_the_terminal_is_as_before_and_nothing_is_left_to_read(somebody: Person) -> None:
    """Modes are undone, and keys that the agent did not read are nobody's answer afterwards."""
    script = r"printf '\033[?1000h\033[?2004h\033[?25l\033[?1049h'; stty raw -echo; echo ready; sleep 1"
    with on_terminal(somebody, "/bin/bash", "-c", script) as screen:
        before = termios.tcgetattr(screen.master)
        screen.wait_for(b"ready")
        screen.press(b"y\ny\n")
        assert screen.end() == 0
        assert termios.tcgetattr(screen.master)[:4] == before[:4]
        end = screen.seen[screen.seen.rindex(b"ready") :]
        assert all(f"\x1b[?{mode}".encode() in end for mode in ("1000l", "2004l", "25h", "1049l"))


@pytest.mark.slow
def test_the_terminal_is_not_the_persons(somebody: Person) -> None:
    """What the jail has is a pty of ours: no other process of the person is on it, and TIOCSTI is refused on it too."""
    code = (
        "import fcntl,os,termios\nprint(os.tcgetpgrp(0) == os.getpgrp())\ntry: fcntl.ioctl(0, termios.TIOCSTI, "
        "b'x'); print('typed')\nexcept OSError as e: print('errno', e.errno)"
    )
    with on_terminal(somebody, "/usr/bin/python3", "-c", code) as screen:
        screen.end()
    assert b"errno 1\r\n" in screen.seen and b"typed" not in screen.seen
