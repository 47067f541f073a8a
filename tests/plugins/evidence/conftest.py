"""One environment without ThreeGate for all tests of packs."""

from __future__ import annotations

import pytest

from tests.plugins.evidence.outside import Outside, make_outside


@pytest.fixture(scope="session", name="outside")
def an_environment_without_us(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    return make_outside(tmp_path_factory.mktemp("outside") / "env")
