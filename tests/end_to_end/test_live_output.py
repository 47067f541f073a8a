"""The last line of what runs: on the screens of the operator while it runs, in no way once it has ended."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import Place, era_draft, monty_draft, request_id

SECRET = "ghp_" + "a1B2" * 9
HOSTILE = "print('first')\nprint('\\x1b[2Jdone\\u202e', 'gh' + 'p_' + 'a1B2' * 9)\n"
BUSY = "i = 0\nwhile True:\n    i += 1\n"


@contextmanager
def following(place: Place, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`show --follow` of a request, off a terminal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "threegate", "show", "--follow", *words],
        cwd=place.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def rows_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The rows up to the first one with these words."""
    assert process.stdout is not None and process.stderr is not None
    rows: list[str] = []
    for row in process.stdout:
        rows.append(row.rstrip("\n"))
        if words in row:
            return rows
    raise AssertionError((rows, process.stderr.read()))


def begun(place: Place, code: str) -> str:
    """A request of this code, approved."""
    rid = request_id("live")
    place.approve(place.drop(monty_draft(rid, code, time_sec=60)))
    return rid


@pytest.mark.slow
def test_a_run_is_followed_to_the_end_that_an_operator_makes(place: Place) -> None:
    rid = begun(place, HOSTILE + BUSY)
    daemon = place.daemon()
    try:
        with following(place, rid) as process:
            row = rows_until(process, "stdout ")[-1]
            assert row.startswith("stdout    ") and "| \\x1b[2Jdone\\u202e " in row
            assert SECRET not in row and "first" not in row
            (line,) = place.run("--json", "status", expect=0).json()["requests"]
            assert line["output"]["stream"] == "stdout" and SECRET not in line["output"]["line"]
            # The agent's side has nothing of it.
            assert not any(b"2Jdone" in path.read_bytes() for path in place.root.glob("tool-exec/verdicts/*"))
            place.run("cancel", rid, "--wait", "60", expect=0)
            out, _ = process.communicate(timeout=30)
            assert process.returncode == 0
            assert "refused" in out and "cancelled" in out and "result    /" in out
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert [path.name for path in (place.root / "tool-exec" / "control").iterdir()] == ["reserve"]
    place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_a_daemon_that_was_killed_is_said_so_and_the_next_one_ends_it(place: Place) -> None:
    rid = begun(place, "print('alive')\n" + BUSY)
    daemon = place.daemon()
    try:
        with following(place, "--json", rid) as process:
            rows = rows_until(process, '"alive"')
            assert json.loads(rows[-1])["state"] == "running"
            daemon.send_signal(signal.SIGKILL)
            daemon.communicate(timeout=60)
            _, err = process.communicate(timeout=30)
            assert process.returncode == 3 and "the daemon that ran it is gone" in err and "threegate run" in err
    finally:
        daemon.kill()
        daemon.communicate()
    assert (place.root / "tool-exec" / "control" / "output.json").exists()
    (line,) = place.run("--json", "status", expect=0).json()["requests"]
    assert line["state"] == "running" and line["output"] is None, "what it wrote last is not told as the present"
    place.once()
    assert not (place.root / "tool-exec" / "control" / "output.json").exists()
    done = place.run("show", "--follow", rid, expect=0)
    assert "interrupted" in done.out


@pytest.mark.slow
def test_on_a_terminal_the_rows_are_drawn_again(place: Place) -> None:
    rid = begun(place, "print('one')\n" + BUSY)
    daemon = place.daemon()
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "threegate", "show", "--follow", rid],
            cwd=place.root, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        while b"stdout    | one" not in seen:
            assert select.select([ours], [], [], 60)[0], seen
            seen += os.read(ours, 4096)
        place.run("cancel", rid, "--wait", "60", expect=0)
        while select.select([ours], [], [], 60)[0]:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # nobody writes there any more
                break
        assert process.wait(timeout=30) == 0
    finally:
        os.close(ours)
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert b"F\x1b[J" in seen and b"running" in seen and b"refused" in seen
    assert "cancelled" in place.result(rid)


@pytest.mark.slow
@pytest.mark.engine
def test_a_container_is_followed(era_place: Place) -> None:
    rid = request_id("live")
    script = b"import time\nprint('short', flush=True)\ntime.sleep(600)\n"
    sha = era_place.input("s.py", script)
    era_place.approve(era_place.drop(era_draft(rid, "python3 /in/s.py", inputs={"s.py": sha}, time_sec=900)))
    daemon = era_place.daemon()
    try:
        with following(era_place, rid) as process:
            # Fewer bytes than PID 1's last line, which are held back from the record until the end.
            assert rows_until(process, "stdout ")[-1] == "stdout    | short"
            era_place.run("cancel", rid, "--wait", "60", expect=0)
            out, _ = process.communicate(timeout=30)
            assert process.returncode == 0 and "refused" in out
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert "short" in era_place.result(rid)
