"""The examples compile without a warning, all their cases pass, and golden and scenario mistakes are told."""

from __future__ import annotations

import pytest

from tests.contracts.material import EXAMPLES, compiled, folder
from threegate.contracts.compiled import read_folder
from threegate.contracts.compiler import compile_folder
from threegate.contracts.scenario import run_tests
from threegate.contracts.skeleton import skeleton


@pytest.mark.parametrize("name", ["session-sample", "trading", "threegate", "filesystem", "github", "agentdojo"])
def test_examples(name: str) -> None:
    files = read_folder(EXAMPLES / name)
    found = compile_folder(files, environment={})
    assert not found.diagnostics
    report = run_tests(found, files)
    assert len(report.results) >= 15
    assert not [(item.file, item.name, item.problem) for item in report.results if item.problem]


def test_the_skeleton_compiles() -> None:
    found = compile_folder({"my_tool.yaml": skeleton("my_tool").encode()}, environment={})
    assert [item.code for item in found.diagnostics] == ["NO_IMPLEMENTS"]
    served = {"notes.my_tool.yaml": skeleton("notes.my_tool").encode()}
    assert not compile_folder(served, environment={}).diagnostics  # a call names what is pinned


def problems(spec: dict) -> list[str]:
    found = compiled(spec)
    return [item.problem or "passed" for item in run_tests(found, folder(spec)).results]


def test_golden_cases() -> None:
    case = {"arguments": {"n": 1}, "expect_ok": True}
    rules = {
        "argument_value_invariants": [{"path": "$.n", "gte": 1}],
        "assertions": {"input_invariants": [], "output_invariants": [{"path": "$.ok", "equals": True}]},
        "preconditions": [{"requires_step_count": {"gte": 99}}],
        "golden_cases": [
            {"id": "good", **case},
            {"id": "from_file", "input_ref": "in.json", "expect_ok": True},
            {"id": "output", **case, "output": {"ok": True}},
            {
                "id": "bad_output",
                **case,
                "output": {"ok": False},
                "expect_ok": False,
                "expected_error": "output_invariant",
            },
            {"id": "wrong", "arguments": {"n": 0}, "expect_ok": True},
            {"id": "wrongly_blocked", **case, "expect_ok": False},
            {
                "id": "other_code",
                "arguments": {"n": 0},
                "expect_ok": False,
                "expected_error": "policy_denied",
            },
        ],
    }
    told = problems({"t": rules, "in.json": {"n": 3}})
    assert told[:4] == ["passed"] * 4
    assert told[4].startswith("expected to be allowed, but argument_invariant")
    assert told[5] == "expected to be blocked, but it is allowed"
    assert told[6].startswith("expected policy_denied, but argument_invariant")
    gated = {"gate": "block", "policy": {"deny": [{"principal": {"path": "$.a", "equals": 1}}]}}
    blocked = {
        "golden_cases": [
            {
                "id": "a",
                "arguments": {},
                "expect_ok": False,
                "expected_error": "policy_denied",
                "principal": {"a": 1},
            }
        ]
    }
    assert problems({"t": {**gated, **blocked}}) == ["passed"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: no", "read differently"),
        ("scenarios: 5", "a scenario file is"),
        ("scenarios: []\nmore: 1", "a scenario file is"),
        ("scenarios: [5]", "a scenario is"),
        ("scenarios: [{name: a, calls: [], extra: 1}]", "a scenario is"),
        ("scenarios: [{calls: [5]}]", "a call is a mapping"),
        ("scenarios: [{calls: [{toll: t}]}]", "a line has no key 'toll'"),
        ("scenarios: [{calls: [{tool: t, expect: block}]}]", "expected block, got allow: no reason"),
        (
            "scenarios: [{calls: [{tool: t, outcome: failed, outcome_is: committed}]}]",
            "expected the outcome to be committed",
        ),
        ("scenarios: [{calls: [{tool: u}]}]", "was not allowed: no_contract"),
        ("scenarios: [{calls: [{tool: u, expect: block, codes: [a, b]}]}]", "expected a, b, got no_contract"),
        ("scenarios: [{calls: [{tool: t, code: a}]}]", "expected a, got no reason"),
        ("scenarios: [{calls: [{tool: t, code: [a]}]}]", "code is one reason code, codes a list of them"),
        ("scenarios: [{calls: [{tool: t, codes: 5}]}]", "code is one reason code, codes a list of them"),
        ("scenarios: [{calls: [{tool: t, expect: allow}]}]", "passed"),
        ("scenarios: [{name: x, principal: {a: 1}, calls: [{tool: t}, {close: default}]}]", "passed"),
    ],
)
def test_scenario_files(text: str, problem: str) -> None:
    told = problems({"t": {}, "x.test.yaml": text})
    assert any(problem in item for item in told), told


def test_rules_that_no_case_reached_are_named() -> None:
    spec = {
        "t": {
            "schema_version": "1.1",
            "argument_value_invariants": [
                {"path": "$.n", "gte": 1},
                {"path": "$.x", "ref": "b"},
                {"path": "$.y", "from_output": {"tool": "u", "path": "$.y"}},
            ],
            "binds": [{"name": "b", "path": "$.n"}],
            "policy": {
                "allow": [{"principal": {"path": "$.a", "equals": 1}}],
                "deny": [{"principal": {"path": "$.b", "equals": 1}}],
            },
            "forbids_after": ["u"],
            "checkpoint": {"when": "always", "timeout_seconds": 30},
            "transitions": {"valid_in_phases": ["p"]},
            "assertions": {"input_invariants": [], "output_invariants": [{"path": "$.o", "equals": 1}]},
        },
        "u": {"preconditions": [{"requires_step_count": {"gte": 1}}], "gate": "block"},
        "session": {
            "phases": [{"name": "p", "initial": True}, {"name": "q", "terminal": True}],
            "transitions": {"p": ["q"]},
            "session_limits": {"max_calls_per_tool": {"u": 1}},
            "policy": {
                "default_deny": True,
                "rules": [{"deny": {"principal": {"path": "$.c", "equals": 1}}}],
                "label_gates": [{"when_label": "l", "deny_tools": ["u"], "reason": "r"}],
            },
            "aggregates": [
                {"name": "agg", "metric": "count", "tool": "t", "lte": 1, "reason": "r"},
                {"name": "low", "metric": "count", "tool": "t", "gte": 1, "reason": "r"},
                {"name": "least", "metric": "min", "path": "$.n", "tool": "t", "gte": 1, "reason": "r"},
            ],
            "envelopes": [
                {
                    "name": "env",
                    "stages": [
                        {"tool": "u", "path": "$.n", "role": "ceiling"},
                        {"tool": "t", "path": "$.n", "role": "constrained"},
                    ],
                    "constraint": "lte_ceiling",
                    "reason": "r",
                }
            ],
        },
    }
    report = run_tests(compiled(spec), {})
    assert report.unreached == [
        "session: label_gate",
        "session: policy_denied",
        "session: policy_not_allowed",
        "t: aggregate_below at least",
        "t: aggregate_below at low",
        "t: aggregate_exceeded at agg",
        "t: argument_invariant at $.n",
        "t: checkpoint_required at tool:t",
        "t: envelope_violated at $.n",
        "t: output_invariant",
        "t: policy_denied",
        "t: policy_not_allowed",
        "t: ref_mismatch at $.x",
        "t: ref_mismatch at $.y",
        "t: wrong_phase",
        "u: forbidden_in_state at tool",
        "u: precondition_not_met",
        "u: risk_blocked",
        "u: session_limit_exceeded at session_limits.max_calls_per_tool.u",
    ]
