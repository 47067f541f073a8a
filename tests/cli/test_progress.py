"""The line that says that something is under way: on a terminal, after a moment, and gone afterwards."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys, time
from threegate.cli.progress import busy
with busy("counting [bold]sheep") as progress:
    if sys.argv[2:]:
        progress(*map(int, sys.argv[2:]))
    time.sleep(float(sys.argv[1]))
print("counted")
print("rich" in sys.modules, file=sys.stderr)
"""


def on_terminal(seconds: str, *counted: str, **more: str) -> tuple[str, str]:
    """stderr is a terminal, stdout a pipe."""
    primary, secondary = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **more}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, seconds, *counted], stdout=subprocess.PIPE, stderr=secondary, env=environment
    )
    os.close(secondary)
    shown, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([primary], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(primary, 65536)
        except OSError:  # the last writer has closed it
            break
    os.close(primary)
    assert process.stdout is not None
    out = process.stdout.read().decode()
    assert process.wait(10) == 0
    return out, shown.decode()


def test_what_takes_longer_is_shown_and_taken_back() -> None:
    out, shown = on_terminal("3")
    assert out == "counted\n", "nothing of it is on stdout"
    assert "counting [bold]sheep" in shown and "0:00:0" in shown
    assert "\x1b[2K" in shown, "the line is taken away again"


def test_without_colour_it_can_be_read(tmp_path: Path) -> None:
    _, shown = on_terminal("3", NO_COLOR="1")
    assert "counting [bold]sheep" in shown
    assert "\x1b[3" not in shown, "no colours"


@pytest.mark.parametrize(("seconds", "term"), [("0", "xterm"), ("1.5", "dumb")])
def test_a_short_act_and_a_dumb_terminal_show_nothing(seconds: str, term: str) -> None:
    assert on_terminal(seconds, TERM=term) == ("counted\n", "False\r\n")


@pytest.mark.parametrize(("counted", "shown"), [(("12", "0"), "sheep: 12 "), (("12", "40"), "sheep: 12 of 40 ")])
def test_it_shows_how_many_are_done(counted: tuple[str, str], shown: str) -> None:
    assert shown in on_terminal("2", *counted)[1]


def test_off_a_terminal_there_is_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, "1.3"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("counted\n", "False\n")
