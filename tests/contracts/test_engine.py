"""The engine where rows do not reach: requests, totals, serialisation, what a decision leaves alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.contracts.material import GONE, NOW, call, compiled, folder, opened
from threegate.contracts import engine, transitions
from threegate.contracts.compiled import Compiled
from threegate.contracts.compiler import compile_folder
from threegate.contracts.contract_checkpoints import call_sha256
from threegate.contracts.json_paths import MISSING
from threegate.contracts.session_table import (
    SessionTable,
    answer_from_json,
    answer_to_json,
    call_from_json,
    call_to_json,
    merge,
)
from threegate.contracts.state import Answer, Call, CallOutcome, Session, Tally
from threegate.contracts.transitions import seen_key
from threegate.core import limits
from threegate.core.errors import Refused

MONTY: dict[str, Any] = {"implements": "(gone)"}


def code(session: Session, one: Call, **more: Any) -> str | None:
    return engine.decide(session, one, NOW, **more).code


def request(tool: str = "threegate.monty", **more: Any) -> Call:
    return Call(tool, {"vars": {"n": 1}, "argv": ["t", "x"]}, backend="threegate.monty", call_id="TR-1", **more)


def test_the_gate_without_contracts_and_with_broken_ones() -> None:
    allowed = SessionTable(Compiled(empty=True)).decide(call(), NOW)
    assert (allowed.verdict, allowed.code) == ("allow", "no_contracts")
    table = SessionTable(compiled({"t": {}}))
    unknown = table.decide(call(), NOW)
    assert (unknown.verdict, unknown.code) == ("block", "unknown_session")
    table.open(call().session_id)
    assert table.decide(call(), NOW).verdict == "allow"
    broken = SessionTable(compile_folder(folder({"t": {"gate": 5}}), environment={}))
    assert broken.decide(call(), NOW).code == "contracts_do_not_compile"


def test_the_contract_of_the_backend_applies_besides_the_named_tools() -> None:
    base = {"execution_constraints": {"arguments": [{"path": "$.argv[1]", "equals": "x"}]}}
    named = {"arguments_from": "vars", "argument_value_invariants": [{"path": "$.n", "lte": 5}]}
    session = opened({"threegate.monty": base, "t": named})
    assert code(session, request("t")) is None
    assert (
        code(session, replace(request("t"), arguments={"vars": {"n": 6}, "argv": ["t", "x"]})) == "argument_invariant"
    )
    assert code(session, replace(request("t"), arguments={"argv": ["t", "x"]})) == "argument_invariant"
    assert (
        code(session, replace(request("t"), arguments={"vars": {"n": 1}, "argv": ["t", "y"]})) == "execution_constraint"
    )
    assert code(opened({"t": {}}), request("t")) == "no_contract"
    assert code(session, request()) is None
    transitions.commit(session, request("t"), CallOutcome("succeeded"))
    assert session.tally.calls == {"threegate.monty": 1, "t": 1} and session.tally.steps == 1


@pytest.mark.parametrize(
    ("implements", "one", "matches"),
    [
        ("(gone)", request("t"), False),
        ({"argv_prefix": ["t"]}, request("t"), True),
        ({"argv_prefix": ["t", "x"]}, request("t"), True),
        ({"argv_prefix": ["t", "y"]}, request("t"), False),
        ({"argv_prefix": ["t"]}, replace(request("t"), arguments={"argv": "t"}), False),
        ({"argv_prefix": ["t"]}, replace(request("t"), arguments={}), False),
        ({"code_sha256": "0" * 64}, request("t", code_sha256="0" * 64), True),
        ({"code_sha256": "0" * 64}, request("t", code_sha256="1" * 64), False),
        ({"code_sha256": "0" * 64}, request("t"), False),
        (
            {"argv_prefix": ["t"], "image": "sha256:" + "0" * 64},
            request("t", image="sha256:" + "0" * 64),
            True,
        ),
        ({"argv_prefix": ["t"], "image": "sha256:" + "0" * 64}, request("t"), False),
    ],
)
def test_a_request_names_only_the_tool_that_it_is(implements: Any, one: Call, matches: bool) -> None:
    session = opened({"threegate.monty": {}, "t": {"implements": implements}})
    assert code(session, one) == (None if matches else "tool_mismatch")


def test_a_contract_of_a_request_judges_no_call_of_a_server() -> None:
    """A server may be named git; the contract of the operation git.status says nothing of its tools."""
    served = {"schema_version": "1.1", "implements": GONE}
    asked = {"schema_version": "1.1", "implements": {"argv_prefix": ["git"]}}
    session = opened({"git.status": asked, "git.log": served, "memory.*": served, "web.*": asked})
    for tool, verdict in (
        ("git.status", "tool_mismatch"),
        ("git.log", None),
        ("memory.read", None),
        ("web.fetch", "tool_mismatch"),
    ):
        assert code(session, Call(tool, {}, served=True)) == verdict, tool
    assert code(session, Call("memory.read", {}, backend="threegate.era")) == "no_contract"


def test_deciding_changes_nothing_and_a_block_changes_only_its_counters() -> None:
    session = opened(
        {
            "t": {
                "argument_value_invariants": [{"path": "$.a", "gte": 1}],
                "binds": [{"name": "b", "path": "$.a"}],
            },
            "session": {
                "session_limits": {
                    "loop_detection": {"window": 5, "threshold": 4},
                    "circuit_breaker": {"consecutive_blocks": 9},
                }
            },
        }
    )
    transitions.commit(session, call({"a": 2}), CallOutcome("succeeded"))
    before = json.dumps(session.to_json())
    for one in (call({"a": 5}), call({}), call(tool="nobody")):
        engine.decide(session, one, NOW)
        assert json.dumps(session.to_json()) == before
    transitions.note_block(session, seen_key(call({})))
    after = session.to_json()
    changed = {key for key, value in after.items() if json.loads(before)[key] != value}
    assert changed == {"blocks", "window"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": {1, 2}},
        {"a": object()},
        {"a": float("nan")},
        {"a": 10**400},
        {"a": "\ud800"},
    ],
)
def test_a_call_without_meaning_is_blocked_and_counted(arguments: dict[str, Any]) -> None:
    session = opened(
        {
            "t": {},
            "session": {
                "aggregates": [
                    {
                        "name": "d",
                        "metric": "count_distinct",
                        "tool": "t",
                        "path": "$.a",
                        "lte": 5,
                        "reason": "r",
                    }
                ],
                "session_limits": {"loop_detection": {"window": 5, "threshold": 3}},
            },
        }
    )
    assert code(session, call(arguments)) == "call_malformed"
    transitions.note_block(session, seen_key(call(arguments)))
    assert session.blocks == 1


def test_deep_arguments_are_blocked() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    session = opened(
        {
            "t": {
                "execution_constraints": {"arguments": [{"path": "$.a", "equals": 1}, {"path": "$.b", "exists": True}]}
            },
            "session": {"session_limits": {"loop_detection": {"window": 2, "threshold": 2}}},
        }
    )
    assert code(session, call({"a": deep})) == "call_malformed"
    transitions.note_block(session, seen_key(call({"a": deep})))
    while isinstance(deep, list):  # taken apart by hand: Python's own deletion of it recurses
        deep = deep.pop()


def test_narrow_reports_the_tools_that_are_left() -> None:
    spec = {
        "t": {}, "u": {"forbids_after": ["v"]}, "v": {}, "w": {"gate": "block"},
        "session": {"session_limits": {"max_tool_calls": 1, "max_tool_calls_mode": "narrow", "max_calls_per_tool": {"t": 1}}},  # noqa: E501
    }  # fmt: skip
    session = opened(spec)
    assert engine.allowed_tools(session) == ("t", "u", "v")
    transitions.commit(session, call(tool="u"), CallOutcome("succeeded"))
    decision = engine.decide(session, call(), NOW)
    assert decision.allowed_tools == () and decision.to_json()["allowed_tools"] == []
    del spec["session"]["session_limits"]["max_tool_calls"]
    unbounded = Session.from_json(compiled(spec).rules, session.to_json())
    assert engine.allowed_tools(unbounded) == ("t", "u")


def test_a_checkpoint_answer_counts_for_its_call_and_its_time() -> None:
    session = opened(
        {
            "t": {
                "checkpoint": {
                    "when": "always",
                    "timeout_seconds": 60,
                    "context": [
                        {"path": "$.a", "label": "A"},
                        {"path": "$.l[*]", "label": "L"},
                        {"path": "$.none", "label": "N"},
                        {"path": "$..wide", "label": "W"},
                    ],
                }
            }
        }
    )
    one = call({"a": 1, "l": [1, 2], "many": [{}] * 10_001}, call_id="TR-1", asked=NOW)
    decision = engine.decide(session, one, NOW)
    assert decision.to_json()["checkpoints"][0]["context"] == [
        {"label": "A", "value": 1}, {"label": "L", "value": [1, 2]}, {"label": "N", "value": None}, {"label": "W", "value": ("(too many "  # noqa: E501
        "values)")},
    ]  # fmt: skip

    def answered(after: int, *, of: Call = one, approve: bool = True, now: int = 50) -> str | None:
        answer = Answer(call_sha256(of), approve, NOW + timedelta(seconds=after), "operator")
        return engine.decide(session, replace(one, answer=answer), NOW + timedelta(seconds=now)).code

    assert answered(40) is None
    assert answered(40, approve=False) == "checkpoint_denied"
    assert answered(40, of=replace(one, call_id="TR-2")) == "checkpoint_required"
    assert answered(40, of=replace(one, arguments={"a": 2})) == "checkpoint_required"
    assert answered(60, now=60) is None
    assert answered(61, now=61) == "checkpoint_timed_out"
    assert answered(40, now=101) == "checkpoint_timed_out"
    assert answered(40, now=30) == "checkpoint_timed_out"
    assert answered(-5, now=10) == "checkpoint_timed_out"


def test_silence_is_consent_only_where_the_settings_say_so() -> None:
    spec = {"t": {"checkpoint": {"when": "always", "timeout_seconds": 60, "on_timeout": "allow"}}}
    session = opened(spec, permit_timeout_allow=True)
    assert code(session, call(asked=NOW)) == "checkpoint_required"
    assert engine.decide(session, call(asked=NOW), NOW + timedelta(seconds=61)).verdict == "allow"


def test_a_session_survives_its_own_rendering() -> None:
    spec = {
        "t": {"binds": [{"name": "b", "path": "$.n"}], "adds_labels": ["l"], "forbids_after": ["u"], "transitions": {"valid_in_phases": ["p"], "advances_to": "q"}},  # noqa: E501
        "u": {"preconditions": [{"requires_prior_tool": "t"}]},
        "session": {
            "phases": [{"name": "p", "initial": True}, {"name": "q", "terminal": True}], "transitions": {"p": ["q"]},
            "session_limits": {"loop_detection": {"window": 4, "threshold": 3}},
            "aggregates": [{"name": name, "metric": name, "tool": "t", "path": "$.n", "lte": 99, "reason": "r"} for name in ("sum", "max", "min", "count", "count_distinct")],  # noqa: E501
            "envelopes": [{"name": "e", "stages": [{"tool": "t", "path": "$.n", "role": "ceiling"}, {"tool": "u", "path": "$.n", "role": "constrained"}], "constraint": "lte_ceiling", "reason": "r"}],  # noqa: E501
        },
    }  # fmt: skip
    session = opened(spec)
    transitions.commit(
        session, call({"n": 2.5}, labels=("m",)), CallOutcome("succeeded", retry_after=3, cost=0.5), now=NOW
    )
    kept = json.loads(json.dumps(session.to_json()))
    again = Session.from_json(session.rules, kept)
    assert again.to_json() == session.to_json() and again.window.maxlen == 3
    assert again.tally == session.tally and again.tally.aggregates["count_distinct"] == {"2.5"}
    plain = opened({"t": {}})
    assert Session.from_json(plain.rules, plain.to_json()).window.maxlen == 0


LISTED: dict[str, Any] = {
    "t": {
        "schema_version": "1.1",
        "argument_value_invariants": [{"path": "$.id", "from_output": {"tool": "u", "path": "$[*]"}}],
    },
    "v": {
        "schema_version": "1.1",
        "argument_value_invariants": [{"path": "$.id", "not": {"from_output": {"tool": "u", "path": "$[*]"}}}],
    },
    "u": {},
}


def test_what_outputs_gave_is_remembered_up_to_a_bound_and_then_no_longer_denied() -> None:
    session, most = opened(LISTED), limits.CONTRACT_OUTPUT_VALUES
    transitions.commit(session, call(tool="u"), CallOutcome("succeeded", list(range(most))))
    assert code(session, call({"id": 0})) is None and code(session, call({"id": -1}, "v")) is None
    transitions.commit(session, call(tool="u"), CallOutcome("succeeded", [0, "new"]))
    again = Session.from_json(session.rules, json.loads(json.dumps(session.to_json())))
    for one in (session, again):
        assert code(one, call({"id": 0})) is None and code(one, call({"id": "new"})) is None
        assert code(one, call({"id": 1})) == "ref_mismatch" == code(one, call({"id": -1}, "v"))
        assert len(one.outputs["u $[*]"].digests) == most
    assert again.to_json() == session.to_json()
    wide = opened(LISTED)
    transitions.commit(wide, call(tool="u"), CallOutcome("succeeded", [1] * (limits.CONTRACT_JSONPATH_NODES + 1)))
    assert code(wide, call({"id": 1})) == "ref_mismatch" == code(wide, call({"id": 2}, "v"))


def test_a_claim_that_was_given_back_may_have_given_anything() -> None:
    session = opened(LISTED)
    transitions.commit(session, call(tool="u"), CallOutcome("succeeded", [1]))
    assert code(session, call({"id": 2}, "v")) is None
    transitions.reserve(session, call(tool="u", call_id="TR-1"))
    assert code(session, call({"id": 2}, "v")) is None
    transitions.release(session, "TR-1")
    assert code(session, call({"id": 2}, "v")) == "ref_mismatch" and code(session, call({"id": 1})) is None
    transitions.release(session, "TR-1")


def test_calls_and_answers_survive_their_own_rendering() -> None:
    one = request("t", principal={"name": "a"}, labels=("l",), workflow_session="w", cost=1.5, asked=NOW)
    assert call_from_json(json.loads(json.dumps(call_to_json(one)))) == one
    bare = call()
    assert call_from_json(json.loads(json.dumps(call_to_json(bare)))) == bare
    answer = Answer("0" * 64, True, NOW, "operator")
    assert answer_from_json(json.loads(json.dumps(answer_to_json(answer)))) == answer


def test_only_an_allowed_call_is_claimed_and_once() -> None:
    session = opened({"t": {}})
    transitions.reserve(session, call(call_id="TR-1"))
    with pytest.raises(ValueError, match="claimed already"):
        transitions.reserve(session, call(call_id="TR-1"))
    with pytest.raises(ValueError, match="no_contract"):
        transitions.reserve(session, call(tool="nobody", call_id="TR-2"))
    transitions.release(session, "TR-1")
    transitions.release(session, "TR-1")
    assert not session.pending


def test_commit_requirement_none_moves_at_launch_and_only_once() -> None:
    session = opened(
        {
            "t": {
                "commit_requirement": "none",
                "binds": [{"name": "b", "path": "$.a"}, {"name": "o", "source": "output", "path": "$.o"}],
            }
        }
    )
    transitions.reserve(session, call({"a": 1}, call_id="TR-1"))
    assert session.tally.steps == 1 and session.binds == {"b": 1}
    effect = transitions.commit(session, call({"a": 1}, call_id="TR-1"), CallOutcome("succeeded", output={"o": 2}))
    assert (effect.status, session.tally.steps, session.binds) == ("committed", 1, {"b": 1, "o": 2})
    transitions.reserve(session, call({"a": 3}, call_id="TR-2"))
    effect = transitions.commit(session, call({"a": 3}, call_id="TR-2"), CallOutcome("failed"))
    assert (session.tally.steps, session.binds["b"]) == (2, 3)


def test_two_contracts_with_different_commit_requirements() -> None:
    session = opened(
        {
            "threegate.monty": {"commit_requirement": "none", "forbids_after": ["u"]},
            "t": {"forbids_after": ["v"]},
            "u": {},
            "v": {},
        }
    )
    transitions.commit(session, request("t"), CallOutcome("failed"))
    assert (session.tally.steps, session.forbidden) == (1, {"u": "threegate.monty"})


def test_retries_are_for_reads_that_never_started() -> None:
    read = compiled({"t": {"retries": {"max_attempts": 2, "retry_on": ["unavailable"]}}}).contracts["t"]
    assert transitions.may_retry(read, "unavailable", 1)
    assert not transitions.may_retry(read, "unavailable", 2)
    assert not transitions.may_retry(read, "failed", 1)
    write = compiled({"t": {"side_effect": "write"}}).contracts["t"]
    assert not transitions.may_retry(write, "unavailable", 0)


def test_lower_bounds_are_checked_when_the_session_ends() -> None:
    rules = [
        {"name": "calls", "metric": "count", "tool": "t", "gte": 2, "reason": "r"},
        {"name": "least", "metric": "min", "tool": "t", "path": "$.n", "gte": 5, "reason": "r"},
        {"name": "kinds", "metric": "count_distinct", "tool": "t", "path": "$.n", "gte": 2, "reason": "r"},
        {"name": "upper", "metric": "count", "tool": "t", "lte": 9, "reason": "r"},
    ]
    spec = {"t": {}, "session": {"aggregates": rules}}
    assert [item.path for item in transitions.close(opened(spec))] == ["calls", "least", "kinds"]
    session = opened(spec)
    for number in (5, 6):
        transitions.commit(session, call({"n": number}), CallOutcome("succeeded"))
    assert transitions.close(session) == () and session.killed == "session_closed"
    session.killed = "circuit_open"
    transitions.close(session)
    assert session.killed == "circuit_open"


def test_totals_hold_for_the_requester_and_the_workspace_too() -> None:
    spec = {
        "t": {},
        "session": {
            "session_limits": {"max_calls_per_tool": {"t": 2}},
            "aggregates": [{"name": "s", "metric": "sum", "tool": "t", "path": "$.n", "lte": 10, "reason": "r"}],
        },
    }
    table = SessionTable(compiled(spec))
    for name, requester in (("a", "ann"), ("b", "ann"), ("c", "bob")):
        table.open(name, requester=requester)
    table.commit(call({"n": 4}, session_id="a"), CallOutcome("succeeded"))
    table.reserve(call({"n": 5}, session_id="b", call_id="TR-1"))
    for name, scopes in (("a", "(session) (requester)"), ("b", ""), ("c", "")):
        decision = table.decide(call({"n": 1}, session_id=name), NOW)
        assert decision.code == "session_limit_exceeded", (name, scopes)
        assert "(workspace)" in decision.reasons[-1].message
    table.release("b", "TR-1")
    assert table.decide(call({"n": 7}, session_id="c"), NOW).code == "aggregate_exceeded"
    assert table.decide(call({"n": 6}, session_id="c"), NOW).verdict == "allow"
    table.close("a")
    assert table.decide(call({"n": 10}, session_id="c"), NOW).verdict == "allow"
    again = SessionTable.from_json(table.compiled, json.loads(json.dumps(table.to_json())))
    assert again.to_json() == table.to_json()
    table.note_block(call(session_id="nobody"))
    assert table.decide(call(session_id="nobody"), NOW).code == "unknown_session"
    with pytest.raises(Refused):
        table.open("a")


def test_merging_tallies() -> None:
    metrics = ("sum", "max", "min", "count", "count_distinct")
    rules = compiled(
        {
            "t": {},
            "session": {
                "aggregates": [
                    {"name": name, "metric": name, "tool": "t", "path": "$.n", "lte": 99, "reason": "r"}
                    for name in metrics
                ]
            },
        }
    ).rules
    one = Tally(
        1,
        Decimal(1),
        {"t": 1},
        {"sum": Decimal(1), "max": Decimal(1), "min": Decimal(1), "count": 1, "count_distinct": {"1"}},
    )
    two = Tally(
        2,
        Decimal(2),
        {"t": 2},
        {"sum": Decimal(2), "max": Decimal(2), "min": Decimal(2), "count": 2, "count_distinct": {"2"}},
    )
    total = merge(rules.contract.aggregates, [one, two])
    assert (total.steps, total.cost, total.calls) == (3, 3, {"t": 3})
    assert total.aggregates == {"sum": 3, "max": 2, "min": 1, "count": 3, "count_distinct": {"1", "2"}}
    assert one.aggregates["count_distinct"] == {"1"}


def test_a_claim_with_a_workflow_survives_rendering_and_releases() -> None:
    spec = {
        "t": {"side_effect": "write", "gate": "allow"},
        "session": {"resources": {"r": {"type": "r", "extract_from": {"path": "$.id"}}}},
        "workflow": {"shared_resources": [{"alias": "r", "mode": "single_writer"}]},
    }
    table = SessionTable(compiled(spec))
    table.open("a", role="boss")
    table.reserve(call({"id": 1}, session_id="a", call_id="TR-1"))
    assert table.workflows["w"].owners == {"r:1": "a"}
    again = SessionTable.from_json(table.compiled, json.loads(json.dumps(table.to_json())))
    assert again.to_json() == table.to_json()
    assert again.sessions["a"].pending["TR-1"].call.call_id == "TR-1"
    again.commit(again.sessions["a"].pending["TR-1"].call, CallOutcome("succeeded"))
    assert again.workflows["w"].owners == {"r:1": "a"}
    plain = SessionTable(compiled({"t": {}}))
    with pytest.raises(Refused, match=r"no workflow\.yaml"):
        plain.open("a", role="boss")
    plain.open("b")
    with pytest.raises(Refused):
        plain.kill("session", "x")
    with pytest.raises(Refused):
        plain.kill("workflow", "x")
    assert plain.kill("session", "b") == ["b"] and plain.kill("subtree", "b") == []


def test_the_repr_of_nothing() -> None:
    assert repr(MISSING) == "(missing)"


def test_a_killed_workflow_blocks_whoever_is_in_it() -> None:
    table = SessionTable(compiled({"t": {}, "session": {}, "workflow": {}}))
    table.open("a", role="boss")
    table.workflows["w"].killed = True
    assert table.decide(call(session_id="a"), NOW).code == "workflow_killed"


def test_children_that_ended_before_are_left_alone() -> None:
    spec = {
        "t": {},
        "session": {},
        "workflow": {
            "handoffs": [{"from": "boss", "to": "boss"}],
            "parent_close_policy": {"default": "terminate"},
        },
    }
    table = SessionTable(compiled(spec))
    table.open("a", role="boss")
    for name in "bc":
        table.open(name, role="boss", parent="a")
    table.kill("session", "b")
    assert table.kill("session", "a") == ["a", "c"]


def test_a_breaker_ends_the_children_too() -> None:
    spec: dict[str, Any] = {
        "t": {"argument_value_invariants": [{"path": "$.n", "gte": 0}]},
        "session": {"session_limits": {"circuit_breaker": {"consecutive_blocks": 2, "consecutive_errors": 2}}},
        "workflow": {
            "roles": [{"name": name, "session_contract": "session.yaml"} for name in ("boss", "hand")],
            "handoffs": [
                {"from": "boss", "to": "boss", "parent_close_policy": "request_cancel"},
                {"from": "boss", "to": "hand"},
                {"from": "hand", "to": "hand"},
            ],
            "parent_close_policy": {"default": "terminate"},
        },
    }

    def family() -> SessionTable:
        table = SessionTable(compiled(spec))
        table.open("a", role="boss")
        table.open("asked", role="boss", parent="a")
        table.open("killed", role="hand", parent="a")
        table.open("below", role="hand", parent="killed")
        return table

    def ends(table: SessionTable) -> tuple[bool, str | None, str | None]:
        return table.members["asked"].closing, table.sessions["killed"].killed, table.sessions["below"].killed

    for moves in (
        lambda table: table.note_block(call({"n": -1}, session_id="a")),
        lambda table: table.commit(call({"n": 1}, session_id="a"), CallOutcome("failed"), NOW),
    ):
        table = family()
        moves(table)
        assert ends(table) == (False, None, None)
        moves(table)
        assert table.sessions["a"].killed == "circuit_open"
        assert ends(table) == (True, "session_killed", "session_killed")
        assert table.decide(call({"n": 1}, session_id="asked"), NOW).code == "parent_closed"
        # a breaker opens once: who is opened later is not ended by another block
        table.members["asked"].closing = False
        moves(table)
        assert table.members["asked"].closing is False


def test_what_would_have_been_blocked_can_still_be_counted() -> None:
    """In shadow mode, and under contracts that changed later, calls are committed that the rules do not like."""
    spec = {
        "t": {"binds": [{"name": "b", "path": "$.none"}], "commit_requirement": "none"},
        "c": {"evidence_class": "unverifiable"},
        "u": {"preconditions": [{"requires_prior_tool": "c", "resource": {"bind_from": "output", "path": "$.id"}}]},
        "session": {
            "aggregates": [
                {"name": "s", "metric": "sum", "tool": ["t", "c"], "path": "$.n", "lte": 5, "reason": "r"},
                {"name": "k", "metric": "count", "tool": "c", "lte": 5, "reason": "r"},
            ],
            "envelopes": [
                {"name": "e", "stages": [{"tool": "c", "path": "$.n", "role": "ceiling"}, {"tool": "u", "path": "$.n", "role": "constrained"}], "constraint": "lte_ceiling", "reason": "r"},  # noqa: E501
                {"name": "f", "stages": [{"tool": "c", "path": "$.n", "role": "floor"}, {"tool": "u", "path": "$.n", "role": "constrained"}], "constraint": "gte_floor", "reason": "r"},  # noqa: E501
            ],
            "resources": {"r": {"type": "r", "extract_from": {"path": "$.n"}}},
        },
        "workflow": {"shared_resources": [{"alias": "r", "mode": "serial_only"}]},
    }  # fmt: skip
    session = opened(spec)
    transitions.commit(session, call({"n": "none"}), CallOutcome("succeeded"))
    transitions.commit(session, call({"n": "none"}, tool="c"), CallOutcome("succeeded", output={"id": 1}))
    assert session.tally.steps == 2 and "s" not in session.tally.aggregates
    assert session.references == {} and session.binds == {} and session.fulfilled == {}
    transitions.reserve(session, call({"n": 4}, call_id="early"))
    transitions.commit(session, call({"n": 3}, tool="c"), CallOutcome("succeeded"))
    transitions.reserve(session, call({"n": 2}, tool="c", call_id="late"))
    assert code(session, call({"n": 0}, tool="c")) == "aggregate_exceeded"
    session.fulfilled["u#0"] = {"3"}
    assert code(session, call({"n": 3, "id": 3}, tool="u")) == "envelope_violated"
    table = SessionTable(compiled({**spec, "t": {"side_effect": "write", "gate": "allow"}}))
    table.open("a", role="boss")
    table.commit(call({"n": 1}, session_id="a"), CallOutcome("succeeded"))
    assert table.workflows["w"].owners == {}


def test_what_must_be_missing_may_hold_back() -> None:
    session = opened(
        {
            "t": {
                "policy": {
                    "deny": [
                        {"principal": {"path": "$.badge", "exists": False}},
                        {"principal": {"path": "$.flag", "exists": True}},
                    ]
                }
            }
        }
    )
    assert code(session, call(principal={"badge": 1})) is None
    assert code(session, call(principal={})) == "policy_denied"
    assert code(session, call(principal={"badge": 1, "flag": 0})) == "policy_denied"


def test_a_session_file_that_is_no_yaml() -> None:
    from tests.contracts.material import codes

    assert codes({"t": {}, "session.yaml": "a: ["}) == ["YAML_SYNTAX"]
