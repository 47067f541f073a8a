"""requirements.lock fits pyproject.toml, has a hash of every file, and is what these tests run with."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from platform import python_version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lock import LOCK, ROOT, entries, unfit

TEXT = LOCK.read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_requirement_is_met_in_its_part() -> None:
    assert list(unfit(PROJECT, TEXT)) == []


@pytest.mark.parametrize(
    ("table", "old", "new", "said"),
    [
        ("dependencies", "rich>=13", "rich>=13,<14", "rich<14,>=13 of part base: locked is "),
        ("dependencies", "rich>=13", "no-such-thing>=1", "no-such-thing>=1 of part base: locked is none"),
        ("dependencies", "rich>=13", "docker>=7", "docker>=7 of part base: locked is none"),
        (
            "dependencies",
            "rich>=13",
            "rich>=99; python_version >= '3.13'",
            "(Python 3.13.12); run: make lock",
        ),
        ("era", "docker>=7", "docker>=99", "docker>=99 of part all: locked is "),
        ("dev", "ruff>=0.8", "ruff>=99", "ruff>=99 of part dev: locked is "),
    ],
)
def test_a_requirement_that_is_not_met_says_what_to_run(table: str, old: str, new: str, said: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = project["project"] if table == "dependencies" else project["project"]["optional-dependencies"]
    named[table][named[table].index(old)] = new
    lines = list(unfit(project, TEXT))
    assert lines and said in lines[0] and all(line.endswith("; run: make lock") for line in lines)


def test_every_entry_is_one_version_with_hashes_and_nothing_else_is_in_it() -> None:
    line = r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==[^ ;]+( ; [^\\\n]+)?"
    entry = rf"{line} \\\n(    --hash=sha256:[0-9a-f]{{64}} \\\n)*    --hash=sha256:[0-9a-f]{{64}}\n"
    assert re.fullmatch(rf"(#.*\n|\n|{entry})+", TEXT)


def test_these_tests_run_with_what_is_locked() -> None:
    """Otherwise: touch requirements.lock, and make again."""
    wanted = {}
    for text in entries(TEXT).values():
        for head in re.findall(r"^\S.*(?= \\\n)", text, re.M):
            requirement = Requirement(head)
            if requirement.marker is None or requirement.marker.evaluate():
                wanted[requirement.name] = str(requirement.specifier).removeprefix("==")
    here = {canonicalize_name(item.metadata["Name"]): item.version for item in distributions()}
    differs = {name: (version, here.get(name)) for name, version in wanted.items() if here.get(name) != version}
    assert differs == {}, f"Python {python_version()}: locked and installed differ"
