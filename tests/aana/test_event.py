"""The form of an event: what is well-formed, what is said of the rest, and that the schema says the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.aana import generated
from threegate import aana
from threegate.aana import vocabulary

ROOT = Path(__file__).parents[2]
EVENT_SCHEMA = aana.event_schema()
"""Made here: the first test that asks may be one whose lines are not counted, and so those of the import."""
VALID: dict[str, Any] = {
    "tool_name": "read_page",
    "tool_category": "public_read",
    "authorization_state": "none",
    "evidence_refs": [],
    "risk_domain": "research",
    "proposed_arguments": {},
    "recommended_route": "accept",
}


def with_ref(**changes: Any) -> dict[str, Any]:
    return {**VALID, "evidence_refs": [{"source_id": "a", **changes}]}


@pytest.mark.parametrize(
    ("event", "path", "message"),
    [
        ([], "", "the event is not a JSON object"),
        ({**VALID, "tool_name": ""}, "tool_name", "is not a non-empty string"),
        ({**VALID, "tool_name": None}, "tool_name", "is not a non-empty string"),
        ({**VALID, "tool_category": "read"}, "tool_category", "is none of the contract's values"),
        (
            {**VALID, "recommended_route": "revise"},
            "recommended_route",
            ("revise is a route for answers and workflows, not for a tool call: use ask, and check the revised call "
            "again"),
        ),
        (
            {**VALID, "recommended_route": "retrieve"},
            "recommended_route",
            "retrieve is a route for answers and workflows, not for a tool call: use defer, and check again with the "
            "evidence that was retrieved",
        ),
        ({**VALID, "recommended_route": ["revise"]}, "recommended_route", "is none of the contract's values"),
        ({**VALID, "risk_domain": ["research"]}, "risk_domain", "is none of the contract's values"),
        ({**VALID, "proposed_arguments": []}, "proposed_arguments", "is not an object"),
        ({**VALID, "evidence_refs": {}}, "evidence_refs", "is not an array"),
        ({**VALID, "evidence_refs": [""]}, "evidence_refs.0", "is blank"),
        ({**VALID, "evidence_refs": ["a", " \n"]}, "evidence_refs.1", "is blank"),
        ({**VALID, "evidence_refs": [3]}, "evidence_refs.0", "is neither a string nor an object"),
        ({**VALID, "shadow_mode": True}, "", "unknown key shadow_mode"),
        ({**VALID, "ghp_123": True}, "", "has an unknown key"),
        ({**VALID, "x" * 33: True}, "", "has an unknown key"),
        ({**VALID, "request_id": 5}, "request_id", "is not a string"),
        ({**VALID, "authorization_subject": 5}, "authorization_subject", "is not an object"),
        ({**VALID, "authorization_subject": {"a": 5}}, "authorization_subject", "unknown key a"),
        (
            {**VALID, "authorization_subject": {"subject_type": "god"}},
            "authorization_subject.subject_type",
            "is none of the contract's values",
        ),
        (
            {**VALID, "authorization_subject": {"subject_ref": 1}},
            "authorization_subject.subject_ref",
            "is not a string",
        ),
        (with_ref(source_id=""), "evidence_refs.0.source_id", "is required and must not be blank"),
        (with_ref(source_id=1), "evidence_refs.0.source_id", "is required and must not be blank"),
        (with_ref(kind="rumour"), "evidence_refs.0.kind", "is none of the contract's values"),
        (with_ref(summary=None), "evidence_refs.0.summary", "is not a string"),
        (with_ref(provenance=""), "evidence_refs.0.provenance", "must not be empty"),
        (with_ref(supports="a"), "evidence_refs.0.supports", "is not an array of strings"),
        (with_ref(contradicts=[1]), "evidence_refs.0.contradicts", "is not an array of strings"),
        (with_ref(colour="red"), "evidence_refs.0", "unknown key colour"),
        (with_ref(freshness="fresh"), "evidence_refs.0.freshness", "is not an object"),
        (with_ref(freshness={"a": 1}), "evidence_refs.0.freshness", "unknown key a"),
        (with_ref(freshness={"status": "new"}), "evidence_refs.0.freshness.status", "is none of the contract's values"),
        (with_ref(freshness={"checked_at": 1}), "evidence_refs.0.freshness.checked_at", "is not a string"),
        (with_ref(freshness={"age_hours": True}), "evidence_refs.0.freshness.age_hours", "is not a number"),
        (with_ref(freshness={"max_age_hours": "1"}), "evidence_refs.0.freshness.max_age_hours", "is not a number"),
        ({**VALID, "proposed_arguments": {"a": float("nan")}}, "", "has a number that JSON does not have"),
        ({**VALID, "proposed_arguments": {"a": b"x"}}, "", "has a value that JSON does not have"),
        ({**VALID, "proposed_arguments": {1: 1}}, "", "has a key that is not a string"),
        ({**VALID, "proposed_arguments": {"a": "x" * 65536}}, "", "is larger than 65536 bytes (D10)"),
        ({**VALID, "proposed_arguments": {"a": [0] * 65536}}, "", "is larger than 65536 bytes (D10)"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_named_without_its_value(event: Any, path: str, message: str) -> None:
    assert aana.validate_event(event) == [{"path": path, "message": message}]
    assert aana.check_tool_call(event)["recommended_action"] == "refuse"


def nested(levels: int) -> dict[str, Any]:
    value: Any = "x"
    for index in range(levels):
        value = [value] if index % 2 else {"a": value}
    return {**VALID, "proposed_arguments": {"a": value}}


def test_depth_is_bounded() -> None:
    assert aana.validate_event(nested(62)) == []
    assert aana.validate_event(nested(63)) == [{"path": "", "message": "is nested deeper than 64 (D10)"}]
    loop: dict[str, Any] = {**VALID}
    loop["proposed_arguments"] = {"self": loop}
    assert aana.validate_event(loop) == [{"path": "", "message": "is nested deeper than 64 (D10)"}]


def test_an_event_of_64_kib_json_is_within_the_bounds() -> None:
    value = {**VALID, "proposed_arguments": {"a": ["é" * 10] * 2000, "b": ["", None, True, 0.5] * 100}}
    value["proposed_arguments"]["c"] = "x" * (65536 - len(json.dumps(value, ensure_ascii=False).encode()) - 11)
    assert len(json.dumps(value, ensure_ascii=False).encode()) <= 65536
    assert aana.validate_event(value) == []


@pytest.mark.no_cover
@pytest.mark.parametrize("count", [2_500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_model_and_schema_agree(count: int) -> None:
    """Well-formed events and ruined ones: the schema says what the model says of an event that names v1."""
    validator = Draft202012Validator(EVENT_SCHEMA)
    rng = random.Random(11)
    valid = 0
    for index in range(count):
        event = generated.well_formed(rng) if index % 3 == 0 else generated.ruined(rng)
        named = {"schema_version": vocabulary.CONTRACT_VERSION, **event}
        ours = not aana.validate_event(named)
        assert ours == validator.is_valid(named) == validator.is_valid(event), json.dumps(event)
        assert aana.validate_event(event) == [] or not ours
        valid += ours
    assert count / 5 < valid < count * 4 / 5


CONDITIONS = [
    (category, state, route)
    for category in vocabulary.CATEGORIES
    for state in vocabulary.STATES
    for route in vocabulary.ROUTES
]


@pytest.mark.parametrize(("category", "state", "route"), CONDITIONS)
def test_the_schema_under_the_references_id_holds_its_conditional_rules(category: str, state: str, route: str) -> None:
    """The contract: "private read" and "write schema accept" of the table of states; an unknown tool never accepts."""
    allowed = {
        "public_read": vocabulary.STATES,
        "private_read": ("authenticated", "validated", "confirmed"),
        "write": ("validated", "confirmed"),
        "unknown": (),
    }[category]
    event = {**VALID, "tool_category": category, "authorization_state": state, "recommended_route": route}
    expected = route != "accept" or state in allowed
    assert Draft202012Validator(EVENT_SCHEMA).is_valid(event) == expected
    assert (aana.validate_event({**event, "schema_version": vocabulary.CONTRACT_VERSION}) == []) == expected
    assert aana.validate_event(event) == []


def test_the_published_schemas_are_current_and_the_seeds() -> None:
    for name in ("agent_action_contract_v1", "agent_tool_precheck"):
        published = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
        assert published == aana.event_schema(), f"schemas/{name}.schema.json is not current"
    Draft202012Validator.check_schema(aana.event_schema())
    assert aana.event_schema()["$id"] == "https://aana.dev/schemas/agent_action_contract_v1.schema.json"


def test_the_schema_takes_the_conformance_events_that_name_v1_properly(
    conformance: list[dict[str, Any]],
) -> None:
    validator = Draft202012Validator(EVENT_SCHEMA)
    for case in conformance:
        named = {**case["event"], "schema_version": vocabulary.CONTRACT_VERSION}
        joined = [problem for problem in aana.validate_event(named) if "(D15)" in problem["message"]]
        assert validator.is_valid(case["event"]) == (not joined), case["id"]
        assert aana.validate_event(case["event"]) == [] or "schema_version" in case["event"], case["id"]


def test_built_events_and_references_are_well_formed() -> None:
    ref = aana.tool_evidence_ref(
        source_id="auth.session",
        kind="auth_event",
        trust_tier="verified",
        redaction_status="redacted",
        freshness="fresh",
        summary="User identity was authenticated.",
        retrieved_at="2026-05-09T00:00:00Z",
        supports=("claim-1",),
    )
    assert ref["freshness"] == {"status": "fresh"} and ref["supports"] == ["claim-1"]
    event = aana.tool_precheck_event(
        tool_name="get_recent_transactions",
        tool_category="private_read",
        authorization_state="authenticated",
        evidence_refs=[ref, "ticket:7"],
        risk_domain="finance",
        proposed_arguments={"account_id": "acct_redacted"},
        request_id="r-1",
        authorization_subject={"subject_type": "account"},
    )
    assert aana.validate_event(event) == []
    assert "schema_version" not in event and event["request_id"] == "r-1"
    assert "agent_id" not in event
    assert aana.tool_evidence_ref(source_id="x", freshness={"status": "stale"}) == {
        "source_id": "x",
        "kind": "other",
        "trust_tier": "unknown",
        "redaction_status": "unknown",
        "freshness": {"status": "stale"},
        "provenance": "runtime",
    }


def test_what_cannot_be_built_says_why_and_repeats_no_value() -> None:
    with pytest.raises(ValueError, match=r"^kind: is none of the contract's values$"):
        aana.tool_evidence_ref(source_id="x", kind="secret-kind")
    with pytest.raises(ValueError, match=r"^event: is nested deeper than 64 \(D10\)$"):
        deep: dict[str, Any] = {}
        for _ in range(64):
            deep = {"a": deep}
        aana.tool_precheck_event(
            tool_name="x",
            tool_category="write",
            authorization_state="user_claimed",
            evidence_refs=[],
            risk_domain="unknown",
            proposed_arguments=deep,
        )
    with pytest.raises(ValueError, match=r"^tool_category: is none of the contract's values$"):
        aana.tool_precheck_event(
            tool_name="x",
            tool_category="hidden",
            authorization_state="none",
            evidence_refs=[],
            risk_domain="unknown",
            proposed_arguments={},
        )
