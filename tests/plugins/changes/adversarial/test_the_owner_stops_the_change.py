"""A project's owner stops, kills or delays the process that works in their project with their account.

They could do that at any moment, so the process here does it to itself, at a chosen one.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.changes.applying import picture, place_of
from tests.plugins.changes.end_to_end.test_change_sets import Proposed
from tests.support import THREEGATE, wait_until
from threegate.core.workspace import Workspace
from threegate.plugins.changes.apply.apply_journal import STAGE, first_line
from threegate.plugins.changes.cut_off_changes import undo_journal
from threegate.trail.trail import Trail

pytestmark = pytest.mark.root

OWNER_ACTS = """
import os, signal, sys, time
if "threegate.plugins.changes.apply.as_owner" in sys.orig_argv:
    orders = os.path.join(os.path.dirname(__file__), "orders")
    word, *rest = open(orders).read().split() or [""]
    open(orders, "w").write(" ".join(rest))

    def act():
        open(orders + ".done", "a").write(word + "\\n")
        if word.startswith("sleep"):
            time.sleep(600)
        else:
            os.kill(os.getpid(), signal.SIGSTOP if word.startswith("stop") else signal.SIGKILL)

    if word.endswith("-now"):
        act()
    elif word:
        done = os.open(orders + ".done", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        from threegate.core import durable
        seen = []

        def look(moment, operation, path):
            if operation in ("rename", "exchange") and moment == "after":
                seen.append(path)
                if len(seen) == 2:
                    os.write(done, (word + "\\n").encode())
                    if word == "sleep":
                        time.sleep(600)
                    os.kill(os.getpid(), signal.SIGSTOP if word == "stop" else signal.SIGKILL)

        durable.observe(look)
"""
"""What the first children do, one word for each: stop, kill or sleep after the second rename, or at once (-now)."""


class Case(Proposed):
    """An approved change, and a project owner who acts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place.approve(self.draft)
        self.acts = folder / "acts"
        self.acts.mkdir()
        (self.acts / "sitecustomize.py").write_text(OWNER_ACTS)
        self.order("")

    def order(self, words: str) -> None:
        (self.acts / "orders").write_text(words)

    def acted(self) -> str:
        path = self.acts / "orders.done"
        return path.read_text() if path.exists() else ""

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*THREEGATE, *words], cwd=self.place.root, env={**os.environ, "PYTHONPATH": str(self.acts)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def once(self) -> None:
        _, err = self.start("run", "--once").communicate(timeout=60)
        assert b"Traceback" not in err, err

    def undo(self) -> subprocess.Popen[bytes]:
        return self.start("project", "undo", self.request_id, "--as", "operator", "--key", str(self.place.key), "--yes")

    def ends(self) -> list[dict[str, Any]]:
        return [event["data"] for event in self.place.events() if event["type"] in ("finished", "cancelled")]


@pytest.mark.parametrize("how", ["stop", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_change_whose_process_is_stopped_fails_and_is_reverted(tmp_path: Path, how: str) -> None:
    case = Case(tmp_path)
    case.order(how)
    case.once()
    assert case.acted() == f"{how}\n"
    [end] = case.ends()
    assert end["status"] == "failed" and "nothing was changed" in case.place.result(case.request_id)
    assert picture(case.project) == case.before


@pytest.mark.soak
def test_a_change_that_cannot_be_reverted_either_is_reverted_by_the_next_start(tmp_path: Path) -> None:
    """The record does not say that nothing was changed, and what is needed for reverting is kept."""
    case = Case(tmp_path)
    case.order("stop stop-now kill-now stop-now")
    case.once()
    assert case.acted().split() == ["stop", "stop-now", "kill-now", "stop-now"]
    result = case.place.result(case.request_id)
    assert case.ends()[0]["status"] == "failed" and "cannot be reverted now" in result
    assert "nothing was changed" not in result
    assert picture(case.project) != case.before and (case.project / STAGE).exists()
    case.once()
    assert picture(case.project) == case.before
    case.once()  # and again there is nothing left to do
    case.place.run("audit", "verify", expect=0)


def test_cancel_is_answered_while_the_process_does_nothing(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.order("sleep")
    daemon = case.start("run")
    try:
        wait_until(case.acted, "a change that is half made")
        said = case.place.run("cancel", case.request_id, "--wait", "30", expect=0, timeout=60)
        assert "cancelled" in said.out, said
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
    assert picture(case.project) == case.before


def test_the_trail_is_free_while_an_undo_is_held_up(tmp_path: Path) -> None:
    """And another process neither reverts the undo that is in progress, nor starts a second one."""
    case = Case(tmp_path)
    case.once()
    changed = picture(case.project)
    case.order("sleep")
    undo = case.undo()
    try:
        wait_until(case.acted, "an undo that is half made")
        got = threading.Event()

        def look() -> None:
            with Trail(Workspace(case.place.root)).locked():
                got.set()

        threading.Thread(target=look, daemon=True).start()
        assert got.wait(20)
        half = picture(case.project)
        assert half != changed
        second = case.undo()
        _, err = second.communicate(timeout=60)
        assert second.returncode == 2 and b"the project moved on" in err, err
        case.once()
        assert picture(case.project) == half
        assert len(case.place.events("undo_started")) == 1
    finally:
        undo.kill()
        undo.communicate(timeout=60)
    wait_until(lambda: case.once() or picture(case.project) == changed, "the reverted undo", 30)
    assert [event["data"]["status"] for event in case.place.events("undone")] == ["interrupted"]


@pytest.mark.slow
def test_an_undo_whose_process_is_stopped_ends(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.once()
    changed = picture(case.project)
    case.order("stop")
    undo = case.undo()
    _, err = undo.communicate(timeout=60)
    assert undo.returncode == 2 and b"stopped the process" in err, err
    assert picture(case.project) == changed
    assert case.undo().wait(60) == 0 and picture(case.project) == case.before


def test_a_second_undo_that_was_planned_before_the_first_began(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.once()
    journal = undo_journal(Workspace(case.place.root), case.request_id)
    with journal.open("wb") as first:
        first.write(first_line(place_of(case.project), "t" * 16))
        first.flush()
        fcntl.flock(first, fcntl.LOCK_EX)
        undo = case.undo()
        _, err = undo.communicate(timeout=60)
        assert undo.returncode == 3 and b"another undo of it is in progress" in err, err
    assert case.undo().wait(60) == 0 and picture(case.project) == case.before
