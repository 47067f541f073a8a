"""Callers of POST /contracts/decide who fill the server's memory through one session."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.plugins.serve.test_workspace_gates import lay
from tests.support import make_place
from threegate.aana import DecisionLog
from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace
from threegate.plugins.serve.workspace_gates import WorkspaceGates

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkspaceGates:
    monkeypatch.setattr(limits, "SERVE_CONTRACT_STATE_BYTES", 20_000)
    place = make_place(tmp_path)
    lay(place.root, {"send": {}, "session": {}})
    return WorkspaceGates(Workspace(place.root), DecisionLog(tmp_path / "d.jsonl"))


def decide(gates: WorkspaceGates, labels: list[str]) -> None:
    line = {"tool": "send", "arguments": {}, "labels": labels, "outcome": "succeeded"}
    assert gates.decide_call(json.dumps(line).encode(), NOW)["verdict"] == "allow"


def test_labels_of_one_session_do_not_fill_the_memory(gates: WorkspaceGates) -> None:
    with pytest.raises(Unavailable, match="restart the server"):
        for number in range(100):
            decide(gates, [f"{number}-{more}" for more in range(100)])
    assert number < 30
    with pytest.raises(Unavailable, match="restart the server"):
        decide(gates, [])


def test_what_is_not_kept_takes_no_room(gates: WorkspaceGates) -> None:
    for _ in range(300):
        decide(gates, ["the same"] * 20)
