"""No kill and no fault at any operation of the disk loses a request, runs one twice, or leaves one stuck.

`harness.py` does the work in a process of its own and prints what it covered. The floors below say how much that
was when the code was written: fewer points mean that the seam was bypassed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a folder: what is lost is simulated, so nothing has to reach a disk."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="threegate-crash-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def explore(folder: Path, scenario: str, mode: str, *more: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.harness", str(folder / scenario), scenario, mode, *more],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    summary: dict = json.loads(done.stdout.splitlines()[-1])
    print(f"{scenario} {mode}: {summary['points']} points, {summary['stops']} stops, {summary['seconds']} s")
    return summary


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("scenario", "points", "stops"),
    [("pass", 130, 290), ("recovery", 36, 60), ("approve", 40, 75), ("reject", 40, 80)],
)
def test_killed_at_every_operation(folder: Path, scenario: str, points: int, stops: int) -> None:
    """Before and after each operation; the unsynced writes survive, are lost, or are torn."""
    summary = explore(folder, scenario, "kill", "--seconds", "850")
    assert summary["failures"] == []
    assert summary["points"] >= points, "fewer places than before: is there a write beside the seam?"
    assert summary["stops"] >= stops
    assert summary["lost"] > 0
    assert {"create", "write", "sync", "rename", "sync_folder"} <= set(summary["operations"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("scenario", "points"), [("pass", 65), ("approve", 20), ("reject", 20)])
def test_a_fault_at_every_operation(folder: Path, scenario: str, points: int) -> None:
    """ENOSPC, EIO, EMFILE and EINTR in turn: a clear word or a good end, and nothing wrong after the next start."""
    summary = explore(folder, scenario, "fault", "--every", "2")
    assert summary["failures"] == []
    assert summary["points"] >= points // 2


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ten_thousand_kills(folder: Path) -> None:
    """Everything again and again, and every fault at every operation, until 10,000 stops."""
    stops, began = 0, time.monotonic()
    while stops < 10_000:
        for scenario in ("pass", "recovery", "approve", "reject"):
            for mode in ("kill", "fault-all"):
                summary = explore(folder, scenario, mode, "--seconds", "800")
                assert summary["failures"] == []
                stops += summary["stops"]
                shutil.rmtree(folder / scenario)
    print(f"{stops} stops in {time.monotonic() - began:.0f} s")
