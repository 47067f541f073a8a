"""A run with a lease ends when no beat comes, also if the process that watches it only stands still: no engine here."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine_fixtures import clearance, control, monty_job
from tests.runners.watched import AT_WORK, Watched
from tests.support import children, wait_until
from threegate.runners.interface import Outcome, unheard
from threegate.runners.lease import Minder
from threegate.runners.minder import since_boot
from threegate.runners.monty.runner import MontyRunner

ALIVE = "RSD"
"""States of a process that could still do something: a stopped parent does not bury its children."""


def alive(parent: int) -> set[int]:
    """Monty's workers that are running."""
    return set().union(*(children(parent, "monty", state) for state in ALIVE))


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "7 ** (6 * 10**7)", "while True: time.sleep(0.001)", "time.sleep(90)"],
    ids=["a loop", "one long operation", "calls of the host", "a sleep"],
)
def test_its_watcher_stands_still_and_the_run_ends(code: str, tmp_path: Path) -> None:
    # After the sleep the host has what was printed.
    code = f"import time\nprint('{AT_WORK}')\ntime.sleep(0.01)\n{code}"
    watched = Watched(tmp_path, "monty", code, lease=2, time_sec=100, memory_mb=512)
    try:
        watched.wait_at_work()
        assert len(alive(watched.pid)) == 1
        watched.stand_still()
        wait_until(lambda: not alive(watched.pid), "the end of the run", 20)
        watched.go_on()
        assert watched.ends() == [
            {"status": "interrupted", "detail": unheard(2), "out": []},
            {"status": "succeeded", "detail": "The code ran to completion.", "out": ["result.json"]},
        ]
    finally:
        watched.close()


def test_beats_keep_a_run_for_longer_than_its_lease(tmp_path: Path) -> None:
    steer = control(tmp_path)
    steer.begin_lease(2)
    runner = MontyRunner(0)
    try:
        job = monty_job("import time\nfor _ in range(60): time.sleep(0.1)", time_sec=60)
        outcome = runner.run(clearance(job), job, steer)
        assert outcome.status == "succeeded" and outcome.wall_ms > 4_000, outcome
    finally:
        runner.close()


def test_a_run_does_not_begin_after_its_lease(tmp_path: Path) -> None:
    """The process stood still between the start token and the start."""
    steer = control(tmp_path)
    steer.lease_sec, steer.leased = 7, since_boot() - 7
    runner = MontyRunner(0)
    try:
        job = monty_job("print('began')")
        outcome = runner.run(clearance(job), job, steer)
        assert (outcome.status, outcome.stdout.size) == ("interrupted", 0)
        assert outcome.detail == "It was not started: its lease of 7 s ended before that."
    finally:
        runner.close()


def test_a_run_does_not_outlive_what_would_end_it(tmp_path: Path) -> None:
    steer = control(tmp_path)
    steer.begin_lease(30)
    runner = MontyRunner(0)
    outcomes: list[Outcome] = []
    job = monty_job(f"print('{AT_WORK}')\nwhile True: pass", time_sec=100)
    before = minders()
    thread = threading.Thread(target=lambda: outcomes.append(runner.run(clearance(job), job, steer)))
    thread.start()
    try:
        wait_until(steer.output.line, "a run at work")
        (minder,) = wait_until(lambda: minders() - before, "a minder that sleeps")
        os.kill(minder, signal.SIGKILL)
        thread.join(30)
        assert outcomes[0].status == "interrupted"
        assert outcomes[0].detail == "Ended because the process that would end it without beats is gone."
    finally:
        steer.cancelled.set()
        thread.join(30)
        runner.close()
    assert minders() == before


def minders() -> set[int]:
    """The processes of `minder` that this process started."""
    return {
        pid
        for pid in children(os.getpid(), "python", "S") | children(os.getpid(), "python", "T")
        if b"ends runs from outside" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }


@pytest.fixture
def sleeper() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process, and its pidfd."""
    process = subprocess.Popen(["sleep", "300"])
    pidfd = os.pidfd_open(process.pid)
    yield process, pidfd
    os.close(pidfd)
    process.kill()
    process.wait()


def test_beats_that_waited_renew_nothing(sleeper: tuple[subprocess.Popen[bytes], int]) -> None:
    """All processes of a worker stand still and go on: what it sends then comes too late."""
    process, pidfd = sleeper
    before = minders()
    minder = Minder()
    try:
        (pid,) = wait_until(lambda: minders() - before, "a minder that sleeps")
        minder.take(pidfd, 2.0)
        os.kill(pid, signal.SIGSTOP)
        began = since_boot()
        wait_until(lambda: minder.beat() or since_boot() > began + 3, "a pause", 20)
        assert process.poll() is None and minder.over() is None
        os.kill(pid, signal.SIGCONT)
        process.wait(20)
        assert wait_until(minder.over) == unheard(2)
    finally:
        minder.close()


def test_the_shortest_lease_counts_and_a_process_that_ended_has_none(
    sleeper: tuple[subprocess.Popen[bytes], int],
) -> None:
    process, pidfd = sleeper
    minder = Minder()
    try:
        minder.take(pidfd, 30.0)
        with subprocess.Popen(["true"]) as short:
            other = os.pidfd_open(short.pid)
            minder.take(other, 1.0)
            os.close(other)
        began = since_boot()
        wait_until(lambda: since_boot() > began + 2, "longer than the lease of the process that ended", 20)
        assert minder.over() is None and process.poll() is None
        with subprocess.Popen(["sleep", "300"]) as long:
            other = os.pidfd_open(long.pid)
            minder.take(other, 1.0)
            os.close(other)
            assert long.wait(20) == process.wait(20) == -signal.SIGKILL
        assert wait_until(minder.over) == unheard(1)
    finally:
        minder.close()


def test_a_service_that_stops_takes_no_run_away_and_the_end_of_the_watcher_does(
    sleeper: tuple[subprocess.Popen[bytes], int],
) -> None:
    process, pidfd = sleeper
    before = minders()
    minder = Minder()
    (pid,) = wait_until(lambda: minders() - before, "a minder that sleeps")
    minder.take(pidfd, 60.0)
    wait_until(lambda: ignores(pid, signal.SIGTERM), "a minder that ignores SIGTERM")
    os.kill(pid, signal.SIGTERM)
    assert process.poll() is None and minder.over() is None
    minder.close()
    assert process.wait(20) == -signal.SIGKILL
    assert not Path(f"/proc/{pid}").exists()


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigIgn:\t")[2].split()[0], 16) >> number - 1 & 1)
