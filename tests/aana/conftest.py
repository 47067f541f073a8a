"""The conformance data of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def conformance() -> list[dict[str, Any]]:
    """Every line of the conformance file."""
    return [json.loads(line) for line in (DATA / "aana_cases.jsonl").read_text().splitlines()]


@pytest.fixture(scope="session")
def recorded() -> list[dict[str, Any]]:
    """Events with what the reference SDK answered at 2026-05-14T00:00:00Z: route, executes, blockers."""
    return [json.loads(line) for line in (DATA / "aana_recorded.jsonl").read_text().splitlines()]
