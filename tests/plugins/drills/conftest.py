"""The workspace that most tests of drills begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acts.bench_workspace import Bench, make_bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An empty workspace with its operators."""
    return make_bench(tmp_path)
