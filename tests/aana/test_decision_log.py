"""The audit-safe event and its file."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.aana import generated
from threegate import aana

NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
EVENT: dict[str, Any] = {
    "tool_name": "send_email",
    "tool_category": "write",
    "authorization_state": "confirmed",
    "evidence_refs": ["draft_id:123", "mail from jane.doe@example.com"],
    "risk_domain": "commerce",
    "proposed_arguments": {"to": "canary-value-1", "amount": 71234, "nested": {"inner": "canary-value-2"}},
    "recommended_route": "accept",
    "request_id": "r-1",
    "agent_id": "agent-7",
}


def recorded(log: aana.DecisionLog, event: Any, **options: Any) -> dict[str, Any]:
    return log.record(event, aana.check_tool_call(event, now=NOW), surface="api", now=NOW, **options)


def test_it_holds_what_the_spec_names_and_no_value(tmp_path: Path) -> None:
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    line = recorded(log, EVENT, latency_us=17)
    assert json.loads(log.path.read_text()) == line
    assert line["request_id"] == "r-1" and line["agent_id"] == "agent-7"
    assert line["tool_name"] == "send_email" and line["route"] == "ask" and line["latency_us"] == 17
    assert line["declared_state"] == "confirmed" and line["supported_state"] == "none"
    assert line["argument_keys"] == ["amount", "nested", "to"]
    assert line["evidence_source_ids"] == ["draft_id:123", "mail from [email]"]
    assert line["aix_score"] == 0.72 and "write_missing_explicit_confirmation" in line["hard_blockers"]
    text = log.path.read_text()
    for value in ("canary-value", "71234", "inner", "jane"):
        assert value not in text


def test_fingerprints_are_salted_and_stable_within_a_log(tmp_path: Path) -> None:
    one, two = aana.DecisionLog(tmp_path / "a.jsonl"), aana.DecisionLog(tmp_path / "b.jsonl")
    first, again = recorded(one, EVENT), recorded(aana.DecisionLog(one.path), EVENT)
    assert first["arguments_fingerprint"] == again["arguments_fingerprint"]
    assert first["arguments_fingerprint"] != recorded(two, EVENT)["arguments_fingerprint"]
    other = recorded(one, {**EVENT, "proposed_arguments": {}})
    assert other["arguments_fingerprint"] != first["arguments_fingerprint"]


def test_files_are_the_owners_alone_and_links_are_not_followed(tmp_path: Path) -> None:
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    recorded(log, EVENT)
    for name in ("d.jsonl", "d.jsonl.salt"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    (tmp_path / "link.jsonl").symlink_to(log.path)
    with pytest.raises(OSError):
        recorded(aana.DecisionLog(tmp_path / "link.jsonl"), EVENT)


def test_a_short_salt_is_no_salt(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl.salt").write_bytes(b"short")
    with pytest.raises(OSError, match="not a salt of 32 bytes"):
        recorded(aana.DecisionLog(tmp_path / "d.jsonl"), EVENT)
    assert not (tmp_path / "d.jsonl").exists()


@pytest.mark.parametrize(
    "event", [None, [], {"tool_name": 7}, {"tool_name": "x" * 70000}, {"proposed_arguments": {"a": 1}}]
)
def test_malformed_events_are_recorded_without_fingerprints(tmp_path: Path, event: Any) -> None:
    line = recorded(aana.DecisionLog(tmp_path / "d.jsonl"), event)
    assert line["route"] == "refuse" and line["arguments_fingerprint"] is None and line["argument_keys"] == []


def test_a_number_too_long_to_write_has_no_fingerprint(tmp_path: Path) -> None:
    line = recorded(aana.DecisionLog(tmp_path / "d.jsonl"), {**EVENT, "proposed_arguments": {"n": 10**5000}})
    assert line["arguments_fingerprint"] is None


def test_lines_stay_bounded(tmp_path: Path) -> None:
    event = {
        **EVENT,
        "tool_name": "t" * 5000,
        "request_id": "r" * 5000,
        "proposed_arguments": {f"{number:04}" + "k" * 100: 1 for number in range(120)},
        "evidence_refs": ["s" * 210] * 110,
    }  # fmt: skip
    line = recorded(aana.DecisionLog(tmp_path / "d.jsonl"), event)
    assert len(line["argument_keys"]) == 100 and {len(key) for key in line["argument_keys"]} == {64}
    assert len(line["evidence_source_ids"]) == 100 and len(line["tool_name"]) == 200
    assert len(json.dumps(line)) < 40_000


def test_two_writers_never_tear_a_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    recorded(aana.DecisionLog(path), EVENT)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                log = aana.DecisionLog(path)
                for _ in range(200):
                    recorded(log, EVENT)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    lines = path.read_bytes().splitlines()
    assert len(lines) == 401
    assert {json.loads(line)["arguments_fingerprint"] for line in lines} == {
        json.loads(lines[0])["arguments_fingerprint"]
    }


def test_the_summary_counts_a_period(tmp_path: Path) -> None:
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    recorded(log, EVENT)
    recorded(log, None)
    later = datetime(2026, 5, 11, tzinfo=UTC)
    log.record(EVENT, aana.check_tool_call(EVENT, now=NOW), surface="http", now=later)
    lines = log.path.read_bytes().splitlines()
    whole = aana.summarise(lines).as_json()
    assert whole["decisions"] == 3 and whole["unreadable_lines"] == 0
    assert whole["routes"] == {"ask": 2, "refuse": 1}
    assert whole["tools"] == {"send_email": 2, "(none)": 1}
    assert whole["surfaces"] == {"api": 2, "http": 1}
    assert whole["blockers"]["contract_normalization_failed"] == 1
    assert aana.summarise(lines, since=later).decisions == 1
    assert aana.summarise(lines, until=later).decisions == 2


def test_verdicts_of_other_gates_are_counted_apart_and_hold_no_value(tmp_path: Path) -> None:
    secret = generated.SECRETS[0]
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    recorded(log, EVENT)
    for verdict in ("block", "auto", "block"):
        line = log.record_verdict(
            "proposal_verdict/1",
            {"path": "canary-value-3"},
            names={"request_id": f"a {secret}", "tool_name": None},
            verdict=verdict,
            codes=["x"],
            surface="http",
            now=NOW,
        )
        assert line["tool_name"] is None and line["fingerprint"].startswith("hmac-sha256:")
    text = log.path.read_text()
    assert secret not in text and "canary-value" not in text
    total = aana.summarise(text.encode().splitlines())
    assert total.decisions == 1 and total.unreadable_lines == 0
    assert total.verdicts == {"proposal_verdict/1 block": 2, "proposal_verdict/1 auto": 1}


def test_the_envelope_holds_the_event_of_the_log(tmp_path: Path) -> None:
    result = aana.check_tool_call(EVENT, now=NOW)
    safe = result["audit_safe_log_event"]
    line = aana.DecisionLog(tmp_path / "d.jsonl").record(EVENT, result, surface="api", now=NOW)
    assert {name: line[name] for name in safe} == safe
    assert set(line) - set(safe) == {
        "time", "surface", "arguments_fingerprint", "event_fingerprint", "latency_us",
    }  # fmt: skip
    assert result["route"] == safe["route"] == "ask"
    text = json.dumps(safe)
    for value in ("canary-value", "71234", "inner", "jane"):
        assert value not in text
    malformed = aana.check_tool_call({**EVENT, "tool_category": "x"})
    assert malformed["route"] == "refuse" and malformed["audit_safe_log_event"]["argument_keys"] == []


@pytest.mark.parametrize(
    "line",
    [b"", b"{",
     b'{"type":"proposal_verdict/1","time":"2026-05-10T00:00:00Z","route":"ask","tool_name":"x","surface":"api"}',
     b'{"type":"contract_decision/1","time":"2026-05-10T00:00:00Z","verdict":["ask"],"tool_name":"x","surface":"api"}', b"[]", b"7", b"{}", b'{"time":"x"}', b"[" * 100_000, b"\xff",  # noqa: E501
     b'{"type":"other","time":"2026-05-10T00:00:00Z","route":"ask","tool_name":"x","surface":"api","hard_blockers":[]}',
     b'{"type":"aana_decision/1","time":"2026-05-10T00:00:00Z","route":[],"tool_name":"x","surface":"api","hard_blockers":[]}',
     b'{"type":"aana_decision/1","time":"2026-05-10T00:00:00","route":"ask","tool_name":"x","surface":"api","hard_blockers":[]}'],
)  # fmt: skip
def test_lines_that_are_no_events_are_counted_as_such(line: bytes) -> None:
    total = aana.summarise([line], since=NOW)
    assert (total.decisions, total.unreadable_lines) == (0, 1)


def test_secrets_in_ids_and_keys_are_masked(tmp_path: Path) -> None:
    secret = generated.SECRETS[0]
    log = aana.DecisionLog(tmp_path / "d.jsonl")
    recorded(
        log,
        {**EVENT, "request_id": secret, "agent_id": f"a {secret}", "proposed_arguments": {secret: secret}},
    )
    assert secret not in log.path.read_text()
