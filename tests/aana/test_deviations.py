"""Each deliberate deviation of docs/spec/3-aana.md, by itself: what the documented SDK would say, what we say, and
its name.
"""

from __future__ import annotations

import copy
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.aana import generated
from tests.aana.reference import ROUTES, STATES, decide
from threegate import aana
from threegate.aana import vocabulary

NOW = datetime(2026, 5, 10, tzinfo=UTC)
DOCS = Path(__file__).parents[2] / "docs" / "spec" / "3-aana.md"


def reference(**changes: Any) -> dict[str, Any]:
    ref = {
        "source_id": "auth.session",
        "kind": "auth_event",
        "trust_tier": "verified",
        "redaction_status": "redacted",
        "summary": "User identity was authenticated.",
        "freshness": {"status": "fresh"},
        "provenance": "connector",
    }
    return {**ref, **changes}


APPROVAL = reference(
    source_id="approval.1", kind="approval", summary="User explicitly confirmed the send.", supports=["send_email"]
)


def event(**changes: Any) -> dict[str, Any]:
    base = {
        "tool_name": "read_transactions",
        "tool_category": "private_read",
        "authorization_state": "authenticated",
        "evidence_refs": [reference()],
        "risk_domain": "finance",
        "proposed_arguments": {"limit": 5},
        "recommended_route": "accept",
    }
    return {**base, **changes}


def write(**changes: Any) -> dict[str, Any]:
    base = event(
        tool_name="send_email",
        tool_category="write",
        authorization_state="confirmed",
        evidence_refs=[APPROVAL],
        risk_domain="customer_support",
    )
    return {**base, **changes}


def public(**changes: Any) -> dict[str, Any]:
    base = event(
        tool_name="read_page",
        tool_category="public_read",
        authorization_state="none",
        evidence_refs=[],
        risk_domain="research",
    )
    return {**base, **changes}


def decided(value: Any, **options: Any) -> dict[str, Any]:
    return aana.check_tool_call(value, now=NOW, **options)


def differs(value: dict[str, Any], route: str, *deviations: str, sdk: str = "accept") -> dict[str, Any]:
    """Ours is `route` and says why; the documented SDK would have said `sdk`."""
    result = decided(value)
    assert decide(value, NOW)[0] == sdk
    assert result["recommended_action"] == route
    assert result["deviations"] == list(deviations)
    assert result["gate_decision"] == "fail"
    return result


def test_the_calls_that_all_these_start_from_are_accepted() -> None:
    for value in (event(), write(), public()):
        result = decided(value)
        assert result["recommended_action"] == "accept" and result["deviations"] == []


@pytest.mark.parametrize("field", vocabulary.REQUIRED_FIELDS)
def test_d1_every_required_field_is_required(field: str) -> None:
    value = event()
    del value[field]
    result = decided(value)
    assert result["recommended_action"] == "refuse" and result["deviations"] == ["D1"]
    assert result["hard_blockers"] == ["contract_normalization_failed"]
    assert result["validation_errors"] == [{"path": field, "message": "is required (D1)"}]


@pytest.mark.parametrize("version", ["aana.agent_tool_precheck.v2", "", "AANA.agent_tool_precheck.v1", None, 1, ["v1"]])
def test_d2_another_version_is_refused(version: object) -> None:
    result = decided(event(schema_version=version))
    assert result["recommended_action"] == "refuse" and result["deviations"] == ["D2"]


def test_d2_naming_v1_changes_nothing_but_d15(conformance: list[dict[str, Any]]) -> None:
    for case in conformance:
        bare = {key: value for key, value in case["event"].items() if key != "schema_version"}
        named = decided({**bare, "schema_version": vocabulary.CONTRACT_VERSION})
        assert named == decided(bare) or named["deviations"] == ["D15"], case["id"]


def test_d3_accept_never_goes_with_a_blocker() -> None:
    result = differs(
        public(tool_name="read_customer", authorization_state="none", evidence_refs=[reference()]),
        "ask",
        "D3",
    )
    assert result["hard_blockers"] == ["public_read_identity_bound_misclassified"]
    assert result["aana_route"] == "ask" == result["architecture_decision"]["route"]
    unsupported = public(authorization_state="validated", evidence_refs=[reference()])
    assert differs(unsupported, "ask", "D3")["hard_blockers"] == ["authorization_state_not_supported_by_evidence"]


@pytest.mark.parametrize(
    "summary",
    [
        "The user has NOT confirmed the send.",
        "The user hasn't confirmed it.",
        "The user hasn’t confirmed it.",
        "User confirmation: unconfirmed.",
        "Never confirmed by the user.",
        "The user did not, despite two reminders, confirm; nothing was confirmed.",
        "Awaiting the user: to be confirmed.",
        "Confirmed: false",
        "Confirmation was denied, so nothing is confirmed.",
        "Must be confirmed by the user first.",
        "The user declined, so not confirmed.",
        "Not yet explicitly confirmed.",
        "User is unauthenticated but the draft was confirmed.",
        "non-confirmed",
        "No one confirmed this.",
        "It is unlikely that the user confirmed.",
        "If confirmed, send it.",
        "The user would have confirmed it.",
        "Explicitly confirmed by nobody.",
        "Confirmed? No.",
        "Was it confirmed?",
        "Confirmed: withheld",
        "The user confirmed that they do not want this.",
        "User explicitly confirmed: do NOT send.",
        "To be explicitly confirmed.",
        "It will be confirmed tomorrow.",
        "The user promised to have it confirmed.",
    ],
)
def test_d4_negated_confirmation_supports_nothing(summary: str) -> None:
    """Of evidence that would confirm: an approval, and a verified tool_result that names this action (D16)."""
    approval = differs(write(evidence_refs=[{**APPROVAL, "summary": summary}]), "ask", "D4")
    assert approval["authorization"]["evidence_supported_state"] == "none"
    refs = [reference(kind="tool_result", source_id="crm.1", summary=summary, supports=["send_email"])]
    result = differs(write(evidence_refs=refs), "ask", "D4")
    assert result["authorization"]["evidence_supported_state"] == "none"
    assert "authorization_state_not_supported_by_evidence" in result["hard_blockers"]


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": "The session is unauthenticated."},
        {"summary": "User was not authenticated."},
        {"summary": "Authentication failed."},
        {"summary": "Login denied."},
        {"summary": "The identity could not be verified."},
        {"summary": "Declined."},
        {"source_id": "auth.not-authenticated", "summary": ""},
        {"source_id": "auth_unverified", "summary": ""},
    ],
)
def test_d4_negated_authentication_supports_nothing(changes: dict[str, str]) -> None:
    differs(event(evidence_refs=[reference(**changes)]), "ask", "D4")


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("tool_result", "The target is not validated."),
        ("tool_result", "Ownership could not be established."),
        ("tool_result", "The account is ineligible, ownership unproven; not eligible."),
        ("policy", "This is not allowed."),
        ("policy", "Disallowed."),
        ("policy", "Not validated."),
    ],
)
def test_d4_negated_validation_supports_nothing(kind: str, summary: str) -> None:
    refs = [reference(kind=kind, source_id="check.1", summary=summary)]
    differs(event(authorization_state="validated", evidence_refs=refs), "ask", "D4")


@pytest.mark.parametrize(
    "summary",
    [
        "The user confirmed the redacted email draft should be sent.",
        "Operator confirmed exactly this request by signature.",
        "Operator confirmed calls of this form by signature.",
        "Confirmed by the user; no further steps are open.",
        "The user confirmed, not the assistant.",
        "Confirmed with no changes to the draft.",
        "Logged in to session 7; the user confirmed the send to ann.",
    ],
)
def test_d4_plain_confirmation_still_counts(summary: str) -> None:
    assert decided(write(evidence_refs=[{**APPROVAL, "summary": summary}]))["recommended_action"] == "accept"


@pytest.mark.parametrize(
    "summary",
    [
        "User explicitly confirmed; no further confirmation needed.",
        "No further confirmation is required.",
        "Confirmed by the owner, no additional user approval necessary.",
        "The user confirmed the send and no more confirmations are needed",
        "Confirmed. It does not require further confirmation.",
        "Confirmed; needs no second approval.",
        "The user confirmed; further confirmation is not required.",
        "Approved by Ann; other approvals aren't needed.",
        "Confirmed, with no other approval outstanding.",
    ],
)
def test_d4_that_nothing_more_is_asked_for_denies_nothing(summary: str) -> None:
    assert decided(write(evidence_refs=[{**APPROVAL, "summary": summary}]))["recommended_action"] == "accept"


@pytest.mark.parametrize(
    "summary",
    [
        "Not confirmed; no further confirmation needed.",
        "No further confirmation was received, none is confirmed.",
        "Do not send without further confirmation.",
        "No further confirmation needed until the user has confirmed.",
        "Further confirmation is required.",
        "Further confirmation is needed, not given.",
        "That no further confirmation is needed is false.",
        "No further confirmation needed?",
        "No confirmation.",
    ],
)
def test_d4_what_only_sounds_like_it_still_denies(summary: str) -> None:
    differs(write(evidence_refs=[{**APPROVAL, "summary": summary}]), "ask", "D4")


@pytest.mark.parametrize(
    "summary",
    ["User will confirm later.", "The user was asked to confirm.", "Confirmation withheld.", "Approval requested.",
     "Approval retracted.", "Approved?", "User objected.", "Is yet to approve."],
)  # fmt: skip
def test_d4_an_approval_that_is_none_supports_nothing(summary: str) -> None:
    differs(write(evidence_refs=[{**APPROVAL, "summary": summary}]), "ask", "D4")


def test_d4_what_a_higher_state_lacks_does_not_deny_the_lower_one() -> None:
    summary = "User identity was authenticated, but explicit confirmation is missing."
    assert decided(event(evidence_refs=[reference(summary=summary)]))["recommended_action"] == "accept"


@pytest.mark.parametrize(
    "changes",
    [
        {"trust_tier": "unverified"},
        {"trust_tier": "unknown"},
        {"trust_tier": "user_claimed"},
        {"freshness": {"status": "unknown"}},
        {"freshness": {}},
    ],
)
def test_d5_weak_or_undated_evidence_supports_at_most_a_claim(changes: dict[str, Any]) -> None:
    result = differs(write(evidence_refs=[{**APPROVAL, **changes}]), "ask", "D5")
    assert result["authorization"]["evidence_supported_state"] == "user_claimed"
    bare = {key: value for key, value in APPROVAL.items() if key not in changes}
    differs(write(evidence_refs=[bare]), "ask", "D5")


def without(ref: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in ref.items() if name != key}


@pytest.mark.parametrize(
    ("ref", "cause"),
    [
        (without(APPROVAL, "freshness"), "freshness is missing"),
        (without(APPROVAL, "trust_tier"), "trust_tier is missing"),
        ({**APPROVAL, "freshness": {"checked_at": NOW.isoformat()}}, "freshness.status is missing"),
        ({**APPROVAL, "freshness": {"status": "unknown"}}, "freshness.status is unknown"),
        ({**APPROVAL, "trust_tier": "unverified"}, "trust_tier is unverified"),
        (
            {**APPROVAL, "retrieved_at": (NOW - timedelta(days=8)).isoformat()},
            "freshness is stale by its times",
        ),
    ],
)
def test_d5_names_the_key_that_is_missing_or_weak(ref: dict[str, Any], cause: str) -> None:
    said = f"evidence_refs.1.{cause}: supports at most user_claimed (D5)"
    result = decided(write(evidence_refs=[reference(), ref]))
    assert [reason for reason in result["reasons"] if "(D5)" in reason] == [said]
    assert "D5" in result["deviations"]
    both = without(without(APPROVAL, "freshness"), "trust_tier")
    assert sum("(D5)" in reason for reason in decided(write(evidence_refs=[both]))["reasons"]) == 2


def test_d5_stale_evidence_supports_at_most_a_claim() -> None:
    result = decided(write(evidence_refs=[{**APPROVAL, "freshness": {"status": "stale"}}]))
    assert result["recommended_action"] == "defer" and "D5" in result["deviations"]
    assert result["authorization"]["effective_state"] == "user_claimed"


@pytest.mark.parametrize(
    "name",
    [
        "delete_database", "deleteDatabase", "DELETE-TABLE", "transfer_funds", "wipe_disk", "send_report", "remove.user",  # noqa: E501
        "dropTable", "purge", "payInvoice", "bulkdelete", "deLete_row", "deploy_status", "get_and_delete", "list_then_purge",  # noqa: E501
        "fetch_delete", "get_bulkdelete", "read_or_write_file", "status_then_get_deploy", "getAndDelete",
    ],
)  # fmt: skip
def test_d6_a_public_read_named_as_an_action_is_unknown(name: str) -> None:
    identity = any(part in name.lower() for part in vocabulary.IDENTITY_NAMES)
    result = differs(public(tool_name=name), "defer", "D6", sdk="defer" if identity else "accept")
    assert result["hard_blockers"][:2] == ["category_contradicts_tool_name", "unknown_tool_category"]
    assert result["effective_category"] == "unknown"


@pytest.mark.parametrize(
    "name",
    [
        "search_docs", "get_payload", "read_depot", "list_updates", "undertaker_hours", "get_deploy_status",
        "getDeployStatus", "list_transfers", "list_deleted_items", "check_refund_policy", "github.get_deploy_log",
        "describe-shutdown-schedule", "find_grant_programs", "read_send_quota", "show_transfer_times",
    ],
)  # fmt: skip
def test_d6_other_names_stay_public(name: str) -> None:
    assert decided(public(tool_name=name))["recommended_action"] == "accept"


SECRET = generated.SECRETS[0]


@pytest.mark.parametrize(
    ("changes", "blocker"),
    [
        ({"proposed_arguments": {"note": SECRET}}, "argument_secret_leak"),
        ({"proposed_arguments": {SECRET: 1}}, "argument_secret_leak"),
        ({"proposed_arguments": {"a": [{"b": ["x", SECRET]}]}}, "argument_secret_leak"),
        ({"proposed_arguments": {"a": [{SECRET: {}}]}}, "argument_secret_leak"),
        ({"proposed_arguments": {"password": "hunter2-Tr0ub4dor"}}, "argument_secret_leak"),
        ({"user_intent": f"use {SECRET}"}, "event_secret_leak"),
        ({"tool_name": f"read_{SECRET}"}, "event_secret_leak"),
        ({"request_id": SECRET}, "event_secret_leak"),
        ({"agent_id": SECRET}, "event_secret_leak"),
        ({"authorization_subject": {"subject_ref": SECRET}}, "event_secret_leak"),
        ({"evidence_refs": [reference(supports=["a", SECRET])]}, "evidence_secret_leak"),
        (
            {"evidence_refs": [reference(freshness={"status": "fresh", "source": SECRET})]},
            "evidence_secret_leak",
        ),
    ],
)
def test_d7_secrets_are_looked_for_everywhere(changes: dict[str, Any], blocker: str) -> None:
    result = differs(event(**changes), "refuse", "D7")
    assert result["hard_blockers"] == [blocker]


@pytest.mark.parametrize("secret", generated.SECRETS)
def test_d7_with_the_breadth_of_detect_secrets(secret: str) -> None:
    assert decided(event(proposed_arguments={"note": secret}))["recommended_action"] == "refuse"


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": {"account_id": 1}},
        {"rows": [[{"customer_id": 1}]]},
        {"customerId": 1},
        {"CustomerID": 1},
        {"customer-id": 1},
        {"query": {"deep": {"Email": "x"}}},
    ],
)
def test_d7_identity_keys_count_nested_and_in_any_spelling(arguments: dict[str, Any]) -> None:
    result = differs(public(proposed_arguments=arguments), "defer", "D7")
    assert "public_read_identity_bound_misclassified" in result["hard_blockers"]


@pytest.mark.parametrize(
    "changes",
    [
        {"retrieved_at": (NOW + timedelta(minutes=5, seconds=1)).isoformat()},
        {"freshness": {"status": "fresh", "checked_at": (NOW + timedelta(days=1)).isoformat()}},
        {"freshness": {"status": "fresh", "age_hours": 3, "max_age_hours": 2}},
        {"freshness": {"status": "fresh", "age_hours": 169}},
        {
            "freshness": {"status": "fresh", "max_age_hours": 2},
            "retrieved_at": (NOW - timedelta(hours=3)).isoformat(),
        },
    ],
)
def test_d8_from_the_future_or_older_than_allowed_is_stale(changes: dict[str, Any]) -> None:
    result = decided(event(evidence_refs=[reference(**changes)]))
    assert result["recommended_action"] == "defer" and "D8" in result["deviations"]
    assert "stale_evidence" in result["hard_blockers"]
    assert decide(event(evidence_refs=[reference(**changes)]), NOW)[0] == "accept"


def test_d8_a_clock_that_is_a_little_ahead_is_no_matter() -> None:
    soon = (NOW + timedelta(minutes=4, seconds=59)).isoformat()
    assert decided(event(evidence_refs=[reference(retrieved_at=soon)]))["recommended_action"] == "accept"


@pytest.mark.parametrize("secret", [*generated.SECRETS, "sk-abcdef123456789", "123-45-6789", "password=Tr0ub4dor-3"])
def test_d9_a_found_secret_is_replaced_by_its_kind(secret: str) -> None:
    value = event(
        tool_name=f"tool {secret}",
        evidence_refs=[reference(source_id=f"ref {secret}", summary=f"see {secret}")],
        request_id=secret,
    )
    result = decided(value)
    assert "evidence_secret_leak" in result["hard_blockers"]
    assert secret not in repr(result)
    assert re.match(r"ref \S*\[[a-z-]+\]", result["evidence_report"]["used_source_ids"][0])


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "x",
        [],
        {},
        {"tool_name": []},
        {1: 2},
        float("nan"),
        {"a": float("inf")},
        b"x",
        object(),
        {"a": {1, 2}},
    ],
)
def test_d10_any_value_gets_a_decision(value: object) -> None:
    result = decided(value)
    assert result["recommended_action"] == "refuse" and result["validation_errors"]


def test_d10_64_kib_are_decided_in_time() -> None:
    value = event(proposed_arguments={"note": "password " * 7000})
    begun = time.process_time()
    decided(value)
    assert time.process_time() - begun < 5  # the bench holds the 100 ms; this catches only what is catastrophic


def test_d11_among_supported_states_a_higher_one_is_never_stricter() -> None:
    for value in (
        event(),
        write(),
        public(tool_name="read_customer", evidence_refs=[reference()]),
        public(proposed_arguments={"email": "x"}, evidence_refs=[APPROVAL]),
    ):
        best = STATES.index(decided(value)["authorization"]["evidence_supported_state"])
        routes = [
            ROUTES.index(decided({**value, "authorization_state": state})["recommended_action"])
            for state in STATES[: best + 1]
        ]
        assert routes == sorted(routes, reverse=True)


def test_d11_the_reference_does_not_hold_it() -> None:
    """Declaring nothing was better than declaring a claim; the deviation is D3's raise to ask."""
    value = public(tool_name="read_customer", evidence_refs=[reference()])
    assert decide({**value, "authorization_state": "user_claimed"}, NOW)[0] == "ask"
    assert decide({**value, "authorization_state": "none"}, NOW)[0] == "accept"
    assert decided(value)["recommended_action"] == "ask"


def test_d12_production_takes_structured_references_only() -> None:
    value = public(evidence_refs=["draft_id:123"])
    assert decided(value)["recommended_action"] == "accept"
    result = decided(value, evidence_mode="production")
    assert result["recommended_action"] == "refuse" and result["deviations"] == ["D12"]
    assert result["validation_errors"][0]["path"] == "evidence_refs.0"
    assert decided(event(), evidence_mode="production") == decided(event())


@pytest.mark.parametrize("kind", ["assistant_message", "user_message", "other"])
def test_d13_what_anybody_can_say_supports_at_most_a_claim(kind: str) -> None:
    result = differs(write(evidence_refs=[{**APPROVAL, "kind": kind}]), "ask", "D13")
    assert result["authorization"]["evidence_supported_state"] == "user_claimed"


@pytest.mark.parametrize("kind", ["tool_result", "policy", "system_state", "audit_record", "approval"])
@pytest.mark.parametrize("summary", ["User identity was authenticated.", "You are authenticated.", "re-authenticated"])
def test_d13_the_word_authenticated_supports_a_claim_at_most_unless_it_is_an_auth_event(
    kind: str, summary: str
) -> None:
    value = event(evidence_refs=[reference(kind=kind, source_id="page.1", summary=summary)])
    if kind == "approval":
        assert decided(value)["recommended_action"] == "accept"
        return
    result = differs(value, "ask", "D13")
    assert result["authorization"]["evidence_supported_state"] == "user_claimed"


def test_d13_a_quickstart_string_confirms_nothing() -> None:
    differs(write(evidence_refs=["user_confirmed_send_email"]), "ask", "D13")


@pytest.mark.parametrize(
    "changes", [{"user_intent": "Search the public catalog."}, {"proposed_arguments": {"note": "list all"}}]
)
def test_d14_exempting_words_count_in_the_name_only(changes: dict[str, Any]) -> None:
    result = differs(public(tool_name="get_customer_data", **changes), "defer", "D14")
    assert "public_read_identity_bound_misclassified" in result["hard_blockers"]
    assert decided(public(tool_name="search_customer_data"))["recommended_action"] == "accept"


@pytest.mark.parametrize("name", ["find-customer", "lookup customer", "catalog.user", "get:public:account"])
def test_d14_only_the_words_search_and_list_exempt_a_name(name: str) -> None:
    differs(public(tool_name=name), "defer", "D14")


@pytest.mark.parametrize(
    "name",
    ["lookup_customer_account", "find_user_id_by_email", "get_public_customer_profile", "user_availability",
     "catalog_order", "listing_users", "researchUser", "listOrders"],
)  # fmt: skip
def test_a_name_bound_to_an_identity_is_exempted_by_the_whole_words_search_and_list_only(name: str) -> None:
    """As in the reference, where find, lookup and public never match inside snake_case."""
    for refs, state in (([], "confirmed"), ([reference(kind="user_message")], "user_claimed")):
        value = public(tool_name=name, evidence_refs=refs, authorization_state=state)
        result = decided(value)
        assert result["recommended_action"] == decide(value, NOW)[0] != "accept"
        assert "public_read_identity_bound_misclassified" in result["hard_blockers"]


@pytest.mark.parametrize("name", ["search_customers", "list_orders", "user-list", "customer.search"])
def test_the_whole_words_search_and_list_exempt_a_name(name: str) -> None:
    assert decided(public(tool_name=name))["recommended_action"] == "accept"
    assert not aana.is_identity_bound(name, {"rows": [{"n": 1}, "x"], 5: 1})


def test_the_daemon_sees_the_same_names_and_keys() -> None:
    assert aana.is_identity_bound("lookup_customer_account", {})
    assert aana.is_identity_bound("run", {"rows": [{"customerId": 1}]})


@pytest.mark.parametrize(
    "changes",
    [
        {"tool_category": "unknown", "authorization_state": "confirmed", "recommended_route": "accept"},
        {"authorization_state": "authenticated", "evidence_refs": [reference()]},
        {"authorization_state": "none"},
        {"tool_category": "private_read", "authorization_state": "user_claimed"},
    ],
)
def test_d15_naming_v1_applies_its_conditional_rules(changes: dict[str, Any]) -> None:
    value = write(**changes, schema_version=vocabulary.CONTRACT_VERSION)
    result = decided(value)
    assert result["recommended_action"] == "refuse" and result["deviations"] == ["D15"]
    assert result["hard_blockers"] == ["contract_normalization_failed"]
    assert decided(without(value, "schema_version"))["validation_errors"] == []
    for route in ("ask", "defer", "refuse"):
        assert decided({**value, "recommended_route": route})["validation_errors"] == []


def test_d15_what_evidence_raises_does_not_count() -> None:
    """The reference raises the declared state first, and runs this one."""
    value = write(authorization_state="user_claimed", schema_version=vocabulary.CONTRACT_VERSION)
    differs(value, "refuse", "D15")


CONFIRMED_WORDS = [
    "Order confirmed.", "User explicitly confirmed the send.", "The deployment state is confirmed.",
    "Confirmed: delete_account", "send_email_later was confirmed", "resend_email was confirmed",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["tool_result", "policy", "auth_event", "system_state", "audit_record"])
@pytest.mark.parametrize("summary", CONFIRMED_WORDS)
def test_d16_confirmed_is_not_supported_by_any_text_with_the_word(kind: str, summary: str) -> None:
    """Neither by a page's text, nor by a system's state, nor by a confirmation of something else."""
    result = differs(write(evidence_refs=[reference(kind=kind, source_id="page.1", summary=summary)]), "ask", "D16")
    assert result["authorization"]["evidence_supported_state"] != "confirmed"


@pytest.mark.parametrize("kind", ["tool_result", "policy", "auth_event", "audit_record"])
@pytest.mark.parametrize(
    "changes",
    [
        {"summary": "User explicitly confirmed send_email to Ann."},
        {"summary": "SEND_EMAIL: confirmed by the user."},
        {"source_id": "confirmation:send_email", "summary": "The user confirmed it."},
        {"summary": "The user confirmed it.", "supports": ["claim-1", "send_email"]},
    ],
)
def test_d16_a_verified_confirmation_that_names_this_action_counts(kind: str, changes: dict[str, Any]) -> None:
    ref = reference(kind=kind, **{"source_id": "desk.1", **changes})
    assert decided(write(evidence_refs=[ref]))["recommended_action"] == "accept"
    assert decided(write(evidence_refs=[ref], tool_name="send_note"))["recommended_action"] == "ask"
    differs(write(evidence_refs=[{**ref, "trust_tier": "runtime"}]), "ask", "D16")
    differs(write(evidence_refs=[{**ref, "kind": "system_state"}]), "ask", "D16")


GONE = [
    "Missing authorization.", "Counterfactual stressor removes source task authorization before execution.",
    "Trace removes verified authorization from the call.", "Authorization is missing.", ("The authorization was "
        "revoked."),
    "authorization context is absent", "No verified authorization context is present.", ("Authorisation has been "
        "withdrawn."),
    "authorization not granted",
]  # fmt: skip


@pytest.mark.parametrize("kind", vocabulary.KINDS)
@pytest.mark.parametrize(
    "changes",
    [
        *({"summary": text} for text in GONE),
        {"source_id": "counterfactual.missing_authorization"},
        {"source_id": "counterfactual.missing_authorization.noisy_trace"},
        {"source_id": "Counterfactual.Missing_Authorization"},
        {"source_id": "trace/missing-authorization/7"},
        {"source_id": "counterfactual_missing_auth"},
        {"source_id": "authorization.revoked"},
    ],
)
def test_d16_missing_authorization_is_looked_for_in_every_kind_of_evidence(kind: str, changes: dict[str, str]) -> None:
    ref = reference(kind=kind, **{"source_id": "trace.1", "summary": "", **changes})
    for value in (write(evidence_refs=[APPROVAL, ref]), event(evidence_refs=[reference(), ref])):
        result = decided(value)
        assert result["recommended_action"] == "defer"
        assert "evidence_missing_authorization" in result["hard_blockers"]
        assert decide(value, NOW)[0] == "defer" or result["deviations"] == ["D16"]


def test_what_is_malformed_for_us_alone_is_named() -> None:
    for value in (event(shadow_mode=True), event(user_intent=7), event(evidence_refs="a")):
        assert decided(value)["deviations"] == ["D1"]
    assert decided(event(proposed_arguments={"a": "x" * 70_000}))["deviations"] == ["D10"]


def test_every_deviation_has_its_line_in_the_docs() -> None:
    text = DOCS.read_text()
    for number in range(1, 17):
        assert re.search(rf"^\| D{number} \| \S", text, re.M), f"docs/spec/3-aana.md has no line for D{number}"


def test_the_events_of_this_module_are_not_changed_by_the_gate() -> None:
    value = write()
    kept = copy.deepcopy(value)
    decided(value)
    assert value == kept
