"""The conformance data of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[1] / "data" / "aana_cases.jsonl"


@pytest.fixture(scope="session")
def conformance() -> list[dict[str, Any]]:
    """Every line of the conformance file."""
    return [json.loads(line) for line in CASES.read_text().splitlines()]
