"""No kill and no fault leaves anything of a plugin half done: tests/crash, with the plugins' scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import slow
from tests.crash.crashing import (
    ROUNDS,
    crash_folder,
    failing_disk,
    failing_disk_everywhere,
    killed,
    killed_at_some,
    scenarios_of,
)

HERE = Path(__file__).parent
TABLES = [f"tests.plugins.{path.parent.name}.crash_scenarios" for path in sorted(HERE.glob("*/crash_scenarios.py"))]
ALL = scenarios_of(*TABLES)


@pytest.fixture
def folder() -> Iterator[Path]:
    with crash_folder() as path:
        yield path


def test_the_floors_add_up_to_what_was_promised() -> None:
    every = {**ALL, **scenarios_of("tests.crash.scenarios")}
    assert sum(scenario.floor[1] for scenario in every.values()) * ROUNDS >= 10_000


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
@pytest.mark.parametrize("name", [name for name, scenario in ALL.items() if scenario.faults])
def test_a_fault_at_every_operation(folder: Path, name: str) -> None:
    failing_disk(folder, name, ALL[name])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_ten_thousand_kills(folder: Path, name: str, turn: int) -> None:
    """One of ten thousand kills after the other, in parts: ``THREEGATE_SOAK=1 pytest tests/plugins/test_crash.py
    -k 'ten_thousand and change'``.
    """
    killed(folder, name, ALL[name], 7000)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", ALL)
def test_every_fault_at_every_operation(folder: Path, name: str) -> None:
    failing_disk_everywhere(folder, name, ALL[name])
