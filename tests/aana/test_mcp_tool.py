"""The contract's MCP tool as plain Python: what the server answers with, without the server."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from threegate import aana

CASES = Path(__file__).parents[2] / "examples" / "agent_action_contract_cases.json"
EXAMPLES: dict[str, dict[str, Any]] = {case["name"]: case for case in json.loads(CASES.read_text())["cases"]}
NOW = datetime.fromisoformat("2026-05-14T00:00:00Z")


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_seeds_examples(name: str, tmp_path: Path) -> None:
    event = EXAMPLES[name]["event"]
    Draft202012Validator(aana.AANA_PRE_TOOL_CHECK_TOOL["inputSchema"]).validate(event)
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    answer = aana.handle_aana_pre_tool_check(event, now=NOW, log=log)
    structured = answer["structuredContent"]
    assert (
        structured == aana.check_tool_call(event, now=NOW) and structured["route"] == EXAMPLES[name]["expected_route"]
    )
    assert json.loads(answer["content"][0]["text"]) == structured and answer["isError"] is False
    assert structured["audit_safe_log_event"]["route"] == structured["route"]
    assert json.loads(log.path.read_text())["surface"] == "api"


@pytest.mark.parametrize("arguments", [None, [], "x", {}, {"tool_name": object()}])
def test_any_arguments_get_a_refusal(arguments: Any) -> None:
    answer = aana.handle_aana_pre_tool_check(arguments)
    assert answer["structuredContent"]["route"] == "refuse" and not answer["isError"]


def test_a_decision_that_is_not_written_down_is_a_refusal(tmp_path: Path) -> None:
    event = EXAMPLES["public_read_accept"]["event"]
    answer = aana.handle_aana_pre_tool_check(event, log=aana.DecisionLog(tmp_path / "no" / "d.jsonl"))
    assert answer["structuredContent"]["hard_blockers"] == ["decision_not_recorded"]
