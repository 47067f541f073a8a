"""An agent that asks its terminal and never reads, and a person's terminal that takes nothing more: a stop always
finishes.
"""

from __future__ import annotations

import fcntl
import struct
import subprocess
import termios

from tests.plugins.agents.people import Person
from tests.plugins.agents.person_at_terminal import Screen, on_terminal
from tests.support import wait_until
from threegate.core import limits

ASKS = (
    "stty raw -echo; echo asking; while :; do printf '\\033[6n%.0s' $(seq 1000); n=$((n+1)); "
    "[ $n = 20 ] && : >asked; done"
)
PTY_BYTES = 80 * 1024
"""More than the buffers of a pseudo-terminal hold: 64 KiB on the way, and 4 KiB that can be read."""
FLOODS = "touch flooding; cat /dev/zero | tr '\\0' x"


def stop(who: Person) -> subprocess.CompletedProcess[str]:
    return who.threegate("agent", "stop", who.facts()["run"], timeout=30)


def drained(who: Person, screen: Screen) -> None:
    """Wait until the agent's terminal takes nothing more, and type more than it could ever take.

    That it is full once is not enough: the kernel moves what it holds from one buffer to the next when it finds time,
    and then there is a place again.
    """
    screen.wait_for(b"asking")
    who.wait_for_file("asked")
    for _ in range(0, PTY_BYTES + limits.AGENT_TYPED_BYTES, 1024):
        screen.press(b"x" * 1024)


def waiting(master: int) -> int:
    """How many bytes nobody has read."""
    return int(struct.unpack("i", fcntl.ioctl(master, termios.FIONREAD, b"\0" * 4))[0])


def test_agent_stop_ends_one_that_asks_and_never_reads(user: Person) -> None:
    with on_terminal(user, "/bin/bash", "-c", ASKS) as screen:
        drained(user, screen)
        done = stop(user)
        assert done.returncode == 0, done.stderr
        screen.end()
    assert [event["reason"] for event in user.events("agent_ended")] == ["stopped"]


def test_ctrl_c_ends_one_that_asks_and_never_reads(user: Person) -> None:
    """Its terminal takes nothing more, so the key would never be seen in there."""
    with on_terminal(user, "/bin/bash", "-c", ASKS) as screen:
        drained(user, screen)
        screen.press(b"\x03")
        screen.end()
    assert [event["reason"] for event in user.events("agent_ended")] == ["stopped"]


def test_agent_stop_ends_one_whose_output_nobody_reads(user: Person) -> None:
    with on_terminal(user, "/bin/bash", "-c", FLOODS, options=["--propose", "ask"]) as screen:
        user.wait_for_file("flooding")
        wait_until(lambda: waiting(screen.master) >= 4000, "a full terminal")
        done = stop(user)
        assert done.returncode == 0, done.stderr
    assert [event["reason"] for event in user.events("agent_ended")] == ["stopped"]


def test_a_question_about_the_changes_waits_for_nobody(user: Person) -> None:
    """The agent has ended by itself; the launcher asks whether to propose, and the person is away."""
    with on_terminal(user, "/bin/bash", "-c", "echo x >changed", options=["--propose", "ask"]) as screen:
        screen.wait_for(b"Propose these changes?")
        done = stop(user)
        assert done.returncode == 0, done.stderr
        screen.end()
    assert "changes_sha256" not in user.events("agent_ended")[0]
