"""What the tests of the harness share: the scenarios of the tables, and what a whole enumeration must have covered."""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.scenarios import Scenario

ROOT = Path(__file__).parents[2]
SAMPLE = 2
"""How many places of a scenario `make test` stops at."""
ROUNDS = 9
"""How often the long form enumerates each."""


@contextmanager
def crash_folder() -> Iterator[Path]:
    """In memory where there is such a folder: what is lost is simulated, so nothing has to reach a disk."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="threegate-crash-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def scenarios_of(*modules: str) -> dict[str, Scenario]:
    """Those of the tables, by what the harness calls them: MODULE:NAME."""
    tables = {module: importlib.import_module(module).SCENARIOS for module in modules}
    return {f"{module}:{name}": scenario for module, table in tables.items() for name, scenario in table.items()}


def explore(folder: Path, mode: str, *scenarios: str, seconds: int = 240) -> list[dict]:
    """What the harness found, a summary for each scenario (MODULE:NAME[/EVERY[/OFFSET]])."""
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


def killed(folder: Path, name: str, scenario: Scenario, seconds: int) -> None:
    """Killed at every operation, and as many of them as its floor says."""
    [summary] = explore(folder, "kill", name, seconds=seconds)
    points, stops = scenario.floor
    assert summary["failures"] == []
    assert summary["points"] >= points, "fewer places than before: is there a write beside the seam?"
    assert summary["stops"] >= stops
    assert summary["lost"] > 0
    assert {"write", "sync", "sync_folder"} <= set(summary["operations"])


def killed_at_some(folder: Path, scenarios: dict[str, Scenario]) -> None:
    """At a few places of each, as many for each, whichever the seed of its name begins with."""
    asked = []
    for name, scenario in scenarios.items():
        every = scenario.floor[0] // SAMPLE
        asked.append(f"{name}/{every}/{random.Random(name.rpartition(':')[2]).randrange(every)}")
    for summary in explore(folder, "kill", *asked):
        assert summary["failures"] == [], summary
        assert summary["points"] >= SAMPLE - 1, "fewer places than before: is there a write beside the seam?"


def failing_disk(folder: Path, name: str, scenario: Scenario) -> None:
    """ENOSPC, EIO, EMFILE and EINTR in turn: a clear word or a good end, and nothing wrong after the next start."""
    [summary] = explore(folder, "fault", f"{name}/{scenario.faults}")
    assert summary["failures"] == []
    assert summary["points"] >= scenario.floor[0] // scenario.faults // 2 - 2


def failing_disk_everywhere(folder: Path, name: str, scenario: Scenario) -> None:
    """Each of ENOSPC, EIO, EMFILE and EINTR at each operation."""
    [summary] = explore(folder, "fault-all", name, seconds=7000)
    assert summary["failures"] == []
    assert summary["stops"] >= 4 * (scenario.floor[0] // 2 - 2)
