"""The contract YAML reference: what it says and what happens, for each statement that was once found to differ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contracts.material import NOW, call, codes, compiled, folder, opened
from tests.seeds.differences import differs
from threegate.contracts import engine, transitions
from threegate.contracts.compiler import compile_folder
from threegate.contracts.state import CallOutcome, Session

DONE = CallOutcome("succeeded")


def verdict(session: Session, arguments: dict[str, Any] | None = None, tool: str = "t", **more: Any) -> str:
    return engine.decide(session, call(arguments, tool=tool, **more), NOW).verdict


def run(session: Session, arguments: dict[str, Any], tool: str = "t") -> str:
    """The verdict on a call, which is committed if it is allowed."""
    found = verdict(session, arguments, tool)
    if found == "allow":
        transitions.commit(session, call(arguments, tool=tool), DONE)
    return found


# ---- as the reference says


def test_exists_false_on_raw_null_and_absent_means_not_null_or_undefined() -> None:
    session = opened({"t": {"execution_constraints": {"arguments": [{"path": "$.f", "exists": False}]}}})
    found = [verdict(session, arguments) for arguments in ({}, {"f": None}, {"f": 1}, {"f": {"RAW": 1}})]
    assert found == ["allow", "allow", "block", "block"]


@pytest.mark.parametrize(
    "definition",
    [
        {"functionDeclarations": [{"name": "t", "parameters": {"properties": {"n": {"maximum": 5}}}}]},
        {"toolSpec": {"name": "t", "inputSchema": {"json": {"properties": {"n": {"maximum": 5}}}}}},
    ],
    ids=["gemini functionDeclarations", "bedrock toolSpec"],
)
def test_a_foreign_tool_definition_derives(definition: dict[str, Any]) -> None:
    session = opened({"t": {}, "t.schema.json": definition})
    assert [verdict(session, {"n": number}) for number in (5, 6)] == ["allow", "block"]


PHASES = {"phases": [{"name": "a", "initial": True}, {"name": "b", "terminal": True}], "transitions": {"a": ["b"]}}


def test_advances_to_the_same_phase_compiles_and_changes_nothing() -> None:
    session = opened({"t": {"transitions": {"valid_in_phases": ["a"], "advances_to": "a"}}, "session": PHASES})
    assert (run(session, {}), session.phase) == ("allow", "a")


def test_a_reachable_non_terminal_phase_without_outgoing_edge_is_no_error() -> None:
    phases = [{"name": "a", "initial": True}, {"name": "c"}, {"name": "b", "terminal": True}]
    spec = {"t": {}, "session": {"phases": phases, "transitions": {"a": ["b", "c"]}}}
    assert compiled(spec) and codes(spec) == ["PHASE_DEAD_END"]


@pytest.mark.parametrize(
    ("metric", "gte", "numbers", "expected"),
    [("max", 5, [1, 5, 1], "block allow allow"), ("sum", 0, [-5, 5, -5], "block allow allow"), ("min", 5, [1, 5, 1], "block allow block")],  # noqa: E501
)  # fmt: skip
def test_aggregate_gte_is_checked_speculatively_before_each_call(
    metric: str, gte: int, numbers: list[int], expected: str
) -> None:
    rule = {"name": "g", "metric": metric, "tool": "t", "path": "$.n", "gte": gte, "reason": "r"}
    session = opened({"t": {}, "session": {"aggregates": [rule]}})
    assert [run(session, {"n": number}) for number in numbers] == expected.split()


def test_aggregate_gte_that_no_first_call_could_pass_is_a_warning_and_the_close_is_checked() -> None:
    rule = {"name": "g", "metric": "count", "tool": "t", "gte": 5, "reason": "r"}
    spec = {"t": {}, "session": {"aggregates": [rule]}}
    assert codes(spec) == ["FIRST_CALL_BLOCKED"]
    session = opened(spec)
    assert verdict(session) == "block"
    assert [reason.code for reason in transitions.close(session)] == ["aggregate_below"]


HEDGE = """\
schema_version: "1.0"
agent: desk
aggregates:
  - name: hedge_calls
    metric: count
    tool: hedge_position
    lte: 3
    reason: "Hedge call limit"
    when:
      - binding: latest_var
        gte: 0.10
        then_lte: 10
"""


def test_the_hedge_sample_compiles_and_a_missing_binding_falls_through_to_base_bounds() -> None:
    spec = {"hedge_position": {}, "session.yaml": HEDGE}
    assert codes(spec) == ["BOUNDS_NEVER_USED"]
    session = opened(spec)
    assert [run(session, {"n": n}, "hedge_position") for n in range(4)] == ["allow", "allow", "allow", "block"]


def test_when_always_with_when_side_effect_write_only_gates_write_tools() -> None:
    point = {"name": "w", "tool": "*", "when": "always", "when_side_effect": "write", "timeout_seconds": 30}
    session = opened({"t": {}, "u": {"side_effect": "write", "gate": "allow"}, "session": {"checkpoints": [point]}})
    assert [verdict(session, tool=tool) for tool in "tu"] == ["allow", "checkpoint"]
    assert codes({"t": {}, "session": {"checkpoints": [{"name": "w", "tool": "*", "timeout_seconds": 30}]}}) == [
        "CHECKPOINT_WITHOUT_TRIGGER"
    ]


@pytest.mark.parametrize(
    ("constraint", "role", "numbers", "expected"),
    [
        ("monotonic_decrease", "initial", [9, 9, 5, 6], "allow allow allow block"),
        ("monotonic_increase", "initial", [5, 6, 5], "allow allow block"),
        ("within_band", "anchor", [100, 105, 110, 96], "allow allow block allow"),
    ],
)
def test_an_envelope_whose_initial_and_constrained_stages_are_one_tool(
    constraint: str, role: str, numbers: list[int], expected: str
) -> None:
    session = opened({"t": {}, "session": {"envelopes": [_envelope(constraint, role)]}})
    assert [run(session, {"n": number}) for number in numbers] == expected.split()


def _envelope(constraint: str, role: str) -> dict[str, Any]:
    stages = [{"tool": "t", "path": "$.n", "role": role}, {"tool": "t", "path": "$.n", "role": "constrained"}]
    band = {"band": 0.05} if constraint == "within_band" else {}
    return {"name": "e", "stages": stages, "constraint": constraint, "reason": "r", **band}


def _sum(tool: str, path: str, **more: Any) -> Session:
    rule = {"name": "s", "metric": "sum", "tool": tool, "path": path, "lte": 10, "reason": "r"}
    return opened({"t": {}, "u": {}, **more, "session": {"aggregates": [rule]}})


def test_sum_over_star_with_a_tool_that_lacks_the_path_adds_nothing() -> None:
    session = _sum("*", "$.n")
    assert [run(session, {"n": 10}), run(session, {"text": "x"}, "u"), run(session, {"n": 1})] == [
        "allow",
        "allow",
        "block",
    ]


def test_sum_over_an_empty_selection_is_0() -> None:
    session = _sum("t", "$.f[*]")
    assert [run(session, {"f": value}) for value in ([], [10], [], [1])] == ["allow", "allow", "allow", "block"]
    assert verdict(session) == "block"


def test_type_integer_on_1_0_is_true() -> None:
    session = opened({"t": {"argument_value_invariants": [{"path": "$.n", "type": "integer"}]}})
    assert [verdict(session, {"n": number}) for number in (1, 1.0, 1.5, True)] == ["allow", "allow", "block", "block"]


def test_ref_with_tolerance_on_equal_strings_passes() -> None:
    bind = {"binds": [{"name": "x", "path": "$.x"}]}
    ref = {"argument_value_invariants": [{"path": "$.x", "ref": "x", "tolerance": 0.1}]}
    session = opened({"t": bind, "u": ref})
    run(session, {"x": "100"})
    assert [verdict(session, {"x": value}, "u") for value in ("100", "101", 100)] == ["allow", "block", "block"]


# ---- different on purpose


@differs("`retries.max_attempts` above 1 for a tool that writes")
def test_retries_of_a_write() -> None:
    retries = {"max_attempts": 2, "retry_on": ["unavailable"]}
    assert codes({"t": {"side_effect": "write", "retries": retries}}) == ["RETRIES_ABOVE_READ"]
    assert codes({"t": {"retries": retries}}) == []


@differs("`advances_to` a declared phase to which no transition leads")
def test_advances_to_without_an_edge() -> None:
    back = {"transitions": {"valid_in_phases": ["b"], "advances_to": "a"}}
    assert codes({"t": back, "session": PHASES}) == ["ADVANCE_WITHOUT_EDGE"]


@differs("a `deny` about an attribute that the principal lacks does not deny")
def test_deny_with_an_absent_attribute() -> None:
    rules = [
        {"deny": {"principal": {"path": "$.type", "equals": "readonly"}}},
        {"allow": {"principal": {"path": "$.tier", "equals": "L2"}}},
    ]
    session = opened({"t": {}, "session": {"policy": {"rules": rules}}})
    found = [verdict(session, principal={"tier": "L2", **more}) for more in ({}, {"type": "x"})]
    assert found == ["block", "allow"]
    [reason] = engine.decide(session, call(principal={"tier": "L2"}), NOW).reasons
    assert "has no $.type" in reason.message


@differs("a checkpoint's condition on an argument that is not there is not met")
def test_a_checkpoint_with_an_absent_argument() -> None:
    point = {"when": [{"path": "$.n", "gte": 5}], "timeout_seconds": 30}
    session = opened({"t": {"checkpoint": point}})
    assert [verdict(session, arguments) for arguments in ({}, {"n": 4})] == ["checkpoint", "allow"]


@differs("`when` of a checkpoint is required")
def test_a_checkpoint_without_when() -> None:
    assert codes({"t": {"checkpoint": {"when_side_effect": "read", "timeout_seconds": 30}}}) == []
    assert codes({"t": {"checkpoint": {"timeout_seconds": 30}}}) == ["CHECKPOINT_WITHOUT_TRIGGER"]


@differs("`on_timeout: allow` compiles")
def test_on_timeout_allow() -> None:
    spec = {"t": {"checkpoint": {"when": "always", "timeout_seconds": 30, "on_timeout": "allow"}}}
    assert codes(spec) == ["TIMEOUT_ALLOW_NOT_PERMITTED"]
    assert codes(spec, permit_timeout_allow=True) == []


@differs("a `when` entry with a binding that no contract captures falls through to the base bounds")
def test_a_binding_that_nothing_binds() -> None:
    def rule(then_lte: int) -> dict[str, Any]:
        when = [{"binding": "nobody", "gte": 1, "then_lte": then_lte}]
        return {"name": "c", "metric": "count", "tool": "t", "lte": 3, "reason": "r", "when": when}

    assert codes({"t": {}, "session": {"aggregates": [rule(10)]}}) == ["BOUNDS_NEVER_USED"]
    assert codes({"t": {}, "session": {"aggregates": [rule(1)]}}) == ["REF_NEVER_BOUND"]


@differs("the `session.yaml` sample compiles as printed, with its two `policy` keys")
def test_two_policy_keys() -> None:
    text = "schema_version: '1.0'\nagent: a\npolicy:\n  default_deny: false\npolicy:\n  label_gates: []\n"
    [found] = compile_folder(folder({"t": {}, "session.yaml": text}), environment={}).diagnostics
    assert (found.code, found.line) == ("DUPLICATE_KEY", 5)
    assert "'policy' occurs twice, on lines 3 and 5; move what is below line 5" in found.message


@differs("a `regex` may look ahead")
def test_a_pattern_with_look_ahead() -> None:
    assert codes({"t": {"argument_value_invariants": [{"path": "$.a", "regex": "^(?!x)"}]}}) == ["BAD_REGEX"]


@differs("an invariant over a path that selects nothing holds")
def test_a_constraint_over_an_empty_selection() -> None:
    session = opened({"t": {"execution_constraints": {"arguments": [{"path": "$.f[*]", "gte": 0}]}}})
    assert [verdict(session, {"f": value}) for value in ([], [1], [-1])] == ["block", "allow", "block"]


@differs("`respect_retry_after: false` does not wait")
def test_respect_retry_after_false() -> None:
    limits = {"on_429": {"respect_retry_after": False, "max_sleep_seconds": 60}}
    session = opened({"t": {"rate_limits": limits}})
    transitions.commit(session, call(), CallOutcome("failed", retry_after=1), now=NOW)
    assert engine.decide(session, call(), NOW).code == "rate_limited"


@differs('a total over `"*"` leaves out tools without the path')
def test_a_tool_whose_schema_has_the_path_and_leaves_it_out() -> None:
    schema = {"u.schema.json": {"properties": {"n": {"maximum": 9}}}}
    assert [verdict(_sum("*", "$.n"), {}, "u"), verdict(_sum("*", "$.n", **schema), {}, "u")] == ["allow", "block"]


@differs("an envelope's ceiling or floor may be a stage of the tool that it bounds")
def test_a_ceiling_on_the_tool_that_it_bounds() -> None:
    for constraint, role in (("lte_ceiling", "ceiling"), ("gte_floor", "floor")):
        assert codes({"t": {}, "session": {"envelopes": [_envelope(constraint, role)]}}) == ["ENVELOPE_ROLE_MISMATCH"]
