"""What the gates get of a call of a tool."""

from __future__ import annotations

from dataclasses import replace

from tests.judgement.test_gate_inputs import NOW
from tests.request.examples import mcp, read
from threegate.judgement.judge import aana_event, call_arguments, category, tool_name
from threegate.plugins.tools.action import ToolCall
from threegate.request.job import Platform, build_job


def test_a_call_of_a_tool_is_its_tool_with_its_own_arguments() -> None:
    asked = read(mcp()).request
    assert asked is not None and isinstance(asked.action, ToolCall)
    job = build_job(
        replace(asked, data_sensitivity="public"), input_sizes={}, platform=Platform(seccomp_sha256="0" * 64)
    )
    assert tool_name(job) == "notes.add" and call_arguments(job) == {"text": "hello"}
    assert category(job, side_effect_above_read=False) == "private_read"
    assert category(job, side_effect_above_read=True) == "write"
    job = replace(job, action=asked.action.changed(arguments_json='{"vars":1}'))
    event = aana_event(
        asked,
        job,
        authorization="confirmed",
        risk_domain="unknown",
        approval_sha256="1" * 64,
        approved_utc=NOW,
        now=NOW,
    )
    assert event["proposed_arguments"] == {"vars": 1} and event["tool_name"] == "notes.add"
