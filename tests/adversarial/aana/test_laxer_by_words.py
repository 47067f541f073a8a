"""Words, spellings and missing keys that try to make a decision laxer than the documented SDK's.

Around each vocabulary rule of the reference (docs/spec/3-aana.md), events are drawn from its own words in any order,
spelling and place. The model of tests/aana gave every recorded answer of the reference; here ours is held against it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aana import generated
from tests.aana.generated import DOMAINS, KINDS, NOW
from tests.aana.reference import IDENTITY_KEYS, IDENTITY_NAMES, ROUTES, STATES, decide
from tests.conftest import examples
from threegate import aana
from threegate.aana import vocabulary

FEW = examples(400, deadline=None, derandomize=True)

WORDS = [
    *vocabulary.CONFIRMATION_WORDS, *vocabulary.RESULT_VALIDATION_WORDS, *vocabulary.POLICY_VALIDATION_WORDS,
    *vocabulary.MISSING_WORDS, *vocabulary.CONTRADICTION_WORDS, *vocabulary.AUTHORIZATION_GONE_WORDS, "authenticated",
    "user claimed", "search", "find", "list", "lookup", "catalog", "availability", "opening hours", "public",
    "counterfactual.missing_authorization", "not", "no", "further", "needed", "send_email", "get_account", "the", "?",
]  # fmt: skip
JOINS = st.sampled_from([" ", ". ", "; ", "_", "-", ".", "", "\n", ", "])
CASES = st.sampled_from([str, str.upper, str.title])


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.sampled_from(WORDS), max_size=5))
    return draw(CASES)(draw(JOINS).join(words))


@st.composite
def names(draw: st.DrawFn) -> str:
    words = st.sampled_from(
        [*IDENTITY_NAMES, "search", "find", "list", "lookup", "public", "get", "read", "status", "by", "s"]
    )
    return draw(CASES)(draw(JOINS).join(draw(st.lists(words, min_size=1, max_size=4)))) or "x"


REFS = st.fixed_dictionaries(
    {"source_id": texts().map(lambda text: f"s{text}" if not text.startswith("counter") else text)},
    optional={
        "kind": st.sampled_from(KINDS),
        "trust_tier": st.sampled_from(["verified", "verified", "runtime", *vocabulary.WEAK_TIERS]),
        "redaction_status": st.sampled_from(vocabulary.REDACTIONS),
        "summary": texts(),
        "freshness": st.sampled_from([{"status": "fresh"}, {"status": "fresh"}, {"status": "unknown"}, {}]),
        "retrieved_at": st.sampled_from([(NOW - timedelta(hours=hours)).isoformat() for hours in (1, 168, 169)]),
        "supports": st.lists(st.sampled_from(["send_email", "claim"]), max_size=2),
        "contradicts": st.lists(st.just("claim"), max_size=1),
    },
)
EVENTS = st.fixed_dictionaries(
    {
        "tool_name": names() | st.sampled_from(["send_email", "get_account"]),
        "tool_category": st.sampled_from(vocabulary.CATEGORIES),
        "authorization_state": st.sampled_from(STATES),
        "evidence_refs": st.lists(REFS | texts().map(lambda text: f"s{text}"), max_size=3),
        "risk_domain": st.sampled_from(DOMAINS),
        "proposed_arguments": st.dictionaries(
            st.sampled_from([*IDENTITY_KEYS, "q", "Customer-ID"]), texts(), max_size=2
        ),
        "recommended_route": st.sampled_from(["accept", *ROUTES]),
    },
    optional={"user_intent": texts(), "schema_version": st.just(vocabulary.CONTRACT_VERSION)},
)


@FEW
@given(EVENTS)
def test_no_words_in_any_place_make_it_laxer_or_stricter_without_a_name(event: dict[str, Any]) -> None:
    expected, blockers = decide(event, NOW)
    result = aana.check_tool_call(event, now=NOW)
    route = result["recommended_action"]
    assert ROUTES.index(route) >= ROUTES.index(expected)
    assert (expected == "accept" and not blockers) or not aana.should_execute_tool(result)
    assert route == expected or result["deviations"]


@FEW
@given(names(), st.sampled_from(STATES))
def test_no_name_makes_an_identity_bound_read_public(name: str, state: str) -> None:
    event = {**EVENT, "tool_name": name, "authorization_state": state}
    expected, blockers = decide(event, NOW)
    result = aana.check_tool_call(event, now=NOW)
    assert ROUTES.index(result["recommended_action"]) >= ROUTES.index(expected)
    assert not blockers or not aana.should_execute_tool(result)


EVENT: dict[str, Any] = {
    "tool_name": "send_email",
    "tool_category": "public_read",
    "authorization_state": "none",
    "evidence_refs": [],
    "risk_domain": "research",
    "proposed_arguments": {},
    "recommended_route": "accept",
}


@FEW
@given(
    st.sampled_from([kind for kind in KINDS if kind != "approval"]),
    st.sampled_from(vocabulary.TIERS),
    texts().filter(lambda text: "send_email" not in text.lower()),
)
def test_no_text_but_one_that_names_the_action_confirms_it(kind: str, tier: str, text: str) -> None:
    ref = {
        "source_id": "page.1",
        "kind": kind,
        "trust_tier": tier,
        "redaction_status": "redacted",
        "summary": text,
        "freshness": {"status": "fresh"},
    }
    event = {**EVENT, "tool_category": "write", "authorization_state": "confirmed", "evidence_refs": [ref]}
    result = aana.check_tool_call(event, now=NOW)
    assert result["authorization"]["effective_state"] != "confirmed"
    assert not aana.should_execute_tool(result)


@pytest.mark.parametrize("text", ["api token:", "password =", "the SECRET:", "api_key:"])
def test_a_string_is_read_with_what_the_reference_writes_behind_it(text: str) -> None:
    """A quickstart string gets a summary there, and `token: Quickstart` is a leak."""
    result = aana.check_tool_call({**EVENT, "tool_name": "read_page", "evidence_refs": [text]}, now=NOW)
    assert result["recommended_action"] == "refuse" and "evidence_secret_leak" in result["hard_blockers"]


def test_an_empty_provenance_is_malformed_as_in_the_published_schema() -> None:
    event = {**EVENT, "tool_name": "read_page", "evidence_refs": [{"source_id": "a", "provenance": ""}]}
    assert aana.check_tool_call(event, now=NOW)["recommended_action"] == "refuse"


@pytest.mark.parametrize("moment", ["2026-05-09Z", "2026-05-09T00:00:00Z", "20260509T000000Z"])
def test_z_stands_for_utc_in_every_form_that_the_reference_reads(moment: str) -> None:
    ref = {"source_id": "a", "retrieved_at": moment}
    event = {**EVENT, "tool_name": "read_page", "evidence_refs": [ref]}
    assert aana.check_tool_call(event, now=NOW)["recommended_action"] == "accept"
    broken = {**ref, "retrieved_at": "2026-05-09T00:00:00+00:00Z"}
    result = aana.check_tool_call({**event, "evidence_refs": [broken]}, now=NOW)
    assert "invalid_retrieved_at" in result["hard_blockers"]


def test_a_lone_surrogate_beside_a_router_key_is_decided() -> None:
    """It once raised in the search for such keys; nothing may (D10)."""
    key = generated.SECRETS[4]
    for place in ({"proposed_arguments": {"a": "\ud800", "b": key}}, {"user_intent": f"\udfff {key}"}):
        result = aana.check_tool_call({**EVENT, "tool_name": "read_page", **place}, now=NOW)
        assert result["recommended_action"] == "refuse" and key not in repr(result)
