"""Each test has a workspace of its own, and a daemon's context for it whose sandbox only counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench
from tests.launch.launching import CountingRunner, daemons
from threegate.launch.context import Context


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A new workspace with the operator alice."""
    return make_bench(tmp_path)


@pytest.fixture
def runner() -> CountingRunner:
    """The sandbox."""
    return CountingRunner()


@pytest.fixture
def context(bench: Bench, runner: CountingRunner) -> Context:
    """A daemon's context."""
    return daemons(bench, runner, 1)[0]
