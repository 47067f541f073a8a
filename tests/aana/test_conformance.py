"""The public conformance data and the contract's own examples."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.aana.reference import ROUTES, decide
from threegate import aana
from threegate.aana.decision import unrecorded
from threegate.aana.vocabulary import CONTRACT_VERSION

RECORDED = datetime.fromisoformat("2026-05-14T00:00:00Z")
"""The moment at which the recorded answers were given."""


def test_every_line_has_the_same_route_or_a_stricter_one_with_a_deviation(
    conformance: list[dict[str, Any]],
) -> None:
    stricter = {}
    for case in conformance:
        result = aana.check_tool_call(case["event"], now=datetime.fromisoformat(case["now"]))
        expected, route = case["reference"]["route"], result["recommended_action"]
        assert ROUTES.index(route) >= ROUTES.index(expected), case["id"]
        if route == expected:
            assert set(case["reference"]["hard_blockers"]) <= set(result["hard_blockers"]), case["id"]
        else:
            assert result["deviations"], case["id"]
            stricter[case["id"]] = result["deviations"]
    assert len(conformance) == 45
    assert stricter == {
        "authenticated_private_read_allowed": ["D5"],
        "confirmed_write_allowed": ["D5"],
        "devops_confirmed_deploy_allowed": ["D5"],
        "Allowed: confirmed write": ["D13"],
        "openapi_confirmed": ["D13"],
    }


@pytest.mark.parametrize("named", [None, False, True], ids=["as recorded", "without v1", "with v1"])
def test_never_laxer_than_the_references_recorded_answers(recorded: list[dict[str, Any]], named: bool | None) -> None:
    """450 events with what the SDK answered: the same route or a stricter one with its name, and nothing runs more.

    Where the version was put in or taken out, the answer is the model's, which gave every recorded one.
    """
    executed = stricter = 0
    for line in recorded:
        event = dict(line["event"])
        route, runs = line["route"], line["executes"]
        if named is not None:
            event.pop("schema_version", None)
            if named:
                event["schema_version"] = CONTRACT_VERSION
            route, blockers = decide(event, RECORDED)
            runs = route == "accept" and not blockers
        result = aana.check_tool_call(event, now=RECORDED)
        shown = json.dumps(event)
        assert ROUTES.index(result["recommended_action"]) >= ROUTES.index(route), shown
        assert runs or not aana.should_execute_tool(result), shown
        executed += aana.should_execute_tool(result)
        if result["recommended_action"] != route:
            stricter += 1
            assert result["deviations"], shown
    assert len(recorded) == 450
    assert executed >= 8 and stricter >= 25


def test_the_model_gives_every_recorded_answer(recorded: list[dict[str, Any]]) -> None:
    """The model that the generated events are compared with is the reference, or the comparison would prove nothing."""
    for line in recorded:
        route, blockers = decide(line["event"], RECORDED)
        assert (route, blockers) == (line["route"], set(line["blockers"])), json.dumps(line["event"])
        assert line["executes"] == (route == "accept" and not blockers)


@pytest.mark.parametrize(
    ("case_id", "route", "named"),
    [
        ("seed_public_read", "accept", "accept"),
        ("seed_write_missing_confirmation", "ask", "refuse"),
        ("seed_private_read_missing_auth", "defer", "refuse"),
        ("seed_unknown_destructive", "refuse", "refuse"),
    ],
)
def test_the_seeds_examples(conformance: list[dict[str, Any]], case_id: str, route: str, named: str) -> None:
    """They name no version; with v1 named, examples 2 and 3 break its conditional rules (D15)."""
    event = next(case["event"] for case in conformance if case["id"] == case_id)
    strict = aana.check_tool_call({**event, "schema_version": CONTRACT_VERSION})
    assert strict["recommended_action"] == named and (strict["deviations"] == ["D15"]) == (named != route)
    result = aana.check_tool_call(event)
    assert result["recommended_action"] == result["architecture_decision"]["route"] == route
    assert result["gate_decision"] == ("pass" if route == "accept" else "fail")
    scores = {"accept": 0.95, "ask": 0.72, "defer": 0.45, "refuse": 0.15}
    aix = result["aix"]
    assert aix["score"] == aix["components"]["P"] == aix["components"]["C"] == scores[route]
    assert aix["components"]["F"] == (1.0 if route == "accept" else 0.75)
    assert aix["decision"] == route and aix["hard_blockers"] == result["hard_blockers"]
    assert aix["thresholds"][route] <= aix["score"]


def test_the_seeds_python_sample_works_with_our_import() -> None:
    sent = []

    def send_email(to: str) -> None:
        sent.append(to)

    def sample() -> dict[str, Any] | None:
        event = {
            "tool_name": "send_email",
            "tool_category": "write",
            "authorization_state": "user_claimed",
            "evidence_refs": ["draft_id:123"],
            "risk_domain": "customer_support",
            "proposed_arguments": {"to": "customer@example.com"},
            "recommended_route": "accept",
        }

        decision = aana.check_tool_call(event)

        if decision["architecture_decision"]["route"] == "accept":
            send_email(**event["proposed_arguments"])
        else:
            return {
                "blocked": True,
                "aana": decision["architecture_decision"],
            }
        return None

    answer = sample()
    assert answer is not None and answer["blocked"] and answer["aana"]["route"] == "ask"
    assert sent == []


def test_should_execute_tool_needs_every_line_of_the_execution_rule(
    conformance: list[dict[str, Any]],
) -> None:
    accepted = aana.check_tool_call(conformance[0]["event"], now=datetime.fromisoformat("2026-05-10T00:00:00Z"))
    assert aana.should_execute_tool(accepted)
    for broken in (
        {"gate_decision": "fail"},
        {"recommended_action": "ask"},
        {"recommended_action": "revise"},
        {"architecture_decision": {"route": "ask"}},
        {"architecture_decision": None},
        {"hard_blockers": ["x"]},
        {"hard_blockers": None},
        {"aix": {"hard_blockers": ["x"]}},
        {"aix": None},
        {"validation_errors": [{"path": "", "message": "x"}]},
        {"validation_errors": None},
    ):
        assert not aana.should_execute_tool({**accepted, **broken}), broken
    for odd in (None, [], "accept", True, {}):
        assert not aana.should_execute_tool(odd)


def test_a_naive_now_is_utc(conformance: list[dict[str, Any]]) -> None:
    event = conformance[5]["event"]
    aware = datetime.fromisoformat("2026-05-10T00:00:00+00:00")
    assert aana.check_tool_call(event, now=aware.replace(tzinfo=None)) == aana.check_tool_call(event, now=aware)


def test_an_unrecorded_decision_is_a_refusal() -> None:
    result = unrecorded()
    assert result["recommended_action"] == "refuse" and result["hard_blockers"] == ["decision_not_recorded"]
    assert result["reasons"] == ["decision_not_recorded"]
    assert result.keys() == aana.check_tool_call({}).keys()
    assert not aana.should_execute_tool(result)
