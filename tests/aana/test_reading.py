"""Bytes to decisions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threegate import aana

NOW = datetime(2026, 5, 10, tzinfo=UTC)


def test_good_bytes_are_the_same_as_the_event(conformance: list[dict[str, Any]]) -> None:
    for case in conformance:
        data = json.dumps(case["event"]).encode()
        assert aana.check_bytes(data, now=NOW) == aana.check_tool_call(case["event"], now=NOW)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense ghp_a1B2c3",
        b"\xff\xfe",
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b"[" * 70,
        b" " * 65537,
        b'"\\ud800"',
    ],
)
def test_what_cannot_be_read_is_refused_and_written_down(data: bytes, tmp_path: Path) -> None:
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    result = aana.check_bytes(data, now=NOW, log=log, surface="cli")
    assert result["recommended_action"] == "refuse"
    assert result["validation_errors"][0]["message"].startswith("cannot be read as JSON: ")
    assert "ghp_" not in json.dumps(result)
    assert aana.check_bytes(data, now=NOW) == result
    assert json.loads(log.path.read_text())["route"] == "refuse"
