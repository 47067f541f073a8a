"""Keys are made once a run; each test has a workspace of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.approval import material


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "operator")


@pytest.fixture(scope="session")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's key."""
    return material.make_key(tmp_path_factory.mktemp("keys"), "other", "ecdsa")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A new workspace with the operator alice."""
    return make_bench(tmp_path)
