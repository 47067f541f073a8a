"""A real daemon process: hints, graceful stop, kill -9, one at a time, a thousand drafts."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.conftest import slow, soak
from tests.support import Place, monty_draft, request_id, wait_until
from threegate.core.workspace import Workspace


def test_it_works_as_files_come_and_stops_gracefully(place: Place) -> None:
    rid = request_id("live")
    daemon = place.daemon()
    try:
        draft = place.drop(monty_draft(rid, "40 + 2"))
        place.wait_for(f"verdicts/{draft.name}.json")
        place.approve(draft)
        place.wait_for(f"finished/{draft.name}")
        started = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        _, err = daemon.communicate(timeout=20)
        assert time.monotonic() - started < 15
    finally:
        daemon.kill()
    assert daemon.returncode == 0, err
    assert b"Traceback" not in err
    assert "status: succeeded" in place.result(rid)


@pytest.mark.slow
def test_sigterm_interrupts_what_runs_and_says_so(place: Place) -> None:
    rid = request_id("long")
    place.approve(place.drop(monty_draft(rid, "while True: pass", time_sec=120)))
    daemon = place.daemon()
    try:
        wait_until(lambda: place.events("started"), "a run")
        place.wait_for(f"runs/{rid}/in")
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=30)
    finally:
        daemon.kill()
    assert "status: interrupted" in place.result(rid)
    place.once()
    assert len(place.events("started")) == 1
    place.run("audit", "verify", expect=0)


def test_kill_9_while_a_request_runs(place: Place) -> None:
    rid, after = request_id("killed"), request_id("after")
    place.approve(place.drop(monty_draft(rid, "while True: pass", time_sec=120)))
    daemon = place.daemon()
    try:
        place.wait_for(f"runs/{rid}/out")
        wait_until(lambda: place.events("started"), "a run")
    finally:
        daemon.send_signal(signal.SIGKILL)
        daemon.communicate(timeout=10)
    place.approve(place.drop(monty_draft(after, "6 * 7")))
    place.once()
    assert "status: interrupted" in place.result(rid)
    assert "status: succeeded" in place.result(after)
    assert len([event for event in place.events("started") if event["request_id"] == rid]) == 1
    assert list((place.root / "tool-exec" / "running").iterdir()) == []
    place.run("audit", "verify", expect=0)


@pytest.mark.slow
def test_a_second_daemon_leaves(place: Place) -> None:
    daemon = place.daemon()
    try:
        wait_until(Workspace(place.root).daemon_lock_held, "a daemon's lock")
        done = place.once(expect=3)
        assert "another daemon is running here" in done.err
        assert str(daemon.pid) in done.err
    finally:
        daemon.terminate()
        daemon.communicate(timeout=20)


@pytest.mark.parametrize("many", [slow(300), soak(1000)])
def test_many_drafts_get_verdicts_and_memory_stays_flat(place: Place, many: int) -> None:
    daemon = place.daemon()
    try:
        first = place.drop(monty_draft(request_id("first"), "1"))
        place.wait_for(f"verdicts/{first.name}.json")
        before = resident_kib(daemon.pid)
        text = monty_draft("TR-many-NUMBER", "1 + 1")
        for number in range(many):
            place.drop(text.replace("NUMBER", f"{number:04d}"))
        verdicts = place.root / "tool-exec" / "verdicts"
        wait_until(lambda: len(os.listdir(verdicts)) == many + 1 or daemon.poll() is not None, "their verdicts", 120)
        assert daemon.poll() is None
        grown = resident_kib(daemon.pid) - before
        daemon.terminate()
        _, err = daemon.communicate(timeout=30)
    finally:
        daemon.kill()
    assert grown < 64 * many, f"{grown} KiB more after {many} drafts"
    assert all(place.verdict(f"TR-many-{number:04d}.md")["valid"] for number in (0, many // 2, many - 1))
    assert b"Traceback" not in err


def resident_kib(pid: int) -> int:
    """Resident memory of a process in KiB."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
