"""The fast checks say exactly what the published schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, FormatChecker

from tests.conftest import examples
from tests.plugins.proposals.strategies import TIMES, URLS, bent_proposals
from threegate.core.settings import Settings
from threegate.plugins.proposals.form import check_form, pointer, read_json
from threegate.plugins.proposals.formats import is_date_time, is_uri
from threegate.plugins.proposals.rules import judge_proposal
from threegate.plugins.proposals.tools import TOOLS

ROOT = Path(__file__).parents[3]
FORMATS = FormatChecker(formats=["uri", "date-time"])
SCHEMA = json.loads((ROOT / "schemas" / "agent-action-proposal.schema.json").read_bytes())
ORACLE = Draft202012Validator(SCHEMA, format_checker=FORMATS)


def test_the_oracle_asserts_both_formats() -> None:
    assert set(FORMATS.checkers) == {"uri", "date-time"}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert list(TOOLS) == SCHEMA["properties"]["tool"]["enum"]
    assert len(TOOLS) == 25


@examples(200, deadline=None)
@given(bent_proposals())
@pytest.mark.slow
def test_the_fast_checks_agree_with_the_jsonschema_library(value: Any) -> None:
    proposal, problems = check_form(value)
    expected = sorted(ORACLE.iter_errors(value), key=str)
    assert (proposal is not None) == (not expected), (value, problems, expected)
    assert (proposal is None) == bool(problems)


@examples(300, deadline=None)
@given(bent_proposals())
def test_every_place_that_the_library_names_is_named(value: Any) -> None:
    _, problems = check_form(value)
    named = {problem.path for problem in problems}
    for error in ORACLE.iter_errors(value):
        place = "".join(f"/{part}" for part in error.absolute_path)
        if error.validator not in {"type", "format", "minimum", "maximum"}:
            continue
        if not isinstance(value, dict) or value.get("tool") in [*TOOLS]:
            assert place in named, (place, named)


@examples(300, deadline=None)
@given(URLS)
def test_uri_is_what_the_library_says(text: str) -> None:
    assert is_uri(text) == FORMATS.conforms(text, "uri")


@examples(300, deadline=None)
@given(TIMES)
def test_date_time_is_what_the_library_says(text: str) -> None:
    assert is_date_time(text) == FORMATS.conforms(text, "date-time")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"tool": "git.status", "tool": "file.read", "args": {}}', "twice"),
        (b'{"tool": "git.status", "args": {"path": "a", "path": "b"}}', "twice"),
        (b"[" * 17 + b"]" * 17, "nested"),
        (b"[" * 40_000, "nested"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"\xff{}", "UTF-8"),
        (b" " * (64 * 1024 + 1), "bytes"),
        (b'{"a": 1e999}', "number"),
        (b"{} {}", "Extra data"),
        (b"", "Expecting value"),
    ],
)
def test_what_has_no_one_meaning_is_no_proposal(data: bytes, said: str) -> None:
    value, problem = read_json(data)
    assert value is None
    assert problem is not None
    assert problem.code == "json"
    assert said in problem.message


def test_sixteen_levels_are_read() -> None:
    assert read_json(b"[" * 16 + b"]" * 16)[1] is None


def test_all_errors_come_at_once() -> None:
    _, problems = check_form(
        {
            "tool": "shell.execute_approved",
            "args": {"argv": ["a", 1], "timeoutMs": 5, "maxBufferBytes": "x", "cwd": 3, "zz": 1},
            "risk": "HIGH",
            "id": 4,
            "createdAt": "now",
            "schemaVersion": "v2",
            "extra": 1,
        }
    )
    assert {(problem.path, problem.code) for problem in problems} == {
        ("/args/argv/1", "type"),
        ("/args/timeoutMs", "range"),
        ("/args/maxBufferBytes", "type"),
        ("/args/cwd", "type"),
        ("/args/zz", "unknown_key"),
        ("/risk", "risk"),
        ("/id", "type"),
        ("/createdAt", "date_time"),
        ("/schemaVersion", "version"),
        ("/extra", "unknown_key"),
    }


def test_a_whole_number_may_be_written_with_a_point() -> None:
    proposal, _ = check_form({"tool": "git.log", "args": {"limit": 3.0}})
    assert proposal is not None
    assert proposal.args == {"limit": 3}
    assert type(proposal.args["limit"]) is int


def test_a_key_from_outside_is_shown_short_escaped_and_without_secrets() -> None:
    assert pointer("a/b~c") == "/a~1b~0c"
    assert pointer("\x1b[31m") == "/\\x1b[31m"
    assert "ghp_" not in pointer("ghp_" + "a1B2" * 9)
    assert len(pointer("k" * 500)) == 65


@pytest.mark.parametrize(
    ("value", "places"),
    [
        (
            {"tool": "file.read", "args": {"path": "../x", "zz": 1, "maxBytes": 0}, "task": " "},
            {"/args/path", "/args/zz", "/args/maxBytes", "/task"},
        ),
        ({"tool": "web.fetch", "args": {"maxBytes": "x"}}, {"/args/url", "/args/maxBytes"}),
        ({"tool": "web.fetch", "args": {"url": "http://10.0.0.1/", "x": 1}}, {"/args/url", "/args/x"}),
        ({"tool": "shell.execute_approved", "args": {"cwd": "../x"}}, {"/args/argv", "/args/cwd"}),
        (
            {"tool": "shell.execute_approved", "args": {"argv": ["rm", 1], "cwd": "/"}},
            {"/args/argv/1", "/args/cwd"},
        ),
        (
            {"tool": "app.action_proposed", "args": {"app": " "}, "risk": "x"},
            {"/args/action", "/args/app", "/risk"},
        ),
        ({"tool": "app.action_proposed", "args": {"app": "x"}, "risk": "low"}, {"/args/action", "/risk"}),
        ({"tool": "shell.dry_run", "args": {"zz": 1}}, {"/args/zz"}),
        ({"tool": "github.repo_read", "args": {"zz": 1}, "task": 1}, {"/args/zz", "/args/repo", "/task"}),
        ({"tool": "none", "args": {}}, {"/tool"}),
        ({"tool": "file.read", "args": 1}, {"/args"}),
        ([], {""}),
    ],
)
def test_what_breaks_a_rule_is_told_together_with_what_breaks_the_schema(value: Any, places: set[str]) -> None:
    verdict = judge_proposal(json.dumps(value).encode(), settings=Settings())
    assert verdict.verdict == "reject"
    assert {problem.path for problem in verdict.errors} >= places
    assert len(verdict.errors) == len({(problem.path, problem.code) for problem in verdict.errors})


@examples(200, deadline=None)
@given(bent_proposals())
def test_any_value_gets_exactly_one_verdict(value: Any) -> None:
    verdict = judge_proposal(json.dumps(value).encode(), settings=Settings())
    assert bool(verdict.errors) == (not verdict.allowed) == (verdict.verdict not in ("approval", "auto"))
    assert verdict.schema_valid == ORACLE.is_valid(value) and (verdict.schema_valid or verdict.verdict == "reject")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2026-01-02T03:04:05Z", True),
        ("2024-02-29T23:59:59.5+01:00", True),
        ("2026-02-29T00:00:00Z", False),
        ("2026-04-31T00:00:00Z", False),
        ("2026-01-00T00:00:00Z", False),
        ("0000-01-01T00:00:00Z", False),
        ("2026-01-02", False),
    ],
)
def test_a_date_is_one_of_the_calendar(text: str, good: bool) -> None:
    proposal, problems = check_form({"tool": "git.status", "args": {}, "createdAt": text})
    assert (proposal is not None) == good
    assert [problem.code for problem in problems] == ([] if good else ["date_time"])


def test_a_list_of_strings_is_a_list() -> None:
    _, problems = check_form({"tool": "shell.execute_approved", "args": {"argv": "ls -l"}})
    assert [(problem.path, problem.code) for problem in problems] == [("/args/argv", "type")]


def test_a_risk_below_the_tools_own_is_raised_and_told() -> None:
    value = {"tool": "shell.execute_approved", "args": {"argv": ["ls"]}, "risk": "low"}
    verdict = judge_proposal(json.dumps(value).encode(), settings=Settings())
    assert verdict.risk == "high"
    assert "shell.execute_approved is never below high risk" in verdict.reasons


@pytest.mark.parametrize(
    ("command", "said"),
    [("ls -l", "would be drafted"), ("ls 'x", "would be blocked"), ("shred x", "would be high")],
)
def test_a_dry_run_says_what_would_become_of_a_command(command: str, said: str) -> None:
    value = {"tool": "shell.dry_run", "args": {"command": command}}
    verdict = judge_proposal(json.dumps(value).encode(), settings=Settings())
    assert any(said in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("risk", ["medium", "high", "critical"])
def test_a_declared_risk_above_a_readers_own_needs_approval(risk: str) -> None:
    verdict = judge_proposal(json.dumps({"tool": "git.status", "args": {}, "risk": risk}).encode(), settings=Settings())
    assert (verdict.verdict, verdict.risk, verdict.becomes) == ("approval", risk, "ERA draft")
    assert f"the proposal declares {risk} risk" in verdict.reasons


def delegated(args: Any) -> Any:
    return judge_proposal(json.dumps({"tool": "subagent.delegate", "args": args}).encode(), settings=Settings())


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"task": 5}, "type"),
        ({"task": " "}, "blank"),
        ({"task": "x", "maxSteps": 0}, "range"),
        ({"profile": ["x"], "more": {}}, "type"),
        ({"more": "x" * 62_000}, "length"),
        ({"more": [[[[[[[[[[[[0] * 5_000]]]]]]]]]]]}, "length"),
    ],
)
def test_a_delegation_keeps_the_rules_of_what_is_known_of_it(args: Any, code: str) -> None:
    verdict = delegated(args)
    assert (verdict.verdict, verdict.schema_valid) == ("reject", True)
    assert [problem.code for problem in verdict.errors] == [code]


def test_a_delegation_with_other_arguments_is_read_by_a_person() -> None:
    verdict = delegated({"task": "x", "maxSteps": 4.0, "tools": [{"name": "a"}]})
    assert (verdict.verdict, verdict.risk, verdict.becomes) == ("approval", "medium", "dry-run record")
    assert verdict.reasons[-1] == "it has arguments that ThreeGate does not know: read all of args.json"
    assert verdict.proposal.args == {"task": "x", "maxSteps": 4, "tools": [{"name": "a"}]}
    assert delegated({"task": "x"}).reasons == ("subagent.delegate is drafted for a human's approval",)
