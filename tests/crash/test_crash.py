"""No kill and no fault at any operation of the disk loses a request, runs one twice, or leaves one stuck.

`harness.py` does the work in a process of its own and prints what it covered. The floors below say how much that
was when the code was written: fewer points mean that the seam was bypassed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import few

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a folder: what is lost is simulated, so nothing has to reach a disk."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="threegate-crash-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def explore(folder: Path, mode: str, *scenarios: str, seconds: int = 240) -> list[dict]:
    """What the harness found, a summary for each scenario (NAME[/EVERY[/OFFSET]])."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.harness", str(folder), mode, *scenarios, "--seconds", str(seconds)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=7200,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"scenario"')]
    for one in found:
        print(f"{one['scenario']} {mode}: {one['points']} points, {one['stops']} stops, {one['seconds']} s")
    assert len(found) == len(scenarios)
    return found


FLOORS = {
    "pass": (160, 390),
    "recovery": (34, 56),
    "approve": (54, 105),
    "reject": (40, 80),
    "cancel": (30, 55),
    "countersign": (15, 26),
    "grant": (165, 380),
    "change": (132, 300),
    "undo": (20, 30),
    "branch": (125, 300),
    "branch_undo": (20, 34),
    "note": (18, 27),
    "note_removed": (18, 27),
    "server": (20, 32),
    "server_changed": (30, 45),
    "prune": (15, 21),
    "rotate": (60, 110),
    "adopt": (15, 26),
}
"""Points and stops of one whole enumeration: what was covered when this was written, less what threads may vary."""

MORE_FLOORS = {"commits": (125, 300)}
"""Of scenarios that repeat a family, and are enumerated with the slow tests only."""

SAMPLE = 2
"""How many places of a scenario `make test` stops at."""

FAULTS = {"pass": 2, "approve": 2, "reject": 2, "prune": 3, "change": 10}
"""Scenarios whose disk fails, and every how many-th operation of them; the long form leaves none out."""

ROUNDS = 9


def killed(folder: Path, scenario: str, seconds: int) -> None:
    [summary] = explore(folder, "kill", scenario, seconds=seconds)
    points, stops = {**FLOORS, **MORE_FLOORS}[scenario]
    assert summary["failures"] == []
    assert summary["points"] >= points, "fewer places than before: is there a write beside the seam?"
    assert summary["stops"] >= stops
    assert summary["lost"] > 0
    assert {"write", "sync", "sync_folder"} <= set(summary["operations"])


def some(scenario: str) -> str:
    """A few places of a scenario, as many for each, whichever the seed of its name begins with."""
    every = FLOORS[scenario][0] // SAMPLE
    return f"{scenario}/{every}/{random.Random(scenario).randrange(every)}"


def test_the_floors_add_up_to_what_was_promised() -> None:
    assert sum(stops for _, stops in FLOORS.values()) * ROUNDS >= 10_000


@pytest.mark.parametrize("turn", few(range(4), 1))
def test_killed_at_some_operations(folder: Path, turn: int) -> None:
    """Before and after an operation; the unsynced writes survive, are lost, or are torn."""
    for summary in explore(folder, "kill", *map(some, list(FLOORS)[turn::4])):
        assert summary["failures"] == [], summary
        assert summary["points"] >= SAMPLE - 1, "fewer places than before: is there a write beside the seam?"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", [*FLOORS, *MORE_FLOORS])
def test_killed_at_every_operation(folder: Path, scenario: str) -> None:
    killed(folder, scenario, 850)


def test_a_fault_at_some_operations(folder: Path) -> None:
    [summary] = explore(folder, "fault", "approve/12/3")
    assert summary["failures"] == []
    assert summary["points"] >= SAMPLE // 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("scenario", "every"), FAULTS.items())
def test_a_fault_at_every_operation(folder: Path, scenario: str, every: int) -> None:
    """ENOSPC, EIO, EMFILE and EINTR in turn: a clear word or a good end, and nothing wrong after the next start."""
    [summary] = explore(folder, "fault", f"{scenario}/{every}")
    assert summary["failures"] == []
    assert summary["points"] >= FLOORS[scenario][0] // every // 2 - 2


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("scenario", FLOORS)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_ten_thousand_kills(folder: Path, scenario: str, turn: int) -> None:
    """One of ten thousand kills after the other, in parts: ``THREEGATE_SOAK=1 pytest tests/crash -k 'ten_thousand
    and change'``.
    """
    killed(folder, scenario, 7000)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("scenario", FLOORS)
def test_every_fault_at_every_operation(folder: Path, scenario: str) -> None:
    """Each of ENOSPC, EIO, EMFILE and EINTR at each operation."""
    [summary] = explore(folder, "fault-all", scenario, seconds=7000)
    assert summary["failures"] == []
    assert summary["stops"] >= 4 * (FLOORS[scenario][0] // 2 - 2)
