"""The statements of ClawGuard's published schema that did not hold, and what differs on purpose."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.seeds.differences import differs
from threegate.core.canonical import digest
from threegate.core.settings import Settings
from threegate.plugins.proposals.proposal_draft import draft_from_proposal
from threegate.plugins.proposals.proposal_verdict import ProposalVerdict
from threegate.plugins.proposals.rules import judge_proposal

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "schemas" / "agent-action-proposal.schema.json"
SEED = "f6a36bcc89a875e51d3a01275ec89ae2142246d69394761e42f103228c3bbf96"
ISSUE = {"repo": "owner/name", "title": "t", "body": "b"}
NOW = datetime(2026, 11, 26, 5, tzinfo=UTC)


def verdict_on(tool: str, args: dict[str, Any], **more: Any) -> ProposalVerdict:
    return judge_proposal(json.dumps({"tool": tool, "args": args, **more}).encode(), settings=Settings())


def test_schema_equals_the_seed_whole() -> None:
    """The digest is of the published text's JSON (RFC 8785), so it says everything that the text says and no more."""
    assert digest(json.loads(PUBLISHED.read_bytes())) == SEED


CASES = [
    ("shell.dry_run", {}),
    ("github.issue_create_approved", {**ISSUE, "labels": ["a", "b"]}),
    ("github.issue_create_approved", ISSUE),
    ("github.issue_create_approved", {**ISSUE, "labels": ["a"] * 20}),
    ("browser.click_proposed", {"url": "https://example.com/", "selector": "a", "label": "l", "intent": "i"}),
    ("browser.click_proposed", {"url": "https://example.com/", "selector": "a"}),
    ("app.open_proposed", {"app": "editor", "purpose": "p"}),
    ("app.open_proposed", {"app": "editor"}),
    ("app.action_proposed", {"app": "editor", "action": "save", "target": "t", "purpose": "p"}),
    ("app.action_proposed", {"app": "editor", "action": "save"}),
    ("memory.search", {"query": ""}),
]


@pytest.mark.parametrize(("tool", "args"), CASES)
def test_full_or_only_required_args_seed_schema_says_valid(tool: str, args: dict[str, Any]) -> None:
    assert verdict_on(tool, args).schema_valid


@pytest.mark.parametrize(
    "args", [{}, {"anything": [1], "profile": "researcher"}, {"task": "t", "context": {"a": [None]}}]
)
def test_subagent_delegate_full_valid_args_seed_schema_says_valid(args: dict[str, Any]) -> None:
    """It is read by a person, with all of its arguments, and what was signed does nothing."""
    verdict = verdict_on("subagent.delegate", args)
    assert (verdict.schema_valid, verdict.verdict, verdict.becomes) == (True, "approval", "dry-run record")
    made = draft_from_proposal(
        json.dumps({"tool": "subagent.delegate", "args": args}).encode(), settings=Settings(), now=NOW
    )
    assert json.loads(made.inputs["args.json"])["given"]["record"]["args"] == args


@differs("A proposal that the published schema accepts is accepted")
def test_a_proposal_that_the_schema_accepts_may_be_rejected() -> None:
    for tool, args in CASES:
        assert verdict_on(tool, args).verdict == "reject", tool


def test_git_status_with_risk_critical_is_an_approval_for_verdict_and_draft() -> None:
    verdict = verdict_on("git.status", {}, risk="critical")
    assert (verdict.verdict, verdict.risk) == ("approval", "critical")


def test_the_draft_of_a_reader_with_a_declared_risk_says_what_its_verdict_says() -> None:
    proposal = {"tool": "github.issue_draft", "args": ISSUE, "risk": "critical"}
    made = draft_from_proposal(json.dumps(proposal).encode(), settings=Settings(), now=NOW)
    assert made.verdict.verdict == "approval" and made.draft is not None
    assert b"verdict approval, risk critical" in made.draft and b"\nRisk level: high\n" in made.draft
