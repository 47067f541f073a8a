"""A rule that an operator wrote and that would silently never hold: null, minima, tool definitions, roles, strays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import NOW, call, codes, compiled, folder, opened
from tests.support import make_place
from threegate import cli
from threegate.contracts import engine, transitions
from threegate.contracts.compiled import read_folder
from threegate.contracts.scenario import run_tests
from threegate.contracts.state import CallOutcome
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.judgement.policy import load_policy
from threegate.runners.backend import policy_facts


def constrained(**operators: Any) -> Any:
    return {"t": {"execution_constraints": {"arguments": [{"path": "$.a", **operators}]}}}


def verdict(spec: Any, **more: Any) -> str:
    return engine.decide(opened(spec), call(**more), NOW).verdict


@pytest.mark.parametrize("operators", [{"exists": True}, {"exists": True, "one_of": [None, 1]}])
def test_null_never_meets_exists(operators: Any) -> None:
    assert verdict(constrained(**operators), arguments={"a": None}) == "block"


def test_one_null_among_many_values_never_meets_exists() -> None:
    spec = {"t": {"execution_constraints": {"arguments": [{"path": "$.a[*]", "exists": True}]}}}
    assert verdict(spec, arguments={"a": [1, None]}) == "block"
    assert verdict(spec, arguments={"a": [1, 0]}) == "allow"


def test_one_value_among_many_nulls_is_there() -> None:
    spec = {"t": {"execution_constraints": {"arguments": [{"path": "$.a[*]", "exists": False}]}}}
    assert verdict(spec, arguments={"a": [None, None]}) == "allow"
    assert verdict(spec, arguments={"a": [None, 0]}) == "block"


@pytest.mark.parametrize("exists", [True, False])
def test_null_never_escapes_a_deny_rule(exists: bool) -> None:
    spec = {"t": {"policy": {"deny": [{"principal": {"path": "$.badge", "exists": exists}}]}}}
    assert verdict(spec, principal={"badge": None}) == "block"


def aggregate(**fields: Any) -> Any:
    rule = {"name": "low", "metric": "min", "tool": "t", "path": "$.n", "reason": "too low", **fields}
    return {"t": {"binds": [{"name": "floor", "path": "$.n"}]}, "session": {"aggregates": [rule]}}


def test_a_minimum_below_its_bound_is_blocked_before_the_call() -> None:
    session = opened(aggregate(gte=10))
    decision = engine.decide(session, call({"n": 9}), NOW)
    assert (decision.verdict, decision.code) == ("block", "aggregate_below")
    assert engine.decide(session, call({"n": 10}), NOW).verdict == "allow"
    both = engine.decide(opened(aggregate(gte=10, lte=5)), call({"n": 7}), NOW)
    assert [reason.code for reason in both.reasons] == ["aggregate_below", "aggregate_exceeded"]


def test_a_lower_bound_holds_before_each_call_whatever_the_metric() -> None:
    for metric in ("sum", "max", "count", "count_distinct"):
        assert verdict(aggregate(metric=metric, gte=10), arguments={"n": 1}) == "block"
    for metric in ("sum", "max", "min"):
        assert verdict(aggregate(metric=metric, gte=10), arguments={"n": 10}) == "allow"


def test_the_bound_of_a_minimum_follows_its_conditions() -> None:
    when = [{"binding": "floor", "gte": 100, "then_gte": 50}]
    session = opened(aggregate(gte=10, when=when))
    transitions.commit(session, call({"n": 100}), CallOutcome("succeeded"))
    assert engine.decide(session, call({"n": 49}), NOW).code == "aggregate_below"


ARGUMENTS = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"maximum": 5}}}


@pytest.mark.parametrize(
    "definition",
    [
        ARGUMENTS,
        {"type": "function", "function": {"name": "t", "description": "d", "parameters": ARGUMENTS}},
        {"type": "function", "name": "t", "parameters": ARGUMENTS, "strict": True},
        {"name": "t", "parameters": ARGUMENTS},
        {"name": "t", "description": "d", "input_schema": ARGUMENTS},
        {"name": "t", "inputSchema": ARGUMENTS},
        {"functionDeclarations": [{"name": "u", "parameters": {}}, {"name": "t", "parameters": ARGUMENTS}]},
        {"function_declarations": [{"name": "t", "parametersJsonSchema": ARGUMENTS}]},
        {"toolSpec": {"name": "t", "inputSchema": {"json": ARGUMENTS}}},
    ],
)
def test_a_tool_definition_gives_its_rules(definition: Any) -> None:
    spec = {"t": {}, "t.schema.json": definition}
    assert verdict(spec, arguments={"n": 5}) == "allow"
    assert verdict(spec, arguments={"n": 6}) == "block"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": "object", "properties": {"n": {"type": "string"}}},
        {"type": "function", "function": {"name": "t"}},
        {"name": "t", "arguments": ARGUMENTS},
        {"name": "t", "parameters": {"type": "object"}},
        {"name": "t", "input_schema": "text"},
        {"tools": [{"name": "t", "input_schema": ARGUMENTS}]},
        [{"name": "t", "input_schema": ARGUMENTS}],
    ],
)
def test_a_schema_file_that_gives_no_rule_is_an_error(schema: Any) -> None:
    assert codes({"t": {}, "t.schema.json": json.dumps(schema)}) == ["BAD_SCHEMA"]


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"deny": [{"principal": {"path": "$.kind", "equals": "robot"}}]}, "has no $.kind"),
        ({"allow": [{"principal": {"path": "$.team", "equals": "finance"}}]}, "has no $.team"),
        (
            {
                "allow": [
                    {"principal": {"path": "$.team", "equals": "finance"}},
                    {"principal": {"path": "$.tier", "one_of": ["L3"]}},
                ]
            },
            "has no $.team, no $.tier",
        ),
    ],
)
def test_the_message_names_the_attribute_that_a_principal_lacks(policy: Any, told: str) -> None:
    session = opened({"t": {"policy": policy}})
    [reason] = engine.decide(session, call(principal={"name": "x"}), NOW).reasons
    assert told in reason.message
    full = {"kind": "robot", "team": "sales", "tier": "L1"}
    [reason] = engine.decide(session, call(principal=full), NOW).reasons
    assert "has no" not in reason.message


ROLES = {
    "roles": [
        {"name": "boss", "session_contract": "session.yaml"},
        {"name": "worker", "session_contract": "packs/worker/session.yaml"},
    ]
}


def packs(**more: Any) -> dict[str, Any]:
    """A workflow whose worker has a contract of its own for `t`, and a tool that nobody else has."""
    strict = {"tool": "t", "argument_value_invariants": [{"path": "$.n", "lte": 1}]}
    return {
        "t": {},
        "session": {},
        "workflow": ROLES,
        "packs/worker/session": {},
        "packs/worker/t": strict,
        "packs/worker/u": {"tool": "u"},
        **more,
    }


def test_a_role_has_the_contracts_beside_its_session_file() -> None:
    found = compiled(packs())
    boss, worker = (transitions.open_session(found.sessions[name]) for name in sorted(found.sessions, reverse=True))
    assert engine.decide(boss, call({"n": 2}), NOW).verdict == "allow"
    assert engine.decide(boss, call(tool="u"), NOW).code == "no_contract"
    assert engine.decide(worker, call({"n": 2}), NOW).code == "argument_invariant"
    assert engine.decide(worker, call(tool="u"), NOW).verdict == "allow"
    assert sorted(found.contracts) == ["t", "u"]
    assert [len(found.contracts_of(name)) for name in "tux"] == [2, 1, 0]


def test_what_is_wrong_in_a_role_s_folder_is_an_error_there() -> None:
    assert codes(packs(**{"packs/worker/v": {"tool": "w"}})) == ["TOOL_NAME_MISMATCH"]
    assert codes(packs(**{"packs/other/v": {"tool": "v"}})) == ["UNEXPECTED_FILE"]
    assert codes(packs(**{"packs/worker/deeper/v": {"tool": "v"}})) == ["UNEXPECTED_FILE"]
    assert codes(packs(t={"forbids_after": ["u"]})) == ["UNKNOWN_TOOL_REFERENCE"]
    assert codes(packs(**{"packs/worker/u": {"tool": "u", "forbids_after": ["t"]}})) == []


def test_a_role_s_contract_is_held_by_the_tool_s_schema() -> None:
    schema = {"properties": {"n": {"minimum": 0}}}
    for name in ("t.schema.json", "packs/worker/t.schema.json"):
        extra = {"packs/worker/t": {"tool": "t"}, name: schema}
        session = transitions.open_session(compiled(packs(**extra)).sessions["packs/worker/session.yaml"])
        assert engine.decide(session, call({"n": -1}), NOW).code == "argument_invariant"


def test_golden_cases_of_a_role_are_run_under_its_rules() -> None:
    case = {"id": "a", "arguments": {"n": 2}, "expect_ok": False}
    strict = {"tool": "t", "argument_value_invariants": [{"path": "$.n", "lte": 1}], "golden_cases": [case]}
    found = compiled(packs(**{"packs/worker/t": strict}))
    report = run_tests(found, {})
    assert [(item.file, item.problem) for item in report.results] == [("packs/worker/t.yaml", "")]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.execute(["contracts", *arguments])
    done = capsys.readouterr()
    return code, done.out, done.err


def lay(path: Path, spec: dict[str, Any]) -> str:
    for name, data in folder(spec).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return str(path)


def test_check_says_when_it_stops(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(limits, "CONTRACT_DIAGNOSTICS", 2)
    path = lay(tmp_path / "c", {name: {"implements": "(gone)"} for name in "abcd"})
    code, out, _ = run(capsys, "check", path)
    assert code == 0 and "stopped after 2 diagnostics; 2 more are not shown" in out
    assert json.loads(run(capsys, "check", path, "--json")[1])["left_out"] == 2
    path = lay(tmp_path / "c", {"z": {"gate": "x"}})
    code, out, _ = run(capsys, "check", path)
    assert code == 2 and "stopped after 3 diagnostics; 2 more are not shown" in out


def test_decide_fails_when_nothing_compiles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = tmp_path / "calls.jsonl"
    calls.write_text('{"tool": "t"}\n')
    code, out, err = run(capsys, "decide", lay(tmp_path / "c", {"t": {"gate": "x"}}), "--calls", str(calls))
    assert (code, out) == (2, "block contracts_do_not_compile\n") and "do not compile" in err


def test_a_linked_folder_is_an_error_and_a_readme_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "t.yml").write_text("x")
    assert read_folder(tmp_path) == {"t.yml": b"x"}
    (tmp_path / "packs").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="packs: is a link"):
        read_folder(tmp_path)


@pytest.mark.parametrize("name", ["t.yml", "notes.txt", "t.yaml.bak", "Makefile"])
def test_the_daemon_refuses_the_stray_file_that_check_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = Workspace(make_place(tmp_path).root)
    monkeypatch.chdir(workspace.root)
    lay(workspace.contracts, {"t": {}})
    assert load_policy(workspace, facts=policy_facts()).contracts.ok
    (workspace.contracts / name).write_text("x")
    (workspace.contracts / "README.md").write_text("x")
    policy = load_policy(workspace, facts=policy_facts())
    assert run(capsys, "check")[0] == 2 and not policy.contracts.ok
    assert sorted(policy.contract_digests) == sorted(["t.yaml", name])


def test_contracts_that_are_no_folder_are_no_empty_contracts(tmp_path: Path) -> None:
    workspace = Workspace(make_place(tmp_path).root)
    if workspace.contracts.is_dir():
        shutil.rmtree(workspace.contracts)
    assert load_policy(workspace, facts=policy_facts()).contracts.empty
    workspace.contracts.write_text("x")
    with pytest.raises(InvalidInput, match="is not a folder"):
        load_policy(workspace, facts=policy_facts())
