"""A folder for servers, and a person with a workspace of their own, in both ways of running a jail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.agents.people import Person, person
from tests.plugins.tools.little_servers import open_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person("user") as made:
        yield made


@pytest.fixture(scope="module")
def plain_person() -> Iterator[Person]:
    """One for all tests of a module that change nothing."""
    with person("user") as made:
        yield made
