"""Compiling a folder: strict YAML with places, every code explained, graph analysis, the published schemas."""

from __future__ import annotations

import json
import random
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.contracts.material import EXAMPLES, TOOL, codes, compiled, folder
from threegate.contracts import transitions
from threegate.contracts.codes import CODES
from threegate.contracts.compiled import read_folder
from threegate.contracts.compiler import compile_folder
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document, read_document, show_path
from threegate.contracts.provider import check_response
from threegate.contracts.scenario import run_tests
from threegate.core import limits
from threegate.core.errors import InvalidInput

ROOT = Path(__file__).parents[2]


def first(text: str | bytes) -> Diagnostic:
    data = text.encode() if isinstance(text, str) else text
    found = read_document("t.yaml", data)
    assert isinstance(found, Diagnostic), found
    return found


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: 1\na: 2\n", "DUPLICATE_KEY", 2, 1),
        ("a: {b: 1, b: 2}\n", "DUPLICATE_KEY", 1, 11),
        ("a: &x 1\n", "YAML_ANCHOR", 1, 4),
        ("a: *x\n", "YAML_ANCHOR", 1, 4),
        ("a: !!python/object 1\n", "YAML_TAG", 1, 4),
        ("a: !x 1\n", "YAML_TAG", 1, 4),
        ("? [1]\n: 2\n", "BAD_KEY", 1, 3),
        ("1: 2\n", "BAD_KEY", 1, 1),
        ("a: 1\n---\nb: 2\n", "YAML_SYNTAX", 2, 1),
        ("a: [\n", "YAML_SYNTAX", 2, 1),
        ("a:\n\t- b\n", "YAML_SYNTAX", 2, 1),
        ("a: no\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: On\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 012\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 12:30:45\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 1_000\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 0x1f\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: .inf\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: .NaN\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: True\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 99999999999999999999\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: 1e999\n", "AMBIGUOUS_SCALAR", 1, 4),
        ("a: " + "[" * 40 + "]" * 40, "TOO_DEEP", 1, 36),
        (b"a: \xff\n", "NOT_UTF8", 1, 1),
        (b"a: \x00\n", "YAML_SYNTAX", 1, 1),
        ("a: [" + "1, " * limits.CONTRACT_NODES + "1]", "TOO_MANY_VALUES", 1, None),
        ("#" * (limits.CONTRACT_FILE_BYTES + 1), "FILE_TOO_LARGE", 1, 1),
    ],
)
def test_yaml_has_one_meaning(text: str | bytes, code: str, line: int, column: int | None) -> None:
    found = first(text)
    assert (found.code, found.line) == (code, line), found
    assert column is None or found.column == column
    assert found.render().startswith("t.yaml:") and found.to_json()["help"] == CODES[code].help


def test_plain_scalars_are_what_all_yaml_versions_agree_on() -> None:
    text = (
        "a: 1\nb: -2.5e3\nc: true\nd: null\ne: \"no\"\nf: $.x\ng: 2026-01-01\nh: '1'\ni: |\n  text\nj: []\nk: {n: 1}\n"
    )
    found = read_document("t.yaml", text.encode())
    assert isinstance(found, Document)
    assert found.value == {
        "a": 1, "b": -2500.0, "c": True, "d": None, "e": "no", "f": "$.x", "g": "2026-01-01", "h": "1",
        "i": "text\n", "j": [], "k": {"n": 1},
    }  # fmt: skip
    assert found.place(("k", "n")) == (12, 5)
    assert found.place(("k", "n", "deeper")) == (12, 5)
    assert show_path(("a", 0, "b")) == "a[0].b"


def test_an_empty_path_is_not_an_absent_one() -> None:
    for metric in ("count", "sum"):
        total = {"name": "n", "metric": metric, "tool": "t", "path": "", "lte": 1, "reason": "r"}
        assert codes({"t": {}, "session": {"aggregates": [total]}}) == ["BAD_JSONPATH"]


def test_an_empty_file_is_no_contract() -> None:
    assert codes({"t.yaml": "# nothing\n"}) == ["BAD_TYPE"]


def test_a_mistake_is_told_with_its_place_and_help() -> None:
    text = (EXAMPLES / "trading" / "get_quote.yaml").read_text().replace("gte: 0}", "gte: zero}")
    found = compile_folder({"get_quote.yaml": text.encode()}, environment={})
    [item] = [item for item in found.diagnostics if item.code == "BAD_TYPE"]
    line = text.splitlines()[item.line - 1]
    assert line[item.column - 1 :].startswith("gte: zero")
    assert item.path == "argument_value_invariants[1].gte"


def test_files_that_do_not_belong_here_are_errors() -> None:
    assert codes({"t": {}, "other.yml": "a: 1"}) == ["UNEXPECTED_FILE"]
    assert codes({"t": {}, "sub/u": {}}) == ["UNEXPECTED_FILE"]
    assert codes({"t": {}, "u.schema.json": {}}) == ["UNEXPECTED_FILE"]
    assert codes({"stray.json": "{}"}) == ["UNEXPECTED_FILE"]
    assert codes({"t": {}, "README.md": "words", ".state/sessions.json": "{}"}) == []
    assert codes({"t": {"tool": "u"}, "u": {}}) == ["DUPLICATE_TOOL", "TOOL_NAME_MISMATCH"]


def test_an_empty_folder_is_no_gate_and_any_error_is_a_closed_one() -> None:
    for files in ({}, {"README.md": b"x"}, {"a.test.yaml": b"scenarios: []"}):
        found = compile_folder(files, environment={})
        assert found.empty and found.ok
    broken = compile_folder(folder({"t": {}, "u": {"gate": "maybe"}}), environment={})
    assert not broken.ok and not broken.contracts and not broken.sessions


def test_bounds_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_FILES", 2)
    assert codes({"a": {}, "b": {}, "c": {}}) == ["TOO_MANY_FILES"]
    monkeypatch.setattr(limits, "CONTRACT_FOLDER_BYTES", 10)
    assert codes({"a": {}}) == ["FOLDER_TOO_LARGE"]


def test_a_flood_of_warnings_never_hides_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_DIAGNOSTICS", 1)
    found = compile_folder(
        folder({"a": {"implements": "(gone)"}, "z": {"implements": "(gone)", "gate": "x"}}), environment={}
    )
    assert not found.ok and len(found.diagnostics) == 2


def test_every_code_has_its_help_and_is_given_somewhere() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "threegate" / "contracts").glob("*.py"))
    for code, entry in CODES.items():
        assert entry.help.endswith((".", "`")), code
        assert source.count(f'"{code}"') >= 2, f"{code} is never given"


PHASES = {"phases": [{"name": "a", "initial": True}, {"name": "b"}, {"name": "c", "terminal": True}]}
EDGES = {**PHASES, "transitions": {"a": ["b"], "b": ["c"]}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"t": {"transitions": {"valid_in_phases": ["b"]}}, "u": {}, "session": EDGES}, ["dead_tool"]),
        ({"t": {"transitions": {"valid_in_phases": ["a"]}}, "session": EDGES}, ["phase_without_tool"]),
        (
            {
                "t": {"transitions": {"valid_in_phases": ["a"], "advances_to": "b"}},
                "u": {"transitions": {"valid_in_phases": ["b"]}},
                "session": EDGES,
            },
            [],
        ),
        (
            {
                "t": {"transitions": {"advances_to": "a"}},
                "u": {},
                "session": {"phases": [{"name": "a", "initial": True, "terminal": True}]},
            },
            [],
        ),
        (
            {"t": {"preconditions": [{"requires_prior_tool": "u"}]}, "u": {"gate": "block"}},
            ["unreachable_precondition"],
        ),
        (
            {"t": {"preconditions": [{"requires_prior_tool": "u"}]}, "u": {"forbids_after": ["t"]}},
            ["unreachable_precondition"],
        ),
        (
            {
                "t": {
                    "transitions": {"valid_in_phases": ["a"], "advances_to": "b"},
                    "preconditions": [{"requires_prior_tool": "u"}],
                },
                "u": {"transitions": {"valid_in_phases": ["b"], "advances_to": "c"}},
                "session": EDGES,
            },
            ["unreachable_precondition"],
        ),
        (
            {
                "t": {"preconditions": [{"requires_prior_tool": "u"}]},
                "u": {"transitions": {"valid_in_phases": []}},
                "session": {"phases": [{"name": "a", "initial": True, "terminal": True}]},
            },
            ["dead_tool", "unreachable_precondition"],
        ),
        (
            {
                "t": {"preconditions": [{"requires_prior_tool": "u"}]},
                "u": {"preconditions": [{"requires_prior_tool": "t"}]},
            },
            ["precondition_cycle"],
        ),
        ({"t": {"preconditions": [{"requires_prior_tool": "t"}]}}, ["precondition_cycle"]),
        ({"t": {"forbids_after": ["t"]}}, ["self_forbidding"]),
        ({"t": {"binds": [{"name": "b", "path": "$.a"}]}}, ["unused_bind"]),
        (
            {"t": {"argument_value_invariants": [{"path": "$.a", "gte": 2}, {"path": "$.a", "lte": 1}]}},
            ["contradictory_invariants"],
        ),
        (
            {
                "t": {
                    "argument_value_invariants": [
                        {"path": "$.a", "one_of": ["x"]},
                        {"path": "$.a", "regex": "^y"},
                    ]
                }
            },
            ["contradictory_invariants"],
        ),
        (
            {
                "t": {
                    "argument_value_invariants": [
                        {"path": "$.a", "one_of": ["x", "y"]},
                        {"path": "$.a", "regex": "^y"},
                    ]
                }
            },
            [],
        ),
        (
            {
                "t": {
                    "argument_value_invariants": [
                        {"path": "$.a", "exact_match": "x"},
                        {"path": "$.a", "exact_match": "y"},
                    ]
                }
            },
            ["contradictory_invariants"],
        ),
        (
            {
                "t": {
                    "argument_value_invariants": [
                        {"path": "$.a", "one_of": [1, 5]},
                        {"path": "$.a", "gte": 6},
                    ]
                }
            },
            ["contradictory_invariants"],
        ),
    ],
)
def test_graph_analysis(spec: dict, found: list[str]) -> None:
    assert codes(spec) == found


def test_a_suppression_holds_for_its_tool_only() -> None:
    both = {"t": {"forbids_after": ["t"]}, "u": {"forbids_after": ["u"]}}
    suppress = {"graph_analysis": {"suppress": [{"check": "self_forbidding", "tool": "t", "reason": "once"}]}}
    assert codes({**both, "session": suppress}) == ["self_forbidding"]
    everywhere = {"graph_analysis": {"suppress": [{"check": "self_forbidding", "reason": "once"}]}}
    assert codes({**both, "session": everywhere}) == []


def test_the_order_of_files_does_not_matter() -> None:
    files = read_folder(EXAMPLES / "trading")
    names = list(files)
    one = compile_folder(files, environment={})
    random.Random(7).shuffle(names)
    other = compile_folder({name: files[name] for name in names}, environment={})
    assert (one.diagnostics, one.sha256) == (other.diagnostics, other.sha256)
    assert list(one.rules.plans) == list(other.rules.plans)
    broken = {**files, "x.yaml": b"a: no", "y.yaml": b"tool: 5"}
    assert (
        compile_folder(broken, environment={}).diagnostics
        == compile_folder(dict(reversed(broken.items())), environment={}).diagnostics
    )


def test_reading_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a folder"):
        read_folder(tmp_path / "nowhere")
    (tmp_path / ".state").mkdir()
    (tmp_path / ".state" / "x").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "a.yaml").write_text("a")
    assert read_folder(tmp_path) == {"packs/a.yaml": b"a"}
    (tmp_path / "link.yaml").symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput, match=r"link\.yaml"):
        read_folder(tmp_path)


def test_too_many_files_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONTRACT_FILES", 1)
    for name in "ab":
        (tmp_path / name).write_text("")
    with pytest.raises(InvalidInput, match="more than 1 files"):
        read_folder(tmp_path)


SCHEMAS = tuple(f"{kind}-contract.schema.json" for kind in ("tool", "session", "workflow"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schemas_are_valid_and_describe_every_object(name: str) -> None:
    schema = json.loads((ROOT / "schemas" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)

    def described(value: object, path: str) -> None:
        if isinstance(value, dict):
            assert not isinstance(value.get("properties"), dict) or "description" in value, path
            for key, item in value.items():
                described(item, f"{path}/{key}")

    described(schema, name)


def test_the_published_schemas_take_the_examples_and_refuse_what_the_compiler_refuses() -> None:
    validators = {
        name: jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / name).read_text())) for name in SCHEMAS
    }
    for path in EXAMPLES.glob("*/*.yaml"):
        if not path.name.endswith(".test.yaml"):
            kind = "session" if path.name == "session.yaml" else "tool"
            validators[f"{kind}-contract.schema.json"].validate(yaml.safe_load(path.read_text()))
    tool = validators["tool-contract.schema.json"]
    assert tool.is_valid({"tool": "t", **TOOL})
    assert not tool.is_valid({"tool": "t", **TOOL, "gate": None})
    assert not tool.is_valid({"tool": "t", **TOOL, "gates": "allow"})


def test_timeout_allow_needs_the_settings_word() -> None:
    spec = {"t": {"checkpoint": {"when": "always", "timeout_seconds": 30, "on_timeout": "allow"}}}
    assert codes(spec) == ["TIMEOUT_ALLOW_NOT_PERMITTED"]
    assert codes(spec, permit_timeout_allow=True) == []


def test_the_named_environment_is_part_of_what_was_compiled() -> None:
    spec = {"t": {"execution_constraints": {"arguments": [{"path": "$.a", "equals_env": "STAGE"}]}}}
    one, other = compiled(spec), compiled(spec, environment={"STAGE": "test", "OTHER": "x"})
    assert one.variables == ("STAGE",) and one.sha256 != other.sha256
    assert compiled(spec, environment={}).sha256 not in (one.sha256, other.sha256)
    assert transitions.open_session(one.rules).phase is None


def test_what_a_wildcard_says_holds_wherever_a_tool_is_looked_up() -> None:
    rule = {"schema_version": "1.1", "argument_value_invariants": [{"path": "$.a", "exact_match": "x"}]}
    form = {"response_format_invariants": {"finish_reason": "stop"}}
    scenario = json.dumps({"scenarios": [{"calls": [{"tool": "g.x", "arguments": {"a": "y"}, "expect": "block"}]}]})
    spec = {"g.*": {**rule, **form}, "g.y": {}, "a.test.yaml": scenario}
    found = compiled(spec)
    assert [item.tool for item in found.contracts_of("g.x")] == ["g.*"]
    assert [item.tool for item in found.contracts_of("g.y")] == ["g.y"]
    assert found.contracts_of("h.x") == []
    report = run_tests(found, folder(spec))
    assert report.passed and not report.unreached
    response = {"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": [{"function": {"name": "g.x", "arguments": "{}"}}]}}]}  # fmt: skip  # noqa: E501
    assert [item.code for item in check_response(found, response)] == ["response_finish_reason"]
