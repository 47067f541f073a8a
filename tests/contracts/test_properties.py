"""Properties of the engine over generated rules and histories."""

from __future__ import annotations

import copy
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.contracts.material import NOW, call, compiled
from threegate.contracts import engine, transitions
from threegate.contracts.document import Document, read_document
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.state import CallOutcome, Session
from threegate.contracts.transitions import seen_key
from threegate.core.canonical import canonical_bytes

NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-50, 50, allow_nan=False).map(lambda number: round(number, 3)))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text('abé"\\$', max_size=4)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.sampled_from("abcd"), below, max_size=3)),
    max_leaves=8,
)
ARGUMENTS = st.fixed_dictionaries({}, optional={"n": st.one_of(NUMBERS, JSON), "m": NUMBERS, "s": JSON})
OUTCOMES = st.sampled_from(["succeeded", "succeeded", "failed"])
HISTORY = st.lists(st.tuples(st.sampled_from(["t", "u"]), ARGUMENTS, OUTCOMES), max_size=12)
RESTRICTIONS: list[dict[str, Any]] = [
    {"t": {"argument_value_invariants": [{"path": "$.n", "gte": 0}]}},
    {"t": {"execution_constraints": {"arguments": [{"path": "$.s", "exists": False}]}}},
    {"t": {"gate": "block"}},
    {"t": {"preconditions": [{"requires_prior_tool": "u"}]}},
    {"t": {"policy": {"deny": [{"principal": {"path": "$.type", "equals": "a"}}]}}},
    {"t": {"policy": {"allow": [{"principal": {"path": "$.type", "equals": "a"}}]}}},
    {"u": {"forbids_after": ["t"]}},
    {"session": {"session_limits": {"max_calls_per_tool": {"t": 2}}}},
    {"session": {"session_limits": {"max_steps": 3}}},
    {"session": {"session_limits": {"loop_detection": {"window": 4, "threshold": 2}}}},
    {"session": {"policy": {"default_deny": True}}},
    {"session": {"policy": {"rules": [{"deny": {"principal": {"path": "$.type", "equals": "b"}}}]}}},
    {"session": {"policy": {"label_gates": [{"when_label": "l", "deny_tools": ["t"], "reason": "r"}]}}},
    {"session": {"risk_defaults": {"read": "block"}}},
    {"session": {"aggregates": [{"name": "x", "metric": "sum", "tool": "t", "path": "$.m", "lte": 20, "reason": "r"}]}},
    {"session": {"envelopes": [{"name": "x", "stages": [{"tool": "u", "path": "$.m", "role": "ceiling"}, {"tool": "t", "path": "$.m", "role": "constrained"}], "constraint": "lte_ceiling", "reason": "r"}]}},  # noqa: E501
    {"t": {"checkpoint": {"when": [{"path": "$.n", "gte": 5}], "timeout_seconds": 30}}},
]  # fmt: skip


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Several partial folders as one."""

    def put(into: dict[str, Any], more: dict[str, Any]) -> None:
        for key, value in more.items():
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                put(into[key], value)
            else:
                into[key] = copy.deepcopy(value)

    whole: dict[str, Any] = {"t": {}, "u": {}, "session": {}}
    for part in parts:
        put(whole, part)
    return whole


def lived(session: Session, history: list[tuple[str, dict[str, Any], str]]) -> Session:
    """A session after calls that were all committed (whatever the rules say: the past is given)."""
    for tool, arguments, status in history:
        transitions.commit(session, call(arguments, tool=tool), CallOutcome(status))
    return session


SEVERITY = {"allow": 0, "checkpoint": 1, "block": 2}


@settings(max_examples=70)
@given(
    st.lists(st.sampled_from(RESTRICTIONS), max_size=3, unique_by=json.dumps),
    st.sampled_from(RESTRICTIONS),
    HISTORY,
    ARGUMENTS,
    st.sampled_from([None, {}, {"type": "a"}, {"type": "b"}]),
)
def test_adding_a_restriction_never_allows_what_was_blocked(
    some: list[dict[str, Any]], one: dict[str, Any], history: Any, arguments: dict[str, Any], principal: Any
) -> None:
    few = lived(transitions.open_session(compiled(joined(some)).rules), history)
    more = lived(transitions.open_session(compiled(joined([*some, one])).rules), history)
    asked = call(arguments, principal=principal, labels=("l",))
    before, after = engine.decide(few, asked, NOW), engine.decide(more, asked, NOW)
    assert SEVERITY[after.verdict] >= SEVERITY[before.verdict], (before, after)


@settings(max_examples=50)
@given(HISTORY, ARGUMENTS)
def test_deciding_and_blocking_leave_the_state_alone(history: Any, arguments: dict[str, Any]) -> None:
    session = lived(transitions.open_session(compiled(joined(RESTRICTIONS[3:10])).rules), history)
    given_arguments = copy.deepcopy(arguments)
    before = session.to_json()
    engine.decide(session, call(arguments), NOW)
    assert session.to_json() == before and arguments == given_arguments
    transitions.note_block(session, seen_key(call(arguments)))
    assert {key for key in before if session.to_json()[key] != before[key]} <= {"blocks", "window"}
    assert Session.from_json(session.rules, json.loads(json.dumps(session.to_json()))).to_json() == session.to_json()


METRICS = ["sum", "count", "max", "min", "count_distinct"]


def again(metric: str, values: list[Any]) -> Any:
    """An aggregate from the whole history, computed the plain way."""
    if metric == "count":
        return len(values)
    if metric == "count_distinct":
        return len({canonical_bytes(value) for value in values})
    numbers = [Decimal(repr(value)) if isinstance(value, float) else Decimal(value) for value in values]
    return {"sum": sum, "max": max, "min": min}[metric](numbers)


@examples(100)
@given(st.lists(st.tuples(NUMBERS, OUTCOMES, st.booleans()), min_size=1, max_size=20))
def test_aggregates_and_envelopes_are_what_the_history_says(history: list[tuple[Any, str, bool]]) -> None:
    spec = {
        "t": {}, "u": {},
        "session": {
            "aggregates": [{"name": metric, "metric": metric, "tool": "t", "path": "$.n", "lte": 10**6, "reason": "r"} for metric in METRICS],  # noqa: E501
            "envelopes": [{"name": "e", "stages": [{"tool": "t", "path": "$.n", "role": "ceiling"}, {"tool": "u", "path": "$.n", "role": "constrained"}], "constraint": "lte_ceiling", "reason": "r"}],  # noqa: E501
        },
    }  # fmt: skip
    session = transitions.open_session(compiled(spec).rules)
    counted = []
    for index, (number, status, claimed) in enumerate(history):
        one = call({"n": number}, call_id=str(index))
        if claimed:
            transitions.reserve(session, one)
        transitions.commit(session, one, CallOutcome(status))
        if status == "succeeded":
            counted.append(number)
    for metric in METRICS if counted else []:
        kept = session.tally.aggregates[metric]
        assert (len(kept) if isinstance(kept, set) else kept) == again(metric, counted)
    assert session.references == ({"e/ceiling": counted[-1]} if counted else {})
    assert session.tally.steps == len(counted) and not session.pending


@examples(200)
@given(JSON)
def test_what_is_written_as_json_is_read_as_the_same_value(value: Any) -> None:
    found = read_document("t.yaml", json.dumps({"value": value}).encode())
    assert isinstance(found, Document) and found.value == {"value": value}


@examples(200)
@given(st.text("ab:-#&*!|>'\"%@`{}[], \n\t0123.~?", max_size=40))
def test_any_text_is_read_or_told(text: str) -> None:
    found = read_document("t.yaml", text.encode())
    if not isinstance(found, Document):
        assert found.line >= 1 and found.column >= 1 and found.message


@examples(200)
@given(
    JSON,
    st.lists(
        st.sampled_from([".a", ".b", "[0]", "[-1]", "[*]", "..a", "[0:2]", "['a','b']", "[?@.a]", "[?@.a == 1]"]),
        max_size=4,
    ),
)
def test_paths_select_what_the_library_selects(value: Any, parts: list[str]) -> None:
    import jsonpath_rfc9535

    text = "$" + "".join(parts)
    expected = [node.value for node in jsonpath_rfc9535.find(text, value)]
    got = compile_path(text).select(value)
    assert sorted(map(repr, got)) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("$['a','b']", {"a": 1}, [1]),
        ("$['a','b']", [1], []),
        ("$[0,5]", [7], [7]),
        ("$[0,-2]", [7], [7]),
        ("$[0,1]", {"a": 1}, []),
        ("$[0:2]", {"a": 1}, []),
        ("$[::0]", [1, 2], []),
        ("$[-1:]", [1, 2], [2]),
    ],
)
def test_a_selector_of_what_is_not_there_selects_nothing(text: str, value: Any, expected: list[Any]) -> None:
    assert compile_path(text).select(value) == expected
