"""Fixes: each one that is offered was read again and answers its finding; nothing secret, nothing invented."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.request import examples
from tests.request.examples import ERA, KEYS, MONTY, NAME, NOW, SETTINGS, era, ids, monty, request
from threegate.core.record import schema_of
from threegate.launch.results.verdict_schema import verdict_schema
from threegate.request import fixes
from threegate.request.fixes import MAKERS, Fixing, propose_fixes
from threegate.request.fixes.edit import apply_fixes
from threegate.request.gate_rules import RULES
from threegate.request.reader import read_request
from threegate.request.report import Fix, Report
from threegate.request.schema import ReportFix

FOUND = "b" * 64


def read(data: bytes, name: str = NAME) -> Report:
    return read_request(data, path=name, settings=SETTINGS, now=NOW, stage="draft")


def offered(text: str | bytes, name: str = NAME) -> tuple[Fix, ...]:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return propose_fixes(data, read(data, name), settings=SETTINGS, now=NOW)


def fix(text: str, name: str = NAME) -> tuple[str, Report]:
    """Apply what is offered until nothing more is, at most three times, as an agent would."""
    for _ in range(3):
        made = offered(text, name)
        text = apply_fixes(text, made)
        name = next((fix.text for fix in made if fix.op == "rename"), name)
        if not made:
            break
    return text, read(text.encode(), name)


def era_with(**sections: str) -> str:
    named = {name.replace("_", " "): text for name, text in sections.items()}
    return request(KEYS, {**ERA, **named})


def monty_with(code: str, variables: str = MONTY["Inputs (JSON)"]) -> str:
    return request({**KEYS, "backend": "monty"}, {**MONTY, "Code": code, "Inputs (JSON)": variables})


LISTED = {**KEYS, "inputs": f'\n  - name: data.csv\n    sha256: "{FOUND}"'}
FIXED = {
    "era-spelling": era(backend="era"),
    "network-off": era(network="off"),
    "network-case": era(network='"None"'),
    "limits": era(cpu_limit="64", memory_limit_mb='"100000"', time_limit_sec="0"),
    "half-a-second": era(time_limit_sec="0.5"),
    "domain": era(risk_domain="Finance"),
    "type": era(request_type="tool-request", schema_version="1.0"),
    "id": era(request_id="a b"),
    "time": era(created_utc="yesterday"),
    "padded": era(purpose="' padded '", requested_by='" me "'),
    "colon": era(purpose="Rank: the best first"),
    "anchor": era(purpose="&all of it"),
    "tag": era(purpose="!important"),
    "number": era(purpose="42"),
    "twice": era().replace("network: none\n", "network: none\nnetwork: none\n"),
    "key-spelling": era().replace("memory_limit_mb:", "Memory-Limit-MB:"),
    "missing": request({key: value for key, value in KEYS.items() if key in ("purpose", "requested_by")}),
    "approval": era(approved_by="ada"),
    "hash": request({**LISTED, "inputs": LISTED["inputs"].replace(FOUND, FOUND.upper())}, {**ERA, "Input Files": "\n- /in/data.csv\n"}),  # noqa: E501
    "url": request(
        {**KEYS, "network": "allowlist", "network_allowlist": "\n  - https://API.example.com/v1\n  - b.example.com"},
        {**ERA, "Risk Assessment": ERA["Risk Assessment"].replace("rationale: none", "rationale: fetches rates")},
    ),
    "byte-order-mark": "\ufeff" + era(),
    "lone-return": era() + "harmless\rdangerous\n",
    "hidden": era().replace("Rank the sales", "Rank\u200b the\ufe0f sales"),
    "many-hidden": era() + "\n".join("x\u200b" for _ in range(45)) + "\n",
    "blank-lines-first": "\n\n" + era(),
    "long-fence": "-" + era(),
    "dots-end": era().replace("\n---\n", "\n...\n"),
    "no-first-fence": era().removeprefix("---\n"),
    "windows": era(backend="era").replace("\n", "\r\n"),
    "heading": era().replace("## Input Files", "### input files:"),
    "heading-case": era().replace("## Risk Assessment", "## Risk assessment"),
    "no-lists": request(KEYS, {name: text for name, text in ERA.items() if name in ("Command", "Risk Assessment")}),
    "rule-line": era() + "\n---\n",
    "fenced-command": era_with(Command="\n```bash\npython3 a.py\n```\n"),
    "listed-command": era_with(Command="\n- python3 a.py\n"),
    "indented-command": era_with(Command="\n    python3 a.py\n"),
    "bare-code": monty_with("\nx = 1\n\nx + 1\n"),
    "tilde-code": monty_with("\n~~~py\nx = 1\n~~~\n"),
    "bare-values": monty_with(MONTY["Code"], '\n{"limit": 3}\n'),
    "javascript-values": monty_with(MONTY["Code"], '\n```js\n{"limit": 3}\n```\n'),
    "unlisted": request(LISTED, {**ERA, "Input Files": "\nnone\n"}),
    "missing-list": request(LISTED, {name: text for name, text in ERA.items() if name != "Input Files"}),
    "empty-list": request(LISTED, {**ERA, "Input Files": "\n"}),
    "half-listed": request(LISTED, {**ERA, "Input Files": "\n* data.csv\n"}),
    "bare-list": request(LISTED, {**ERA, "Input Files": "\nin/data.csv\n"}),
    "other-hash": request(LISTED, {**ERA, "Input Files": f"\n- /in/data.csv sha256:{'a' * 64}\n"}),
    "empty-lists": era_with(Input_Files="\n", Output_Expectations="\n"),
    "bare-output": era_with(Output_Expectations="\n- ranked.json the ranking\n"),
    "risk-case": era().replace("Risk level: low", "- **Risk level:** Low."),
}  # fmt: skip


@pytest.mark.parametrize("text", FIXED.values(), ids=FIXED)
def test_a_draft_passes_when_its_fixes_are_applied(text: str) -> None:
    assert not read(text.encode()).valid or read(text.encode()).findings
    fixed, report = fix(text)
    assert report.valid and ids(report) <= {"TG332"}, (report.findings, fixed)


UNFIXED = {
    "meaning": era(network="full", purpose='""', risk_domain="cooking"),
    "version": era(schema_version="2", request_type="result"),
    "null": era(requested_by="null"),
    "list": era(cpu_limit="[1]"),
    "unclosed": era(purpose='"unclosed'),
    "two-values": era(role="a").replace("role: a", "role: a\nrole: b"),
    "both-spellings": era().replace("purpose:", "Purpose: x\npurpose:"),
    "unknown": era(priority="high"),
    "escaped-hidden": era(purpose='"a\\u202eb"'),
    "no-end": "---\n" + "x\n" * 3,
    "short-hash": request({**KEYS, "inputs": "[{name: a, sha256: abc}]"}),
    "hosts": request({**KEYS, "network": "allowlist", "network_allowlist": "\n  - localhost\n  - '*.a.com'"}),
    "other-heading": era() + "\n# Title\n",
    "underlined": era() + "\nTitle\n=====\n",
    "missing-command": request(KEYS, {name: text for name, text in ERA.items() if name != "Command"}),
    "two-commands": era_with(Command="\nls\npwd\n"),
    "no-command": era_with(Command="\n"),
    "shell-code": monty_with("\n```bash\nls\n```\n"),
    "two-blocks": monty_with("\n```\nx\n```\n\n```\ny\n```\n"),
    "no-code": monty_with("\n"),
    "host-list": era_with(Input_Files="\n- /etc/passwd\n", Output_Expectations="\n- /etc/passwd\n"),
    "unlisted-file": request(LISTED, {**ERA, "Input Files": "\n- /in/data.csv\n- /in/other.csv\n"}),
    "risk": era().replace("Risk level: low", "Risk level: tiny"),
    "program": era_with(Command="\nsudo ls\n"),
}


@pytest.mark.parametrize("text", UNFIXED.values(), ids=UNFIXED)
def test_what_has_no_mechanical_answer_gets_none(text: str) -> None:
    report = read(text.encode())
    assert not report.valid
    wrong = {finding.rule for finding in report.findings}
    _, after = fix(text)
    assert not after.valid and wrong & {finding.rule for finding in after.findings}


def test_the_examples_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refused example: a fix answers its rule; those of rules without a maker get none of theirs."""
    seen: list[tuple[bytes, dict[str, Any]]] = []

    def spy(data: bytes, **more: Any) -> Report:
        seen.append((data, more))
        return read_request(data, **more)

    monkeypatch.setattr(examples, "read_request", spy)
    answered = set()
    for rule in RULES.values():
        for example in rule.refused:
            report = examples.read_example(rule, example)
            data, more = seen[-1]
            made = propose_fixes(data, report, settings=more["settings"], now=more["now"])
            answered.update(fix.rule for fix in made)
            assert {fix.rule for fix in made} <= MAKERS.keys()
            if made:
                name = next((fix.text for fix in made if fix.op == "rename"), more["path"])
                fixed = apply_fixes(data.decode(), made).encode()
                again = read_request(fixed, **{**more, "path": name})
                assert {(f.rule, f.line) for f in again.findings} != {(f.rule, f.line) for f in report.findings}
    left = "TG114 TG120 TG134 TG137 TG151 TG155 TG156 TG158 TG205 TG213 TG250 TG306 TG401".split()
    assert answered == MAKERS.keys() - set(left), "their examples have no mechanical answer"


def test_names() -> None:
    assert offered(era(), "TR-Rank Sales.md") == (Fix("TG101", "rename", 1, "TR-20261122-053000Z-rank-sales.md"),)
    assert offered(era(), "TR-20261122-050000Z-Rank.md") == (Fix("TG102", "rename", 1, "TR-20261122-050000Z-rank.md"),)
    assert offered(era(), "TR-20269922-050000Z-x.md")[:0] == ()
    assert offered(era(created_utc="x"), "TR-20269922-050000Z-x.md") == (
        Fix("TG133", "replace", 5, "created_utc: 2026-11-22T05:30:00Z"),
    )
    assert offered(era(request_id="x"), "-") == ()


def test_no_fix_for_a_file_with_a_secret_nor_one_that_would_show_one() -> None:
    key = "AKIA" + "QWERTYUIOPASDFGH"
    assert offered(era(backend="era", purpose=f"use {key}")) == ()
    assert offered(era(backend="era", purpose=f"use {key[:9]}\u200b{key[9:]}")) == ()
    assert offered(b"\xff" + era(backend="era").encode()) == ()


def test_a_maker_that_fails_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_draft: object, _finding: object) -> Any:
        raise RecursionError("x")

    assert offered(era(backend="era"))
    monkeypatch.setitem(fixes.MAKERS, "TG136", broken)
    assert offered(era(backend="era")) == ()


def test_a_fix_that_does_not_answer_its_finding_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_draft: object, finding: Any) -> Any:
        yield Fix(finding.rule, "replace", finding.line, "backend: docker")

    monkeypatch.setitem(fixes.MAKERS, "TG136", wrong)
    assert [fix.rule for fix in offered(era(backend="era", network="off"))] == ["TG138"]

    def unclosed(_draft: object, finding: Any) -> Any:
        yield Fix(finding.rule, "replace", finding.line, "purpose: b: c")

    monkeypatch.setitem(fixes.MAKERS, "TG110", unclosed)
    assert offered(era(purpose="a: b")) == ()


def test_two_fixes_never_speak_of_one_line() -> None:
    made = offered(era(purpose="&x \u200b"))
    lines = [fix.line for fix in made if fix.op != "insert"]
    assert len(lines) == len(set(lines))


@given(st.data())
def test_any_mutation_of_a_draft_is_mended_or_left(data: st.DataObject) -> None:
    """No maker fails on anything that a draft may become, and what is offered can be applied."""
    lines = data.draw(st.sampled_from([era(), monty(), *FIXED.values()])).split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(["drop", "double", "cut", "put"]))
        if change == "drop" and len(lines) > 1:
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        else:
            lines[at] += data.draw(st.sampled_from([": x", "\u200b", " ", "```", "---", "'", '"', "#", "\r", "é"]))
    text = "\n".join(lines).encode()
    report = read(text)
    made = Fixing(text.decode(), report, SETTINGS, NOW).fixes()
    assert all(1 <= fix.line <= len(lines) + text.count(b"\r") + 1 for fix in made)
    apply_fixes(text.decode(), made)


def test_a_fix_as_json_is_what_the_schema_says() -> None:
    (fix,) = offered(era(network="off"))
    assert fix.to_json() == {"rule": "TG138", "op": "replace", "line": 10, "text": "network: none"}
    jsonschema.validate(fix.to_json(), schema_of(ReportFix))


def test_the_schema_of_verdicts_is_published_and_is_one() -> None:
    schema = verdict_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    path = Path(__file__).parents[2] / "schemas" / "verdict.schema.json"
    assert json.loads(path.read_text()) == schema


def test_what_now_is_may_have_any_zone() -> None:
    data = era(created_utc="x").encode()
    now = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)
    report = read_request(data, path="TR-x.md", settings=SETTINGS, now=now, stage="draft")
    made = propose_fixes(data, report, settings=SETTINGS, now=now)
    assert [fix.op for fix in made] == ["rename", "replace"]
