"""Somebody who runs agents at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plugins.agents.conftest import jail_programs
from tests.plugins.agents.people import Person, person


@pytest.fixture
def user() -> Iterator[Person]:
    jail_programs()
    with person("user") as who:
        yield who
