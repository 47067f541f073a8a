"""The shape of the package: few modules at its root, one name for one file, a folder of tests for each room.

The order of the rooms, and that no two modules import each other, is held by import-linter (`pyproject.toml`);
the table of docs/architecture.md must show the same order.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "threegate"
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

SAME_ROLE = {
    "action.py",
    "backend.py",
    "event.py",
    "kinds.py",
    "model.py",
    "runner.py",
    "schema.py",
    "section.py",
    "unit.py",
}
"""Names that several rooms may have, because the file has the same role in each."""


def test_at_most_four_modules_are_at_the_root() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 4


def test_a_file_name_occurs_once() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    assert {name for name, count in names.items() if count > 1} == SAME_ROLE


def test_each_room_has_tests_of_its_own() -> None:
    tested = {room for room in ROOMS if list((ROOT / "tests" / room).rglob("test_*.py"))}
    assert tested == ROOMS


def test_the_page_shows_the_floors_that_import_linter_holds() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [floors] = [item["layers"] for item in contracts if item["type"] == "layers"]
    held = {room: number for number, rooms in enumerate(reversed(floors), 1) for room in rooms.split(" | ")}
    page = (ROOT / "docs" / "architecture.md").read_text()
    shown = {room: int(floor) for floor, room in re.findall(r"^\| (\d+) \| `(\w+)/` \|", page, re.MULTILINE)}
    assert shown == held and set(shown) == ROOMS


def test_the_spine_is_there_and_is_read_in_a_day() -> None:
    named = re.findall(r"^\| `([\w/]+\.py)` \|", (ROOT / "docs" / "reading.md").read_text(), re.MULTILINE)
    assert len(named) == len(set(named)) > 30 and not any(name.startswith("plugins/") for name in named)
    assert sum(len((PACKAGE / name).read_text().splitlines()) for name in named) <= 12_000
