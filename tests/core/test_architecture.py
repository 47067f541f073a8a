"""The shape of the package: few modules at its root, one name for one file, a folder of tests for each room.

The order of the rooms, and that no two modules import each other, is held by import-linter (`pyproject.toml`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "threegate"
TESTS = PACKAGE.parent / "tests"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))

SAME_ROLE = {"event.py", "model.py", "runner.py", "schema.py"}
"""Names that several rooms may have, because the file has the same role in each."""
UNTESTED_ROOMS = {"launch", "review"}
"""Rooms whose tests still lie in other folders; their own are being written, and this must be empty then."""


def test_at_most_four_modules_are_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 4


def test_a_file_name_occurs_once() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    assert {name for name, count in names.items() if count > 1} == SAME_ROLE


def test_each_room_has_tests_of_its_own() -> None:
    tested = {room for room in ROOMS if list((TESTS / room).rglob("test_*.py"))}
    assert len(ROOMS) > 20 and set(ROOMS) - tested == UNTESTED_ROOMS
