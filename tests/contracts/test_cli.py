"""The commands, called as the console script calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.material import EXAMPLES, folder
from threegate import cli
from threegate.contracts.codes import CODES
from threegate.contracts.compiled import Compiled
from threegate.contracts.drawing import mermaid, svg
from threegate.contracts.reasons import REASONS

TRADING = str(EXAMPLES / "trading")


@pytest.fixture(autouse=True)
def outside_of_any_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.execute(["contracts", *arguments])
    done = capsys.readouterr()
    return code, done.out, done.err


def lay(path: Path, spec: dict[str, Any]) -> str:
    path.mkdir(exist_ok=True)
    for name, data in folder(spec).items():
        (path / name).write_bytes(data)
    return str(path)


def test_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "check", TRADING)[:2] == (0, "compiles: 7 tools, 0 warnings\n")
    broken = lay(tmp_path / "b", {"t": {"gate": "maybe"}})
    code, out, _ = run(capsys, "check", broken)
    assert code == 2 and out.startswith("t.yaml:1:") and "error: BAD_TYPE (gate)" in out
    code, out, _ = run(capsys, "check", broken, "--json")
    assert code == 2 and json.loads(out)["diagnostics"][0]["help"] == CODES["BAD_TYPE"].help
    assert "no contracts" in run(capsys, "check", lay(tmp_path / "e", {}))[1]
    assert run(capsys, "check", str(tmp_path / "nowhere"))[0] == 2
    assert run(capsys, "check")[0] == 64


def test_test(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "test", TRADING)
    assert code == 0 and out.endswith("43 of 43 cases passed\n") and "not reached by any case" in out
    failing = lay(tmp_path / "f", {"t": {"golden_cases": [{"id": "a", "arguments": {}, "expect_ok": False}]}})
    code, out, _ = run(capsys, "test", failing)
    assert code == 2 and "t.yaml: a: expected to be blocked" in out
    assert json.loads(run(capsys, "test", failing, "--json")[1])["passed"] is False
    broken = lay(tmp_path / "b", {"t": {"gate": "maybe"}})
    code, _, err = run(capsys, "test", broken)
    assert code == 2 and "do not compile" in err


def test_decide(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = lay(tmp_path / "c", {"t": {"argument_value_invariants": [{"path": "$.n", "gte": 1}]}})
    calls = tmp_path / "calls.jsonl"
    calls.write_text(
        '{"tool": "t", "arguments": {"n": 1}, "outcome": "succeeded"}\n\n'
        '{"tool": "t", "arguments": {"n": 0}}\n'
        '{"tool": "t", "arguments": {"n": 1}, "claim": "c"}\n'
        '{"finish": "c", "outcome": {"status": "failed"}}\n'
        '{"close": "default"}\n'
        '{"tool": "t", "arguments": {"n": 1}}\n'
        '{"kill": {"scope": "session", "name": "default"}}\n'
    )
    code, out, _ = run(capsys, "decide", rules, "--calls", str(calls))
    assert code == 0
    assert out.splitlines() == [
        "allow",
        "block argument_invariant",
        "allow",
        "failed",
        "done",
        "block session_closed",
        "done",
    ]
    code, out, _ = run(capsys, "decide", rules, "--calls", str(calls), "--format", "json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines[0] == {"verdict": "allow", "reasons": [], "outcome": {"status": "committed", "reasons": []}}
    assert lines[1]["reasons"] == [
        {
            "layer": 1,
            "code": "argument_invariant",
            "path": "$.n",
            "message": "$.n does not satisfy gte",
            "expected": 1,
            "found": 0,
        }
    ]
    assert lines[4] == {"reasons": []}
    for text, told in (
        ("[1]\n", "each line must be a JSON object"),
        ("{\n", "calls.jsonl:1"),
        ('{"tool": 5}\n', "tool has another type"),
        ('{"tool": "t", "outcome": 5}\n', "an outcome is a status"),
        ('{"tool": "t", "outcome": {"status": "x", "cost": "1"}}\n', "cost of an outcome"),
        ('{"tool": "t", "outcome": {"status": "x", "costs": 1}}\n', "no key 'costs'"),
        ('{"tool": "t", "at": -1}\n', "at is a number"),
        ('{"tool": "t", "outcome": {"status": "x", "artifacts": 5}}\n', "artifacts of an outcome"),
        ('{"tool": "t", "role": 5}\n', "role has another type"),
        (
            '{"tool": "t", "arguments": {"n": 1}, "claim": "c"}\n' * 2,
            "calls.jsonl:2: claim names an open claim",
        ),
        ('{"finish": "z"}\n', "nothing was claimed as 'z'"),
        ('{"kill": 5}\n', "kill is an object with scope and name"),
        ('{"kill": {"scope": "session", "who": "x"}}\n', "no key 'who'; it has name, scope"),
        ('{"tool": "t", "outcome": {"status": "x", "exit_code": 256}}\n', "exit_code of an outcome"),
        ('{"at": 5}\n', "a line is a call"),
    ):
        calls.write_text(text)
        code, _, err = run(capsys, "decide", rules, "--calls", str(calls))
        assert code == 2 and told in err, (text, err)
    assert run(capsys, "decide", rules)[0] == 64
    assert run(capsys, "decide", rules, "--calls", str(calls), "--format", "xml")[0] == 64
    assert run(capsys, "decide", rules, "--calls", "nowhere")[0] == 2
    broken = lay(tmp_path / "b", {"t": {"gate": "maybe"}})
    calls.write_text('{"tool": "t"}\n')
    assert run(capsys, "decide", broken, "--calls", str(calls))[1] == "block contracts_do_not_compile\n"
    empty = lay(tmp_path / "e", {})
    assert run(capsys, "decide", empty, "--calls", str(calls))[1] == "allow no_contracts\n"


def test_explain_and_new(capsys: pytest.CaptureFixture[str]) -> None:
    entry = CODES["ACK_ONLY_ON_HIGH_RISK"]
    assert cli.execute(["validate", "--explain", "ACK_ONLY_ON_HIGH_RISK"]) == 0
    out = capsys.readouterr().out
    assert entry.help[1:].removesuffix(".") in out and f"{entry.severity} in a contract file" in out
    assert cli.execute(["validate", "--explain", "loop_detected", "--json"]) == 0
    assert REASONS["loop_detected"][1:] in json.loads(capsys.readouterr().out)["meaning"]
    assert cli.execute(["validate", "--explain", "NOTHING"]) == 2
    capsys.readouterr()
    code, out, _ = run(capsys, "new", "my_tool")
    assert code == 0 and "tool: my_tool\n" in out
    assert run(capsys, "new", "a b")[0] == 2


def test_graph(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "graph", TRADING)
    assert code == 0 and out.startswith("flowchart LR\n") and "-->|before|" in out
    for name in ("g.svg", "g.mmd"):
        assert run(capsys, "graph", TRADING, "--out", str(tmp_path / name))[0] == 0
    import xml.etree.ElementTree as ElementTree

    drawn = ElementTree.fromstring((tmp_path / "g.svg").read_text())
    titles = [item.text for item in drawn.iter() if item.tag.endswith("title")]
    assert "tool submit_live_order" in titles and "phase approved" in titles and "forbids" in titles
    assert run(capsys, "graph", TRADING, "--out", "x.png")[0] == 64
    assert run(capsys, "graph", lay(tmp_path / "e", {}))[0] == 2


def test_a_drawing_of_names_that_are_no_names(tmp_path: Path) -> None:
    from threegate.contracts.compiler import compile_folder

    long = "t" * 60
    found = compile_folder(folder({long: {}, "u": {"preconditions": [{"requires_prior_tool": long}]}}), environment={})
    assert isinstance(found, Compiled) and "…" in svg(found) and long in mermaid(found)


def openai(**more: Any) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "t", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call], **more.pop("message", {})}
    return {"choices": [{"finish_reason": "tool_calls", "message": message, **more}]}


def anthropic(**more: Any) -> dict[str, Any]:
    return {"stop_reason": "tool_use", "content": [{"type": "tool_use", "name": "t", "input": {}}], **more}


@pytest.mark.parametrize(
    ("response", "codes"),
    [
        (openai(), []),
        (anthropic(), []),
        (openai(finish_reason="stop"), ["response_finish_reason"]),
        (openai(message={"content": "text"}), ["response_content"]),
        (openai(message={"tool_calls": None}), ["response_tool_calls"]),
        (openai(message={"tool_calls": [{"function": {"name": "nobody"}}]}), ["no_contract"]),
        (openai(message={"tool_calls": [5]}), ["no_contract"]),
        (anthropic(stop_reason="end_turn"), ["response_finish_reason"]),
        (anthropic(content=[{"type": "text", "text": "hi"}]), ["response_tool_calls"]),
        (
            anthropic(content=[{"type": "text", "text": "hi"}, {"type": "tool_use", "name": "t"}]),
            ["response_content"],
        ),
        (anthropic(content=[{"type": "tool_use", "name": "free"}]), []),
        ({"choices": [{"message": 5}]}, ["response_unknown"]),
        (openai(message={"tool_calls": 5}), ["response_unknown"]),
        (openai(message={"tool_calls": {"function": {"name": "t"}}}), ["response_unknown"]),
        ({"choices": []}, ["response_unknown"]),
        ({}, ["response_unknown"]),
        (5, ["response_unknown"]),
    ],
)
def test_check_response(capsys: pytest.CaptureFixture[str], tmp_path: Path, response: Any, codes: list[str]) -> None:
    rules = {"finish_reason": "tool_calls", "content_when_tool_calls": "empty", "tool_calls_present": True}
    path = lay(tmp_path / "c", {"t": {"response_format_invariants": rules}, "free": {}})
    file = tmp_path / "r.json"
    file.write_text(json.dumps(response))
    code, out, _ = run(capsys, "check-response", str(file), "--contracts", path, "--json")
    assert [item["code"] for item in json.loads(out)] == codes
    assert code == (2 if codes else 0)


@pytest.mark.parametrize(
    ("provider", "request_", "found"),
    [
        (
            "anthropic",
            {"model": "claude-x-20250514", "tool_choice": {"type": "any"}, "thinking": {"budget": 1}},
            ["provider_incompatible"],
        ),
        (
            "anthropic",
            {"model": "claude-x-20250514", "tool_choice": {"type": "auto"}, "thinking": {"budget": 1}},
            [],
        ),
        ("anthropic", {"model": "claude-x-20250514", "tool_choice": "any", "thinking": False}, []),
        (
            "openai",
            {"model": "gpt-4o-mini", "parallel_tool_calls": False},
            ["provider_incompatible", "floating_alias"],
        ),
        (
            "openai",
            {"model": "gpt-4o-mini-2024-07-18", "parallel_tool_calls": False},
            ["provider_incompatible"],
        ),
        ("openai", {"model": "gpt-4o-2024-07-18", "parallel_tool_calls": False}, []),
        ("openai", {"model": "gpt-4o-mini-2024-07-18", "parallel_tool_calls": True}, []),
        ("openai", {}, ["floating_alias"]),
        ("openai", [], ["request_unknown"]),
        ("nobody", {}, ["provider_unknown"]),
    ],
)
def test_check_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, provider: str, request_: Any, found: list[str]
) -> None:
    file = tmp_path / "q.json"
    file.write_text(json.dumps(request_))
    where = ("--contracts", str(EXAMPLES / "session-sample"))
    code, out, _ = run(capsys, "check-request", str(file), "--provider", provider, *where)
    told = [line.split(": ")[1].split(" ")[0] for line in out.splitlines() if ": " in line]
    assert told == found
    errors = {"request_unknown", "provider_unknown"} | ({"provider_incompatible"} if provider == "anthropic" else set())
    assert code == (2 if errors & set(found) else 0)


def test_traffic_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "check-response", "nowhere", "--contracts", TRADING)[0] == 2
    (tmp_path / "x").write_text("{")
    assert run(capsys, "check-response", "x", "--contracts", TRADING)[0] == 2


def test_every_reason_of_a_decision_is_explained() -> None:
    import re

    root = Path(__file__).parents[2] / "threegate"
    sources = [*(root / "contracts").glob("*.py"), *(root / "launch").glob("*.py")]
    text = "\n".join(path.read_text() for path in sources)
    given = set(re.findall(r"Reason\(\s*[0-4],\s*\"([a-z_]+)\"", text)) | set(
        re.findall(r"block\([0-4], \"([a-z_]+)\"", text)
    )
    assert len(given) > 30 and given <= REASONS.keys(), given - REASONS.keys()
