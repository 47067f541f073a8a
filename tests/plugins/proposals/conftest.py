"""The workspaces that tests of proposals begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A new workspace with the operator alice."""
    return make_bench(tmp_path)
