"""No kill and no fault at any operation of the disk loses a request, runs one twice, or leaves one stuck.

`harness.py` does the work in a process of its own and prints what it covered. The floors of the scenarios say how much
that was when the code was written: fewer points mean that the seam was bypassed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import long_form, slow
from tests.crash.crashing import (
    ROUNDS,
    SAMPLE,
    crash_folder,
    explore,
    failing_disk,
    failing_disk_everywhere,
    killed,
    killed_at_some,
    scenarios_of,
)

ALL = scenarios_of("tests.crash.scenarios")
FAULTY = [name for name, scenario in ALL.items() if scenario.faults]


@pytest.fixture
def folder() -> Iterator[Path]:
    with crash_folder() as path:
        yield path


def test_a_fault_at_some_operations(folder: Path) -> None:
    [summary] = explore(folder, "fault", "tests.crash.scenarios:approve/12/3")
    assert summary["failures"] == []
    assert summary["points"] >= SAMPLE // 2


@pytest.mark.parametrize("turn", [0, slow(1), slow(2), slow(3)])
def test_killed_at_some_operations(folder: Path, turn: int) -> None:
    """Before and after an operation; the unsynced writes survive, are lost, or are torn."""
    killed_at_some(folder, {name: ALL[name] for name in list(ALL)[turn::4]})


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ALL)
def test_killed_at_every_operation(folder: Path, name: str) -> None:
    killed(folder, name, ALL[name], 850)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", long_form(FAULTY, "tests.crash.scenarios:pass", "tests.crash.scenarios:reject"))
def test_a_fault_at_every_operation(folder: Path, name: str) -> None:
    failing_disk(folder, name, ALL[name])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_ten_thousand_kills(folder: Path, name: str, turn: int) -> None:
    """One of ten thousand kills after the other, in parts: ``THREEGATE_SOAK=1 pytest tests/crash -k 'ten_thousand
    and recovery'``.
    """
    killed(folder, name, ALL[name], 7000)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", ALL)
def test_every_fault_at_every_operation(folder: Path, name: str) -> None:
    failing_disk_everywhere(folder, name, ALL[name])
