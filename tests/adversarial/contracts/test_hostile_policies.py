"""Hostile policies and hostile calls: bombs, catastrophic patterns, floods. Bounded, refused, with a clear reason.

Work is counted where it can be (values visited, bytes kept, session size), not timed.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contracts.material import NOW, TOOL, call, codes, compiled, folder, opened
from threegate.contracts import engine, transitions
from threegate.contracts.compiler import compile_folder
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import read_document
from threegate.contracts.json_paths import BadPath, PathTooWide
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.state import CallOutcome
from threegate.core import limits
from threegate.core.json_operators import BadPattern, compile_pattern

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LAUGHS, "YAML_ANCHOR"),
        ("a: &a [*a]\n", "YAML_ANCHOR"),
        ("[" * 100_000, "TOO_DEEP"),
        ("{a: " * 60_000, "TOO_DEEP"),
        ("- " * 100_000, "TOO_DEEP"),
        ("? " * 100_000, "BAD_KEY"),
        ("a: [" + "{}, " * 60_000 + "]", "TOO_MANY_VALUES"),
        ("\n".join(f"k{number}: 1" for number in range(20_000)) * 2, "FILE_TOO_LARGE"),
        ("a: !!python/object/apply:os.system ['id']\n", "YAML_TAG"),
        ("<<: {a: 1}\n", "AMBIGUOUS_SCALAR"),
        ("%TAG ! tag:x,2000:\n---\na: !y 1\n", "YAML_TAG"),
        ('a: "\\ud800"\n', "YAML_SYNTAX"),
    ],
)
def test_yaml_bombs(text: str, code: str) -> None:
    found = read_document("t.yaml", text.encode("utf-8", "surrogatepass"))
    assert isinstance(found, Diagnostic) and found.code == code, found
    assert not compile_folder({"t.yaml": text.encode("utf-8", "surrogatepass")}, environment={}).ok


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*,(.*)*;"])
def test_catastrophic_patterns_run_in_linear_time(pattern: str) -> None:
    session = opened({"t": {"argument_value_invariants": [{"path": "$.a", "regex": pattern}]}})
    assert engine.decide(session, call({"a": "a" * 200_000 + "!"}), NOW).code == "argument_invariant"


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?<=a)b", "(a)\\1", "a{1,1001}", "((a{100}){100}){100}", "a" * 1001, "[", "\ud800"]
)
def test_patterns_that_are_not_linear_are_no_patterns(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


def test_a_lone_surrogate_matches_nothing() -> None:
    session = opened({"t": {"argument_value_invariants": [{"path": "$.a", "regex": ".*"}]}})
    assert engine.decide(session, call({"a": "\ud800"}), NOW).code == "argument_invariant"


@pytest.mark.parametrize(
    "text",
    [
        "$" + "[0,0,0,0]" * 40,
        "$" + "..*" * 40,
        "$..*..*..*",
        "$" + "[0,1,2]" * 12,
        "$" + "[*]" * 12,
        "$.list[*]",
        "$.list[::1]",
        "$.list[?@ > 0]",
        "$..x",
    ],
)
def test_a_path_over_a_million_values_is_cut_off(text: str) -> None:
    path = compile_path(text)
    node: Any = {"a": 1, "b": [1, 2, 3]}
    for _ in range(14):
        node = [node, node, node]  # shared, so it is small in memory and 3^14 values to a walk
    with pytest.raises(PathTooWide):
        path.select({"list": [1] * 1_000_000, "deep": node} if "list" in text or "x" in text else node)


def test_such_a_path_blocks_wherever_it_stands() -> None:
    wide = {"list": [{"n": 1}] * 20_000}
    rules: dict[str, Any] = {
        "t": {"execution_constraints": {"arguments": [{"path": "$.list[*].n", "gte": 0}]}},
        "u": {"policy": {"deny": [{"principal": {"path": "$.list[*].n", "gte": 5}}]}},
        "v": {"binds": [{"name": "b", "path": "$.list[*].n"}, {"name": "c", "path": "$.c"}]},
        "w": {"argument_value_invariants": [{"path": "$.list[*].n", "ref": "c"}]},
        "x": {
            "preconditions": [
                {"requires_prior_tool": "v", "resource": {"bind_from": "arguments", "path": "$.list[*].n"}}
            ]
        },
        "session": {
            "aggregates": [{"name": "a", "metric": "sum", "tool": "y", "path": "$.list[*].n", "lte": 5, "reason": "r"}]
        },
        "y": {},
    }
    session = opened(rules)
    transitions.commit(session, call({**wide, "c": 1}, tool="v"), CallOutcome("succeeded"))
    assert session.binds == {"c": 1}
    assert engine.decide(session, call(wide), NOW).code == "execution_constraint"
    assert engine.decide(session, call(tool="u", principal=wide), NOW).code == "policy_denied"
    assert engine.decide(session, call(wide, tool="w"), NOW).code == "arguments_too_wide"
    assert engine.decide(session, call(wide, tool="x"), NOW).code == "precondition_not_met"
    assert engine.decide(session, call(wide, tool="y"), NOW).code == "aggregate_unmeasurable"


@pytest.mark.parametrize(
    "text",
    [
        "$" + ".a" * 300,
        "$[" + "(" * 200 + "]",
        "$[?" + "!" * 400 + "@.a]",
        "$['" + "a" * 500 + "']",
        "$[99999999999999999999]",
        "$.a[?match(@.b, '(a+)+$')]",
        "$.a[?search(@.b, '(a+)+$')]",
        "$[?@[?@.a]]",
        "$[?length(@.*) > 1]",
    ],
)
def test_paths_that_are_not_evaluated_are_refused(text: str) -> None:
    with pytest.raises(BadPath):
        compile_path(text)


def test_ten_thousand_tools_compile_and_are_told_apart() -> None:
    head = json.dumps({"tool": "t", **TOOL})
    files = {f"t{number}.yaml": head.replace('"t"', f'"t{number}"', 1).encode() for number in range(10_000)}
    assert len(files) == 10_000
    subset = dict(list(files.items())[:300])
    found = compile_folder(subset, environment={})
    assert found.ok and len(found.rules.plans) == 300
    flood = {f"{number}.yaml": b"" for number in range(limits.CONTRACT_FILES + 1)}
    assert [item.code for item in compile_folder(flood, environment={}).diagnostics] == ["TOO_MANY_FILES"]


@pytest.mark.soak
def test_all_ten_thousand_tools() -> None:
    head = json.dumps({"tool": "t", **TOOL})
    files = {f"t{number}.yaml": head.replace('"t"', f'"t{number}"', 1).encode() for number in range(10_000)}
    found = compile_folder(files, environment={})
    assert found.ok and len(found.rules.plans) == 10_000


def test_ten_thousand_calls_leave_a_session_as_small_as_ten() -> None:
    rules = {
        "t": {"forbids_after": ["u"], "binds": [{"name": "b", "path": "$.n"}]},
        "u": {"preconditions": [{"requires_prior_tool": "t"}]},
        "session": {
            "session_limits": {
                "max_calls_per_tool": {"t": 10_000},
                "loop_detection": {"window": 10, "threshold": 10},
            },
            "aggregates": [
                {"name": name, "metric": name, "tool": "t", "path": "$.n", "lte": 10**9, "reason": "r"}
                for name in ("sum", "max", "min", "count")
            ],
        },
    }
    session = opened(rules)
    sizes = []
    for number in range(10_000):
        one = call({"n": number})
        assert engine.decide(session, one, NOW).verdict == "allow"
        transitions.commit(session, one, CallOutcome("succeeded"))
        if number in (20, 9_999):
            sizes.append(len(json.dumps(session.to_json())))
    assert sizes[1] - sizes[0] < 60
    assert engine.decide(session, call({"n": 0}), NOW).code == "session_limit_exceeded"
    assert session.tally.aggregates["sum"] == sum(range(10_000))


def test_exact_sums_of_extreme_numbers() -> None:
    rule = {"name": "s", "metric": "sum", "tool": "t", "path": "$.n", "lte": 0, "reason": "r"}
    session = opened({"t": {}, "session": {"aggregates": [rule]}})
    for number in (-1e308, 5e-324, 1e308):
        assert engine.decide(session, call({"n": number}), NOW).verdict == ("allow" if number < 1e300 else "block")
        transitions.commit(session, call({"n": number}), CallOutcome("succeeded"))
    assert session.tally.aggregates["s"] > 0
    for number in (float("inf"), float("nan"), -float("inf")):
        assert engine.decide(session, call({"n": number}), NOW).code == "aggregate_unmeasurable"


def test_a_policy_cannot_reach_outside_of_its_folder() -> None:
    for name in ("../session.yaml", "/etc/passwd", "packs/../../x.yaml", ".state/x.yaml"):
        spec = {"session": {}, "workflow": {"roles": [{"name": "a", "session_contract": name}]}}
        assert codes(spec) == ["SESSION_CONTRACT_MISSING"], name
        assert codes({"t": {"golden_cases": [{"id": "a", "input_ref": name, "expect_ok": True}]}}) == ["BAD_CASE_INPUT"]
    assert codes({"t": {"golden_cases": [{"id": "a", "input_ref": "x.json", "expect_ok": True}]}, "x.json": "{"}) == [
        "BAD_CASE_INPUT"
    ]
    assert codes({"t": {"golden_cases": [{"id": "a", "input_ref": "x.json", "expect_ok": True}]}, "x.json": "[]"}) == [
        "BAD_CASE_INPUT"
    ]


def test_schemas_that_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_SCHEMA_RULES", 50)
    many = {"properties": {f"p{number}": {"minimum": 1} for number in range(51)}}
    assert codes({"t": {}, "t.schema.json": many}) == ["BAD_SCHEMA"]
    twice = {
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "minimum": 1}},
        "$ref": "#/$defs/a",
    }
    assert "BAD_SCHEMA" in codes({"t": {}, "t.schema.json": twice})
    assert codes({"t": {}, "t.schema.json": {"properties": {"a" * 600: {"minimum": 1}}}}) == ["BAD_JSONPATH"]
    assert codes({"t": {}, "t.schema.json": '{"properties": {"a": {"minimum": 1}}, "properties": {}}'}) == [
        "BAD_SCHEMA"
    ]


def test_a_schema_that_refers_to_itself_many_times_gives_its_answer_at_once() -> None:
    """Eight levels of eight references are 16 million schemas, of which none gives a rule."""
    deep = {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 8}}, "$ref": "#/$defs/a", "minimum": 1}
    assert "BAD_SCHEMA" in codes({"t": {}, "t.schema.json": deep})
    tree = {"properties": {name: {"items": {"$ref": "#"}} for name in ("left", "right")} | {"n": {"minimum": 1}}}
    assert codes({"t": {}, "t.schema.json": tree}) == ["SCHEMA_NOT_DERIVED"]


def test_secrets_of_the_environment_are_never_shown() -> None:
    spec = {
        "t": {
            "execution_constraints": {
                "arguments": [{"path": "$.a", "equals_env": "KEY"}, {"path": "$.l[*]", "equals_env": "KEY"}]
            }
        }
    }
    found = compiled(spec, environment={"KEY": "s3cret-value"})
    decision = engine.decide(transitions.open_session(found.rules), call({"a": "near-miss", "l": ["near-miss"]}), NOW)
    shown = json.dumps(decision.to_json())
    assert decision.code == "execution_constraint" and "s3cret-value" not in shown and "near-miss" not in shown


def test_errors_never_repeat_a_value() -> None:
    spec = {"t": {"gate": "ghp_" + "x" * 36, "timeouts": {"total_ms": "AKIA" + "X" * 16}}}
    found = compile_folder(folder(spec), environment={})
    text = " ".join(item.render() for item in found.diagnostics)
    assert "ghp_" not in text and "AKIA" not in text
