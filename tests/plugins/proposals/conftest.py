"""The workspaces that tests of proposals begin with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.conftest import engine_host
from tests.support import Place, make_place


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A new workspace with the operator alice."""
    return make_bench(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A fresh workspace with a real key."""
    return make_place(tmp_path)


@pytest.fixture
def era_place(tmp_path: Path) -> Place:
    """A fresh workspace that uses the test engine and its ERA image (the test is marked `engine`)."""
    settings = {
        "runners.era.engine": engine_host() or "",
        "runners.era.image": os.environ["THREEGATE_TEST_IMAGE"],
    }
    return make_place(tmp_path, settings=settings)
