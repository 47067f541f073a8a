"""Events near 64 KiB that are made to be slow: for patterns, for the walk, for negation, for masks."""

from __future__ import annotations

from typing import Any

from tests.aana import generated

_SIZE = 64_000


def _event(**changes: Any) -> dict[str, Any]:
    return {
        "tool_name": "read_page",
        "tool_category": "private_read",
        "authorization_state": "confirmed",
        "evidence_refs": [{"source_id": "a", "kind": "approval", "trust_tier": "verified"}],
        "risk_domain": "finance",
        "proposed_arguments": {},
        "recommended_route": "accept",
        **changes,
    }


def _summary(unit: str, **changes: Any) -> dict[str, Any]:
    ref = {
        "source_id": "a",
        "kind": "approval",
        "trust_tier": "verified",
        "freshness": {"status": "fresh"},
        "summary": (unit * _SIZE)[:_SIZE],
        **changes,
    }
    return _event(evidence_refs=[ref])


def _arguments(unit: str) -> dict[str, Any]:
    return _event(proposed_arguments={"note": (unit * _SIZE)[:_SIZE]})


def _nested() -> dict[str, Any]:
    value: Any = "x"
    for _ in range(60):
        value = {"k": value}
    return _event(proposed_arguments={str(number): value for number in range(160)})


WORST_CASES: dict[str, dict[str, Any]] = {
    "summary: one letter": _summary("a"),
    "summary: mail without end": _summary("a.b-c+"),
    "summary: at signs": _summary("a@a.a@"),
    "summary: digits": _summary("1"),
    "summary: digits and spaces": _summary("1 "),
    "summary: digit, long gaps": _summary("1" + " " * 500),
    "summary: cards": _summary("4111 1111 1111 1111 "),
    "summary: phones": _summary("415-555-0134 "),
    "summary: colons": _summary("password:"),
    "summary: key words": _summary("token = "),
    "summary: slashes": _summary("/"),
    "summary: sk-": _summary("sk-"),
    "summary: short keys": _summary("sk-abcdefghijkl "),
    "summary: eyJ": _summary("eyJ"),
    "summary: jwt dots": _summary("eyJa."),
    "summary: hyphens": _summary("-----BEGIN "),
    "summary: not": _summary("not "),
    "summary: confirmed": _summary("confirmed "),
    "summary: confirmed, not": _summary("confirmed,not "),
    "summary: clauses": _summary(". "),
    "summary: semicolons": _summary("no;"),
    "summary: n't": _summary("n't"),
    "summary: un": _summary("un"),
    "summary: missing authorization, nearly": _summary("missing a b auth "),
    "summary: authorization is is is": _summary("authorization is is "),
    "summary: no further a a": _summary("not no further a a "),
    "summary: the tool's name": _summary("b" * 50 + " ", kind="tool_result")
    | {"tool_name": "b" * 49, "authorization_state": "confirmed"},
    "summary: confirmed of a long name": _summary("confirmed a ", kind="audit_record")
    | {"tool_name": "a confirmed " * 100},
    "summary: questions": _summary("?"),
    "summary: no further confirmation needed": _summary("no further confirmation needed "),
    "summary: stems": _summary("noconfirmauthent"),
    "summary: astral": _summary("\U0001f600") | {"proposed_arguments": {}},
    "summary: combining": _summary("e\u0301"),
    "summary: surrogates": _summary("\ud800"),
    "arguments: letters": _arguments("a"),
    "arguments: password=": _arguments("password="),
    "arguments: password words": _arguments("password secret token "),
    "arguments: urls": _arguments("http://a:b@"),
    "arguments: quotes": _arguments("\"'"),
    "arguments: aws": _arguments("aws_secret_key "),
    "arguments: many secrets": _arguments(generated.SECRETS[0] + " "),
    "arguments: AKIA": _arguments("AKIA"),
    "arguments: base64": _arguments("QUtJ"),
    "arguments: list words": _event(
        tool_category="public_read", tool_name="get_customer", proposed_arguments={"q": "sea list " * 7000}
    ),
    "arguments: many keys": _event(proposed_arguments={f"accountI{number}": number for number in range(3800)}),
    "arguments: many keys, public": _event(
        tool_category="public_read",
        proposed_arguments={f"AccountI{number}": number for number in range(3800)},
    ),
    "arguments: many nulls": _event(proposed_arguments={"a": [None] * 13_000}),
    "arguments: many lists": _event(proposed_arguments={"a": [[] for _ in range(20_000)]}),
    "arguments: deep": _nested(),
    "evidence: many strings": _event(evidence_refs=["a"] * 15_000),
    "evidence: many objects": _event(evidence_refs=[{"source_id": "a"}] * 3300),
    "evidence: many approvals, denied": _event(
        evidence_refs=[{"source_id": "a", "kind": "approval", "summary": "not confirmed"}] * 850
    ),
    "evidence: many leaks": _event(
        evidence_refs=[{"source_id": "a", "summary": "jane.doe@example.com 123-45-6789"}] * 950
    ),
    "evidence: many mails": _event(evidence_refs=["jane.doe@example.com"] * 2600),
    "name: long": _event(tool_name="aB" * 31_000, tool_category="public_read"),
    "name: digits": _event(tool_name="1 " * 31_000, user_intent=generated.SECRETS[0]),
    "malformed: many unknown keys": {f"k{number}": 0 for number in range(6500)},
    "malformed: many bad references": _event(evidence_refs=[0] * 20_000),
}
