"""`threegate approve ID` on a terminal: the question comes only behind the last line, and has no answer from before."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.adversarial.approval.test_terminal import screen_of, terminal_environment
from tests.support import processes
from threegate.trail.trail import Trail

QUESTION = b"[y/N] "
MORE = b"q leaves"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return make_bench(tmp_path)


class Sitting:
    """A command on a terminal of a size, which somebody reads and types into."""

    def __init__(self, bench: Bench, *words: str, rows: int = 24, columns: int = 80, **environment: str) -> None:
        self.master, follower = pty.openpty()
        self.resize(rows, columns)
        command = [sys.executable, "-m", "threegate", "-w", str(bench.workspace.root), *words]
        key = ["--key", str(bench.keys["alice"])]
        env = terminal_environment(**{"NO_COLOR": "1", **environment})
        self.process = subprocess.Popen(
            [*command, *key], stdin=follower, stdout=follower, stderr=follower, env=env, start_new_session=True
        )
        os.close(follower)
        self.output = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, *ends: bytes) -> bytes:
        """Read until what was written ends so; what came since the last time. At the end, everything that is left."""
        start = len(self.output)
        while not (len(self.output) > start and self.output.endswith(ends)):
            assert select.select([self.master], [], [], 60)[0], self.output[-800:]
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                assert not ends, self.output[-800:]
                break
            self.output += piece
        return self.output[start:]

    def press(self, keys: bytes, *ends: bytes) -> bytes:
        os.write(self.master, keys)
        return self.until(*ends)

    def end(self, keys: bytes) -> int:
        os.write(self.master, keys)
        while select.select([self.master], [], [], 60)[0]:
            try:
                self.output += os.read(self.master, 65536)
            except OSError:
                break
        os.close(self.master)
        return self.process.wait(60)


def long_draft(bench: Bench, lines: int = 60) -> Path:
    return bench.draft(code="\n".join(f"print({number})" for number in range(lines)))


def place(said: bytes) -> tuple[int, int, int]:
    """First and last line on the screen, and how many there are."""
    found = re.findall(rb"lines ([0-9]+)-([0-9]+) of ([0-9]+)", said)
    first, last, total = map(int, found[-1])
    return first, last, total


def test_the_question_comes_behind_the_last_line_and_all_of_them_were_on_the_screen(bench: Bench) -> None:
    path = long_draft(bench)
    wanted = [str(line).rstrip() for line in screen_of(bench, path)]
    assert len(wanted) > 24
    sitting = Sitting(bench, "approve", str(path))
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    stream.feed(sitting.until(MORE))
    seen: list[str] = []
    while True:
        shown = [row.rstrip() for row in screen.display]
        seen += [row for row in shown if row and row not in seen]
        if b"[y/N]" in sitting.output:
            break
        first, last, total = place(sitting.output)
        assert total == len(wanted) and last < total and shown[:-1] == wanted[first - 1 : last]
        stream.feed(sitting.press(b" ", MORE, QUESTION))
    assert [row for row in wanted if row and row not in seen] == []
    assert wanted[-1] in shown, "the last line is above the question"
    assert sitting.end(b"y\n") == 0 and not path.exists()
    assert len(list(bench.workspace.approved.glob("*.md"))) == 1


@pytest.mark.parametrize("ahead", [b"y\n" * 9, b" " * 200 + b"y\n" * 9, b"\n" * 500 + b"y\ny\n"])
def test_keys_that_were_typed_ahead_never_answer(bench: Bench, ahead: bytes) -> None:
    path = long_draft(bench)
    sitting = Sitting(bench, "approve", str(path))
    os.write(sitting.master, ahead)  # before anything is there
    sitting.until(MORE, QUESTION)
    while not sitting.output.endswith(QUESTION):
        sitting.press(b" y\ny\n", MORE, QUESTION)
    assert not select.select([sitting.master], [], [], 0.5)[0], "the question waits"
    assert path.exists() and sitting.end(b"\n") == 2 and path.exists()
    assert b"not approved; nothing was changed" in sitting.output


def test_the_question_of_a_short_draft_has_no_answer_from_before_either(bench: Bench) -> None:
    path = bench.draft(data=None, code="print(1)")
    sitting = Sitting(bench, "approve", str(path), rows=60)
    os.write(sitting.master, b"y\ny\ny\n")
    sitting.until(QUESTION)
    assert MORE not in sitting.output, "it fits"
    assert not select.select([sitting.master], [], [], 0.5)[0] and path.exists()
    assert sitting.end(b"y\n") == 0 and not path.exists()


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_lines_move_one_by_one_and_back(bench: Bench, terminal: str) -> None:
    path = long_draft(bench)
    wanted = [str(line).rstrip() for line in screen_of(bench, path)]
    sitting = Sitting(bench, "approve", str(path), TERM=terminal)
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    stream.feed(sitting.until(MORE))
    assert place(sitting.output)[:2] == (1, 23)
    for keys, first in (
        (b"k", 1),
        (b"j", 2),
        (b"\x1b[B", 3),
        (b"x", 3),
        (b"k", 2),
        (b"\x1b[A", 1),
        (b" ", 20),
        (b"b", 1),
    ):
        if keys == b"x":
            os.write(sitting.master, keys)
            continue
        stream.feed(sitting.press(keys, MORE))
        assert place(sitting.output)[:2] == (first, first + 22), keys
        assert [row.rstrip() for row in screen.display][:-1] == wanted[first - 1 : first + 22], keys
    assert sitting.end(b"q") == 2 and path.exists()
    assert b"not approved; nothing was changed" in sitting.output and QUESTION not in sitting.output


@pytest.mark.parametrize(("rows", "columns"), [(9, 80), (24, 39), (1, 1)])
def test_a_terminal_that_is_too_small_is_said_so(bench: Bench, rows: int, columns: int) -> None:
    path = long_draft(bench)
    sitting = Sitting(bench, "approve", str(path), rows=rows, columns=columns)
    assert sitting.end(b"") == 2 and path.exists()
    said = sitting.output.replace(b"\r\n", b"")
    assert (b"make it" in said or columns == 1) and QUESTION not in said


def test_a_terminal_that_changes_starts_again_or_waits(bench: Bench) -> None:
    path = long_draft(bench)
    sitting = Sitting(bench, "approve", str(path), columns=75)
    sitting.until(MORE)
    sitting.press(b" ", MORE)
    assert place(sitting.output)[0] > 1
    sitting.resize(24, 30)
    sitting.until(b"make it 40 columns and 10 row")
    sitting.resize(20, 80)
    sitting.until(MORE)
    assert place(sitting.output)[:2] == (1, 19), "lines for another width are others, and none was seen"
    sitting.press(b" ", MORE)
    sitting.resize(40, 80)
    sitting.until(MORE)
    assert place(sitting.output)[1] == 34, "for another height they are the same"
    assert sitting.end(b"\x04") == 2 and path.exists()


@pytest.mark.parametrize(("words", "whole"), [((), False), (("--full",), True)])
def test_how_it_was_read_is_recorded_as_the_application_does(bench: Bench, words: tuple[str, ...], whole: bool) -> None:
    path = bench.draft(data=b"1\n" * 200)  # the short form leaves some of the input out
    sitting = Sitting(bench, "approve", str(path), *words, rows=50)
    sitting.until(MORE, QUESTION)
    while not sitting.output.endswith(QUESTION):
        sitting.press(b" ", MORE, QUESTION)
    assert sitting.end(b"y\n") == 0
    (event,) = [event for event in Trail(bench.workspace).events() if event.type == "approved"]
    assert event.data["read_whole"] is whole and 0 <= event.data["read_seconds"] < 60


def test_a_terminal_that_goes_leaves_nothing(bench: Bench) -> None:
    path = long_draft(bench)
    sitting = Sitting(bench, "approve", str(path))
    sitting.until(MORE)
    os.close(sitting.master)
    assert sitting.process.wait(60) != 0 and path.exists()
    assert not [pid for pid, text in processes() if os.fsencode(path) in text]


def test_with_yes_and_off_a_terminal_nothing_is_paged(bench: Bench) -> None:
    path = long_draft(bench)
    sitting = Sitting(bench, "approve", str(path), "--yes")
    assert sitting.end(b"") == 0 and MORE not in sitting.output and not path.exists()
