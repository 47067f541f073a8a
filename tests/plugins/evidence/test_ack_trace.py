"""The trail as a trace for AgentAck, judged by AgentAck itself: the real one passes, and each forged one fails its
rule.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.test_practice import Told
from tests.conftest import peer
from tests.whole.trail.everything import make_everything
from threegate.cli import execute as run
from threegate.plugins.evidence.ack_trace import ack_trace
from threegate.trail import payloads

agentack = peer("agentack.engine")


def judged(lines: Iterable[dict[str, Any]], folder: Path) -> set[str]:
    """The rules that AgentAck's own program says are broken."""
    trace, report = folder / "trace.jsonl", folder / "report.json"
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = subprocess.run(
        [sys.executable, "-m", "agentack", "check", str(trace), "--json", str(report)],
        capture_output=True,
        text=True,
    )
    assert report.exists(), told.stdout + told.stderr
    return set(json.loads(report.read_text())["result"]["rule_counts"])


APPROVED = payloads.Approved(
    request_sha256="b" * 64, job_sha256="c" * 64, approval_sha256="d" * 64, draft_sha256="a" * 64,
    approved_by="alice", approved_utc="2026-11-22T10:00:01Z", expires_utc="2026-11-22T11:00:00Z",
)  # fmt: skip
VALID = payloads.Validated(sha256="a" * 64, valid=True, rules=())
CLAIMED = payloads.Claimed(request_sha256="b" * 64, job_sha256="c" * 64, approval_sha256="d" * 64)


def trace(*told: tuple[payloads.Payload, float]) -> list[dict[str, Any]]:
    events = [Told(payload, at) for payload, at in told]
    for number, event in enumerate(events):
        event.seq = number  # type: ignore[attr-defined]
    return list(ack_trace(events, "ws-1"))  # type: ignore[arg-type]


def test_a_workspace_where_everything_happened_passes_every_rule(tmp_path: Path) -> None:
    workspace = make_everything(tmp_path)
    out = tmp_path / "trace.jsonl"
    assert run(["--workspace", str(workspace.root), "audit", "export", "--format", "ack", "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    kinds = {line["type"] for line in lines}
    assert kinds == {
        "action_proposed", "approval_requested", "approval_decision", "action_executed", "action_blocked", "session_end"
    }  # fmt: skip
    assert {line["decision"] for line in lines if "decision" in line} == {"allow", "deny"}
    assert judged(lines, tmp_path) == set()


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("ACK001", [(VALID, 0), (replace(CLAIMED, approval_sha256=None), 2)]),
        ("ACK003", [(VALID, 0), (APPROVED, 1), (replace(CLAIMED, request_sha256="e" * 64), 2)]),
        ("ACK003", [(VALID, 0), (APPROVED, 1), (replace(CLAIMED, job_sha256="e" * 64), 2)]),
        ("ACK003", [(VALID, 0), (replace(APPROVED, draft_sha256="e" * 64), 1), (CLAIMED, 2)]),
        ("ACK004", [(VALID, 0), (APPROVED, 1), (CLAIMED, 2), (CLAIMED, 3)]),
        ("ACK005", [(VALID, 0), (APPROVED, 1), (CLAIMED, 7200)]),
        ("ACK009", [(VALID, 0), (replace(CLAIMED, approval_sha256="f" * 64), 2)]),
    ],
)
def test_a_trail_that_breaks_a_rule_is_found(
    tmp_path: Path, rule: str, told: list[tuple[payloads.Payload, float]]
) -> None:
    assert rule in judged(trace(*told), tmp_path)


def test_the_order_of_a_real_request_passes(tmp_path: Path) -> None:
    assert judged(trace((VALID, 0), (APPROVED, 1), (CLAIMED, 2)), tmp_path) == set()
    ended = payloads.Cancelled(reason="cancelled")
    assert judged(trace((VALID, 0), (APPROVED, 1), (ended, 2)), tmp_path) == set()
    rejected = payloads.Rejected(reason="rejected", request_sha256="a" * 64)
    assert judged(trace((VALID, 0), (rejected, 1)), tmp_path) == set()


@pytest.mark.slow
def test_it_is_of_the_whole_trail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workspace = make_everything(tmp_path)
    ran = str(min(workspace.finished.glob("TR-*.md")))
    assert run(["--workspace", str(workspace.root), "audit", "export", "--format", "ack", "--request", ran]) == 2
    assert "leave --request out" in capsys.readouterr().err
