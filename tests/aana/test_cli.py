"""`threegate validate --as aana` and `summary`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from threegate.cli import execute as run

NOW = "2026-05-10T00:00:00Z"


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("case_id", "code"),
    [
        ("seed_public_read", 0),
        ("seed_write_missing_confirmation", 2),
        ("seed_private_read_missing_auth", 2),
        ("seed_unknown_destructive", 2),
    ],
)
def test_exit_0_only_on_accept(
    case_id: str,
    code: int,
    conformance: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = next(case for case in conformance if case["id"] == case_id)
    file = written(tmp_path / "event.json", json.dumps(case["event"]))
    assert run(["validate", "--as", "aana", file, "--now", NOW, "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out)["recommended_action"] == case["reference"]["route"]
    assert run(["validate", "--as", "aana", file, "--now", NOW]) == code
    shown = capsys.readouterr().out
    assert shown.startswith(f"{case['reference']['route']}: {case['event']['tool_name']}\n")
    for blocker in case["reference"]["hard_blockers"]:
        assert f"  blocked: {blocker}\n" in shown
    assert run(["validate", "--as", "aana", file, "--now", NOW, "--json"]) == code
    assert capsys.readouterr().out.startswith("{")


def test_stdin_and_lines(
    conformance: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps(case["event"]) for case in conformance]
    lines[3:3] = ["{", "", "[]", "x" * 200_000, '{"tool_name": "\\ud800"}']
    data = "\n".join(lines).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert run(["validate", "--as", "aana", "-", "--jsonl", "--now", NOW]) == 2
    results = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(results) == len(lines) == len(conformance) + 5
    assert [result["recommended_action"] for result in results[3:8]] == ["refuse"] * 5
    assert results[8]["tool_name"] == conformance[3]["event"]["tool_name"]
    accepted = b"\n".join(
        line.encode() for line, result in zip(lines, results, strict=True) if result["execution_allowed"]
    )
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(accepted)))
    assert run(["validate", "--as", "aana", "-", "--jsonl", "--now", NOW, "--format", "text"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"accept"}


def test_production_refuses_strings(
    tmp_path: Path, conformance: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    event = next(case["event"] for case in conformance if case["id"] == "public_read_allowed")
    file = written(tmp_path / "event.json", json.dumps(event))
    assert run(["validate", "--as", "aana", file]) == 0
    assert run(["validate", "--as", "aana", file, "--evidence", "production"]) == 2
    assert "must be a structured reference (D12)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["validate", "--as", "aana", "no-such-file.json"], 2, "no-such-file.json: cannot be read"),
        (["validate", "--as", "aana", "-", "--now", "yesterday"], 64, "--now is not an ISO 8601 time"),
        (["audit", "aana"], 64, "no decision log named and no workspace here"),
        (["audit", "aana", "no-such-log"], 2, "no-such-log: cannot be read"),
        (["audit", "aana", "x", "--since", "monday"], 64, "--since is not an ISO 8601 time"),
    ],
)
def test_messages_are_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(b"")
    assert run(arguments) == code
    shown = capsys.readouterr().err
    assert message in shown and len(shown.splitlines()) == 1


def test_log_and_summary(tmp_path: Path, conformance: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    events = written(tmp_path / "e.jsonl", "\n".join(json.dumps(case["event"]) for case in conformance))
    log = str(tmp_path / "decisions.jsonl")
    run(["validate", "--as", "aana", events, "--jsonl", "--now", NOW, "--log", log])
    run(["validate", "--as", "aana", events, "--jsonl", "--now", "2026-05-12T00:00:00", "--log", log])
    capsys.readouterr()
    assert run(["audit", "aana", log, "--json"]) == 0
    total = json.loads(capsys.readouterr().out)
    assert total["decisions"] == 2 * len(conformance) and total["surfaces"] == {"cli": 2 * len(conformance)}
    assert sum(total["routes"].values()) == total["decisions"]
    assert run(["audit", "aana", log, "--since", "2026-05-11", "--until", "2026-05-13"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{len(conformance)} decisions\nroutes:\n") and "get_recent_transactions" in shown
    with open(log, "a") as stream:
        stream.write("broken\n")
    assert run(["audit", "aana", log]) == 2
    assert "1 lines are not audit-safe events" in capsys.readouterr().err


def test_check_inside_a_workspace_records_its_decision(
    tmp_path: Path,
    conformance: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """docs/aana.md: in a workspace the file is `tool-exec/audit/decisions.jsonl`; --log names another one."""
    (tmp_path / "threegate.toml").write_text("")
    audit = tmp_path / "tool-exec" / "audit"
    audit.mkdir(parents=True)
    file = written(tmp_path / "event.json", json.dumps(conformance[0]["event"]))
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    run(["validate", "--as", "aana", file])
    monkeypatch.chdir("/")
    run(["--workspace", str(tmp_path), "validate", "--as", "aana", file])
    lines = [json.loads(line) for line in (audit / "decisions.jsonl").read_text().splitlines()]
    assert [line["surface"] for line in lines] == ["cli", "cli"]
    monkeypatch.chdir(tmp_path)
    run(["validate", "--as", "aana", file, "--log", "own.jsonl"])
    assert len((tmp_path / "own.jsonl").read_text().splitlines()) == 1
    assert len((audit / "decisions.jsonl").read_text().splitlines()) == 2
    (audit / "decisions.jsonl").unlink()
    (audit / "decisions.jsonl").symlink_to(tmp_path / "elsewhere")
    capsys.readouterr()
    assert run(["validate", "--as", "aana", file]) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    assert not (tmp_path / "elsewhere").exists()


def test_weak_evidence_is_named_with_its_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {
        "tool_name": "send_email",
        "tool_category": "write",
        "authorization_state": "confirmed",
        "evidence_refs": [{"source_id": "approval.1", "kind": "approval", "trust_tier": "verified"}],
        "risk_domain": "research",
        "proposed_arguments": {},
        "recommended_route": "accept",
    }
    assert run(["validate", "--as", "aana", written(tmp_path / "event.json", json.dumps(event)), "--now", NOW]) == 2
    shown = capsys.readouterr().out
    assert "  evidence_refs.0.freshness is missing: supports at most user_claimed (D5)\n" in shown


def test_the_summary_of_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "threegate.toml").write_text("")
    (tmp_path / "tool-exec" / "audit").mkdir(parents=True)
    (tmp_path / "tool-exec" / "audit" / "decisions.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    assert run(["audit", "aana"]) == 0
    assert capsys.readouterr().out.startswith("0 decisions\n")
