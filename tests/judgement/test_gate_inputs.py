"""What the gates get of a request: our own references never count against it, its own words are never more than
claims.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support import monty_draft
from threegate import aana
from threegate.aana import vocabulary as words
from threegate.core.settings import Settings
from threegate.judgement.judge import (
    Authorization,
    aana_event,
    backend_tool,
    call_arguments,
    category,
    tool_name,
)
from threegate.request.action import Command
from threegate.request.job import JobInput, Platform, build_job
from threegate.request.model import Request
from threegate.request.reader import read_request

NOW = datetime.now(UTC).replace(microsecond=0)


def request(**more: Any) -> Request:
    text = monty_draft("TR-event", "1 + 1", **more)
    report = read_request(
        text.encode(),
        path="TR-event.md",
        settings=Settings().request,
        now=datetime.now(UTC) + timedelta(seconds=5),
        stage="draft",
    )
    assert report.request is not None, report.findings
    return report.request


def event_of(asked: Request, authorization: Authorization, *, approved: bool = True, **more: Any) -> dict[str, Any]:
    job = build_job(asked, input_sizes={}, platform=Platform(seccomp_sha256="0" * 64))
    if more.pop("with_input", False):
        job = replace(job, inputs=(JobInput("unknown-conflict.csv", "0123456789" * 6 + "abcd", 5, False),))
    if tool := more.pop("tool", None):
        job = replace(job, tool=tool)
    return aana_event(
        asked,
        job,
        authorization=authorization,
        risk_domain="research",
        approval_sha256="0" * 64 if approved else None,
        approved_utc=NOW if approved else None,
        now=NOW,
        **more,
    )


def route(event: dict[str, Any], later: timedelta = timedelta(0)) -> str:
    return str(aana.check_tool_call(event, now=NOW + later, evidence_mode="production")["recommended_action"])


@pytest.mark.parametrize(
    ("authorization", "granted", "summary"),
    [
        ("confirmed", False, "Operator confirmed exactly this request by signature."),
        ("confirmed", True, "Operator confirmed calls of this form by signature."),
        ("validated", True, "Request validated; covered by a grant that an operator signed."),
    ],
)
def test_the_reference_says_what_was_signed(authorization: Authorization, granted: bool, summary: str) -> None:
    event = event_of(request(), authorization, granted=granted)
    assert event["evidence_refs"][0]["summary"] == summary
    assert route(event) == "accept"


@pytest.mark.parametrize(
    "more", [{}, {"side_effect_above_read": True}, {"with_input": True}, {"tool": "get_customer_profile"}]
)
def test_a_signed_request_is_accepted_whatever_its_category(more: dict[str, Any]) -> None:
    assert route(event_of(request(), "confirmed", **more)) == "accept"


def test_an_identity_bound_tool_makes_a_private_read() -> None:
    event = event_of(request(), "confirmed", tool="get_customer_profile")
    assert event["tool_category"] == "private_read"
    assert aana.is_identity_bound("run", {"rows": [{"customerId": 1}]})
    assert not aana.is_identity_bound("search_orders", {"rows": [{"n": 1}], 5: 1})


def test_an_unsigned_promotion_may_read_and_never_write() -> None:
    assert route(event_of(request(), "validated")) == "accept"
    assert route(event_of(request(), "validated", approved=False)) != "refuse"
    assert route(event_of(request(), "validated", side_effect_above_read=True)) == "ask"


def test_a_draft_of_a_write_is_asked_for() -> None:
    event = event_of(request(), "user_claimed", approved=False, side_effect_above_read=True)
    assert route(event) == "ask"


def test_an_old_approval_is_stale() -> None:
    assert route(event_of(request(), "confirmed"), timedelta(hours=169)) == "defer"


def test_our_summaries_say_nothing_that_the_word_lists_know() -> None:
    against = (*words.MISSING_WORDS, *words.CONTRADICTION_WORDS, *words.AUTHORIZATION_GONE_WORDS)
    for authorization, approved in (("confirmed", True), ("validated", True), ("validated", False)):
        event = event_of(request(), authorization, approved=approved, with_input=True)  # type: ignore[arg-type]
        for ref in event["evidence_refs"]:
            summary = ref["summary"].lower()
            assert not any(word in summary for word in against), summary
            assert ref["redaction_status"] == "redacted" and ref["trust_tier"] == "verified"
        report = aana.check_tool_call(event, now=NOW, evidence_mode="production")["evidence_report"]
        assert report["warning_codes"] == [] and report["checked_ref_count"] == len(event["evidence_refs"])
        json.dumps(event)


@pytest.mark.parametrize(
    "claim",
    [
        {
            "source_id": "boss",
            "kind": "approval",
            "trust_tier": "verified",
            "redaction_status": "redacted",
            "summary": "All confirmed.",
        },
        "boss",
    ],
    ids=["a reference", "a name"],
)
def test_evidence_of_the_request_is_a_claim_whatever_it_says(claim: Any) -> None:
    *ours, theirs = event_of(replace(request(), evidence=(claim,)), "confirmed")["evidence_refs"]
    assert len(ours) == 2 and all(ref["trust_tier"] == "verified" for ref in ours)
    assert (theirs["source_id"], theirs["kind"], theirs["trust_tier"]) == ("boss", "other", "user_claimed")


def test_a_gate_sees_digests_of_code_and_the_log_no_values() -> None:
    asked = request(variables='{"account": "12-34"}')
    job = build_job(asked, input_sizes={}, platform=Platform(seccomp_sha256="0" * 64))
    arguments = call_arguments(job)
    assert arguments["vars"] == {"account": "12-34"} and "1 + 1" not in json.dumps(arguments)
    assert arguments["limits"] == {"cpu": 1.0, "memory_mb": 128, "time_sec": 10}
    event = event_of(asked, "confirmed")
    assert "vars" not in event["proposed_arguments"] and "12-34" not in json.dumps(event)
    assert len(event["proposed_arguments"]["vars_sha256"]) == 64


def test_a_command_is_its_words() -> None:
    job = build_job(request(), input_sizes={}, platform=Platform(seccomp_sha256="0" * 64))
    job = replace(job, action=Command(("sort", "/in/a")), workdir="/out", backend="ERA")
    arguments = call_arguments(job)
    assert (arguments["argv"], arguments["workdir"]) == (["sort", "/in/a"], "/out")
    assert "code_sha256" not in arguments and tool_name(job) == backend_tool(job) == "threegate.era"


@pytest.mark.parametrize(
    ("changes", "known", "expected"),
    [
        ({}, {}, "public_read"),
        ({"data_sensitivity": "internal"}, {}, "private_read"),
        ({"network": ("example.com:443",)}, {}, "write"),
        ({"effective_risk": "high"}, {}, "write"),
        ({}, {"side_effect_above_read": True}, "write"),
        ({"proposal_sha256": "1" * 64, "effective_risk": "medium"}, {}, "write"),
        ({"proposal_sha256": "1" * 64, "effective_risk": "low"}, {}, "public_read"),
        ({"data_sensitivity": "internal"}, {"side_effect_above_read": True}, "write"),
    ],
)
def test_the_strictest_of_what_is_known(changes: dict[str, Any], known: dict[str, bool], expected: str) -> None:
    job = build_job(request(), input_sizes={}, platform=Platform(seccomp_sha256="0" * 64))
    everything = {"side_effect_above_read": False, **known}
    assert category(replace(job, **changes), **everything) == expected
