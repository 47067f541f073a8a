"""An agent that looks for a way around a total, an envelope or a phase: what it leaves out, repeats or runs at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.material import NOW, call, compiled, opened
from threegate.contracts import engine, transitions
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.schema_paths import has_path
from threegate.contracts.state import Call, CallOutcome, Session, Tally, Total

DONE = CallOutcome("succeeded")


def codes(session: Session, asked: Call, **more: Any) -> list[str]:
    return [reason.code for reason in engine.decide(session, asked, NOW, **more).reasons]


def claimed(session: Session, name: str, arguments: dict[str, Any], tool: str = "t") -> Call:
    asked = call(arguments, tool=tool, call_id=name)
    assert codes(session, asked) == []
    transitions.reserve(session, asked)
    return asked


# ---- leaving out what counts


def cap(path: str = "$.order.shares", tool: str = "t", **more: Any) -> dict[str, Any]:
    rule = {"name": "cap", "metric": "sum", "tool": "*", "path": path, "lte": 10, "reason": "too many"}
    return {tool: {}, "session": {"aggregates": [rule]}, **more}


ORDER = {"properties": {"shares": {"maximum": 99}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"order": ORDER}},
        {"properties": {"order": {"$ref": "#/$defs/order"}}, "$defs": {"order": ORDER}},
        {"allOf": [{"properties": {}}, {"properties": {"order": {"anyOf": [{"type": "null"}, ORDER]}}}]},
        {"properties": {"order": {"oneOf": [{"type": "string"}, {"type": ["null", "object"], "required": ["shares"], "properties": {}}]}}},  # noqa: E501
        {"properties": {"order": {"type": "object"}, "n": {"maximum": 1}}},
        {"properties": {"order": {"type": "OBJECT", "properties": {}, "additionalProperties": {"minimum": 0}}}},
        {"properties": {"order": {"patternProperties": {"^s": {}}, "properties": {}}}},
        {"properties": {"order": True}},
        {"properties": {"order": {"$ref": "https://example.com/order.json"}}},
        {"properties": {"order": {"$ref": "#/$defs/nowhere"}}},
        {"if": {"properties": {}}, "then": {"properties": {"order": ORDER}}, "properties": {}},
        {"properties": {"order": {"properties": 5}}},
        {"properties": {"order": {"required": 5, "properties": {}}}},
        {"properties": {}, "allOf": 5},
        {"properties": {"order": 5}},
        5,
    ],
)  # fmt: skip
def test_what_a_tool_s_schema_may_have_is_never_left_out(schema: Any) -> None:
    spec = cap(**{"t": {"schema_derived": False}, "t.schema.json": schema if isinstance(schema, dict) else "5"})
    session = opened(spec)
    assert codes(session, call({})) == ["aggregate_unmeasurable"]
    assert codes(session, call({"order": {}})) == ["aggregate_unmeasurable"]
    assert codes(session, call({"order": {"shares": 10}})) == []
    assert codes(session, call({"order": {"shares": 11}})) == ["aggregate_exceeded"]


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"text": {"type": "string"}}}, "$.order.shares"),
        ({"properties": {"order": {"type": "string"}}}, "$.order.shares"),
        ({"properties": {"order": {"properties": {"n": {}}, "required": ["n"]}}}, "$.order.shares"),
        ({"type": "object", "additionalProperties": False}, "$.order.shares"),
        ({"properties": {"order": {"anyOf": [False, {"type": "null"}]}}}, "$.order.shares"),
        ({"properties": {"a": {"type": "array", "items": {"type": "number"}}}}, "$.a[*].shares"),
        ({"properties": {"a": {"prefixItems": [{"type": "number"}]}}}, "$.a[0].shares"),
        ({"properties": {"a": {"items": {"$ref": "#"}}, "s": {"type": "string"}}}, "$..shares"),
    ],
)
def test_a_tool_whose_schema_lacks_the_path_adds_nothing(schema: Any, path: str) -> None:
    assert not has_path(schema, compile_path(path))
    assert codes(opened(cap(path, **{"t": {"schema_derived": False}, "t.schema.json": schema})), call({})) == []


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"a": {"type": "array"}}}, "$.a[*].shares"),
        ({"properties": {"a": {"items": [{"properties": {"shares": {}}}]}}}, "$.a[0].shares"),
        ({"properties": {"a": {"items": {"$ref": "#"}}, "b": ORDER}}, "$..shares"),
        ({"properties": {"a": {"type": "object"}}}, "$..shares"),
        ({"properties": {"n": {"type": "number"}}}, "$"),
    ],
)
def test_a_schema_that_may_have_the_path_has_it(schema: Any, path: str) -> None:
    assert has_path(schema, compile_path(path))


@pytest.mark.parametrize("path", ["$" + ".*" * 20 + ".shares", "$..*..*..*.shares"])
def test_a_schema_that_contains_itself_takes_no_longer(path: str) -> None:
    schema = {"properties": {f"p{number}": {"$ref": "#"} for number in range(200)}}
    assert not has_path(schema, compile_path(path))


def test_no_unreadable_schema_lacks_a_path() -> None:
    spec = cap(**{"t": {"schema_derived": False}, "t.schema.json": "{"})
    assert codes(opened(spec), call({})) == ["aggregate_unmeasurable"]


def test_a_server_s_tool_has_a_schema_even_where_none_is_here() -> None:
    session = opened(cap(tool="bank.pay", **{"shop.*": {"schema_version": "1.1"}, "threegate.era": {}}))
    for tool in ("bank.pay", "shop.order"):
        assert codes(session, call({}, tool=tool)) == ["aggregate_unmeasurable"]
    assert codes(session, call({}, tool="threegate.era")) == []
    described = cap(tool="bank.pay", **{"bank.pay.schema.json": {"properties": {"to": {"maxLength": 9}}}})
    assert codes(opened(described), call({}, tool="bank.pay")) == []


@pytest.mark.parametrize("value", [None, "11", [], {}, True, [{"shares": 11}]])
def test_a_value_that_is_no_number_is_not_left_out(value: Any) -> None:
    session = opened(cap("$.shares"))
    assert codes(session, call({})) == []
    assert codes(session, call({"shares": value})) == ["aggregate_unmeasurable"]


@pytest.mark.parametrize("value", [None, "x", 5, [], [5]])
def test_what_hides_a_key_does_not_leave_it_out(value: Any) -> None:
    assert codes(opened(cap()), call({"order": value})) == ["aggregate_unmeasurable"]


def test_a_tool_outside_a_total_does_not_hide_what_its_backend_adds() -> None:
    era = {"implements": "(gone)"}
    named = {"implements": {"argv_prefix": ["x"]}, "arguments_from": "vars"}
    rule = {"name": "cpu", "metric": "sum", "tool": "*", "path": "$.limits.cpu", "lte": 2, "reason": "too much"}
    session = opened({"threegate.era": era, "t": named, "session": {"aggregates": [rule]}})
    asked = call({"argv": ["x"], "limits": {"cpu": 3}}, backend="threegate.era")
    assert codes(session, asked) == ["aggregate_exceeded"]
    unknown = call({"argv": ["x"], "limits": {"cpu": "3"}}, backend="threegate.era")
    assert codes(session, unknown) == ["aggregate_unmeasurable"]


def test_a_wide_list_does_not_make_a_total_unmeasured() -> None:
    session = opened(cap("$.a[*].shares"))
    assert codes(session, call({"a": [{}] * 20_000})) == ["aggregate_unmeasurable"]


# ---- taking a total down


def floor(**more: Any) -> dict[str, Any]:
    rule = {"name": "net", "metric": "sum", "tool": "t", "path": "$.n", "gte": -10, "reason": "too low", **more}
    return {"t": {}, "session": {"aggregates": [rule]}}


def test_two_calls_at_once_do_not_take_a_sum_below_its_bound() -> None:
    session = opened(floor())
    claimed(session, "a", {"n": -6})
    assert codes(session, call({"n": -6})) == ["aggregate_below"]


def test_a_call_that_may_fail_does_not_lift_a_sum() -> None:
    session = opened(floor())
    up = claimed(session, "up", {"n": 100})
    assert codes(session, call({"n": -11})) == ["aggregate_below"]
    transitions.commit(session, up, DONE)
    assert codes(session, call({"n": -11})) == []


def test_a_second_session_does_not_take_a_sum_below_its_bound() -> None:
    others = [Total("requester", Tally(aggregates={"net": engine_number(-6)}))]
    assert codes(opened(floor()), call({"n": -6}), others=others) == ["aggregate_below"]
    assert codes(opened(floor()), call({"n": -4}), others=others) == []


def engine_number(value: int) -> Any:
    session = opened(floor())
    transitions.commit(session, call({"n": value}), DONE)
    return session.tally.aggregates["net"]


def test_another_session_s_minimum_holds_nobody_back() -> None:
    session = opened(floor(metric="min"))
    others = [Total("workspace", Tally(aggregates={"net": engine_number(-60)}))]
    assert codes(session, call({"n": 1}), others=others) == []


def test_a_decision_leaves_the_distinct_values_alone() -> None:
    session = opened(floor(metric="count_distinct", path="$.n", gte=1, lte=1))
    transitions.commit(session, call({"n": 1}), DONE)
    assert codes(session, call({"n": 2})) == ["aggregate_exceeded"]
    assert session.tally.aggregates["net"] == {"1"}


# ---- an envelope that a tool sets for itself


def envelope(constraint: str, role: str, **more: Any) -> dict[str, Any]:
    stages = [{"tool": "t", "path": "$.n", "role": role}, {"tool": "t", "path": "$.n", "role": "constrained"}]
    rule = {"name": "e", "stages": stages, "constraint": constraint, "reason": "outside", **more}
    return {"t": {}, "session": {"envelopes": [rule]}}


BAND = envelope("within_band", "anchor", band=0.1)
DOWN = envelope("monotonic_decrease", "initial")


def test_small_steps_do_not_move_an_anchor() -> None:
    session = opened(BAND)
    for value in (100, 110, 109, 90):
        assert codes(session, call({"n": value})) == []
        transitions.commit(session, call({"n": value}), DONE)
    assert codes(session, call({"n": 119})) == ["envelope_violated"]
    assert codes(session, call({"n": 81})) == ["envelope_violated"]


@pytest.mark.parametrize("spec", [BAND, DOWN])
def test_two_first_calls_at_once_bound_each_other(spec: Any) -> None:
    session = opened(spec)
    first = claimed(session, "a", {"n": 100})
    assert codes(session, call({"n": 500})) == ["envelope_violated"]
    transitions.commit(session, first, CallOutcome("failed"))
    assert codes(session, call({"n": 500})) == []


def test_calls_that_end_in_another_order_do_not_lift_the_last_value() -> None:
    session = opened(DOWN)
    high, low = claimed(session, "a", {"n": 100}), claimed(session, "b", {"n": 50})
    transitions.commit(session, low, DONE)
    transitions.commit(session, high, DONE)
    assert codes(session, call({"n": 51})) == ["envelope_violated"]
    assert codes(session, call({"n": 50})) == []


def test_another_tool_s_initial_value_starts_again() -> None:
    stages = [{"tool": "s", "path": "$.n", "role": "initial"}, {"tool": "t", "path": "$.n", "role": "constrained"}]
    rule = {"name": "e", "stages": stages, "constraint": "monotonic_increase", "reason": "outside"}
    session = opened({"s": {}, "t": {}, "session": {"envelopes": [rule]}})
    assert codes(session, call({"n": 5})) == ["envelope_unset"]
    for tool, value in (("s", 1), ("t", 5), ("s", 2)):
        transitions.commit(session, call({"n": value}, tool=tool), DONE)
    assert codes(session, call({"n": 1})) == ["envelope_violated"]
    assert codes(session, call({"n": 2})) == []


# ---- phases


def test_calls_that_end_late_do_not_move_a_session_back() -> None:
    phases = {
        "phases": [{"name": "a", "initial": True}, {"name": "b"}, {"name": "c", "terminal": True}],
        "transitions": {"a": ["b"], "b": ["c"]},
    }
    tools = {
        "stay": {"transitions": {"valid_in_phases": ["a"], "advances_to": "a"}},
        "go": {"transitions": {"valid_in_phases": ["a"], "advances_to": "b"}},
        "end": {"transitions": {"valid_in_phases": ["b"], "advances_to": "c"}},
    }
    session = transitions.open_session(compiled({**tools, "session": phases}).rules)
    stay, go, again = (claimed(session, str(n), {"n": n}, tool) for n, tool in enumerate(["stay", "go", "go"]))
    transitions.commit(session, go, DONE)
    transitions.commit(session, stay, DONE)
    assert session.phase == "b"
    transitions.commit(session, call(tool="end"), DONE)
    transitions.commit(session, again, DONE)
    assert session.phase == "c"


def test_a_request_moves_from_where_it_began() -> None:
    """Backend and named tool both move the session; the named tool's phase is the one that it ends in."""
    phases = {
        "phases": [{"name": "a", "initial": True}, {"name": "b"}, {"name": "c", "terminal": True}],
        "transitions": {"a": ["b", "c"], "b": ["c"]},
    }
    spec = {
        "threegate.era": {"implements": "(gone)", "transitions": {"valid_in_phases": ["a"], "advances_to": "c"}},
        "t": {"implements": {"argv_prefix": ["x"]}, "transitions": {"valid_in_phases": ["a"], "advances_to": "b"}},
        "session": phases,
    }
    session = opened(spec)
    asked = call({"argv": ["x"]}, backend="threegate.era")
    assert codes(session, asked) == []
    transitions.commit(session, asked, DONE)
    assert session.phase == "b"
