"""The plain rules on single references that the deviations do not touch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.aana.test_deviations import NOW, event, reference
from threegate import aana


@pytest.mark.parametrize(
    ("changes", "route", "blocker"),
    [
        ({"redaction_status": "sensitive"}, "refuse", "unsafe_redaction_status"),
        ({"summary": "key sk-abcdef1234567890"}, "refuse", "evidence_secret_leak"),
        ({"provenance": "api_key: abcdefgh1"}, "refuse", "evidence_secret_leak"),
        ({"provenance": "Token\u00a0=\u2003abcdefgh"}, "refuse", "evidence_secret_leak"),
        ({"summary": "\u0664\u0665\u0666-12-3456"}, "refuse", "evidence_secret_leak"),
        ({"summary": "(415)\u00a0555.0134", "redaction_status": "public"}, "refuse", "evidence_pii_leak"),
        ({"citation_url": "https://x.org/?card=4111 1111 1111 1111"}, "refuse", "evidence_secret_leak"),
        ({"summary": "ssn 123-45-6789."}, "refuse", "evidence_secret_leak"),
        ({"summary": "mail jane@example.com", "redaction_status": "public"}, "refuse", "evidence_pii_leak"),
        ({"source_id": "tel:+1 415-555-0134", "redaction_status": "unknown"}, "refuse", "evidence_pii_leak"),
        ({"freshness": {"status": "stale"}}, "defer", "stale_evidence"),
        ({"retrieved_at": "2026-05-02T23:59:59Z"}, "defer", "stale_evidence"),
        ({"freshness": {"status": "fresh", "checked_at": "2026-05-02T00:00:00Z"}}, "defer", "stale_evidence"),
        ({"retrieved_at": "last week"}, "defer", "invalid_retrieved_at"),
        ({"contradicts": ["claim"]}, "defer", "contradictory_evidence"),
        ({"summary": "Authenticated, yet the names do conflict."}, "defer", "contradictory_evidence"),
        ({"summary": "The record is missing."}, "defer", "evidence_marks_missing_information"),
        (
            {"kind": "system_state", "summary": "Missing authorization."},
            "defer",
            "evidence_missing_authorization",
        ),
        (
            {"source_id": "counterfactual.missing_authorization.1"},
            "defer",
            "evidence_missing_authorization",
        ),
    ],
)
def test_what_a_reference_says_against_the_call(changes: dict[str, Any], route: str, blocker: str) -> None:
    result = aana.check_tool_call(event(evidence_refs=[reference(), reference(**changes)]), now=NOW)
    assert result["recommended_action"] == route and blocker in result["hard_blockers"]


@pytest.mark.parametrize(
    "changes",
    [
        {"retrieved_at": "2026-05-03T00:00:00Z"},
        {"retrieved_at": "2026-05-09T20:00:00-02:00"},
        {"retrieved_at": ""},
        {"summary": "mail jane@example.com"},
        {"summary": "Authenticated with order 123456789012 digits 12-34", "redaction_status": "public"},
        {"source_id": "sha256." + "0123456789" * 6 + "abcd", "redaction_status": "public"},
        {"contradicts": [], "supports": ["claim-1"]},
        {"summary": "Authenticated by page_token=abcdefgh"},
        {"summary": "User identity was authenticated; authorization is in place."},
        {"kind": "policy", "summary": "Search is allowed without identity authorization."},
    ],
)
def test_what_is_nothing_against_it(changes: dict[str, Any]) -> None:
    result = aana.check_tool_call(event(evidence_refs=[reference(), reference(**changes)]), now=NOW)
    assert result["recommended_action"] == "accept", result["hard_blockers"]


def test_weak_references_are_warned_of_where_it_matters() -> None:
    weak = {"source_id": "log.1"}
    result = aana.check_tool_call(event(evidence_refs=[reference(), weak, weak]), now=NOW)
    assert result["recommended_action"] == "accept"
    assert result["evidence_report"]["warning_codes"] == [
        "weak_trust_tier",
        "unknown_redaction_status",
        "unknown_freshness",
    ]
    public = event(tool_name="read_page", tool_category="public_read", evidence_refs=[reference(), weak])
    assert aana.check_tool_call(public, now=NOW)["evidence_report"]["warning_codes"] == []


def test_the_report_names_the_references() -> None:
    refs = [
        reference(),
        reference(source_id="a", contradicts=["x"]),
        reference(source_id="b", summary="unavailable"),
        reference(source_id="c", freshness={"status": "stale"}),
    ]
    report = aana.check_tool_call(event(evidence_refs=refs), now=NOW)["evidence_report"]
    assert report["checked_ref_count"] == 4 and report["used_source_ids"] == ["auth.session", "a", "b", "c"]
    assert report["contradictory_source_ids"] == ["a"]
    assert report["missing_source_ids"] == ["b"]
    assert report["stale_source_ids"] == ["c"]
