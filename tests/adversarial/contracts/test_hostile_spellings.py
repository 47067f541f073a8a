"""Spellings that two readers read differently: no rule takes them, and no `not` of a rule does."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.contracts.material import call, codes, compiled, opened
from threegate.contracts import engine
from threegate.contracts.comparisons import Entry
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.state import Session
from threegate.core import limits

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = [
    "example.com",
    "*.example.org",
    "10.0.0.1",
    "[2001:db8::1]",
    "xn--bcher-kva.example",
    "example.net:8443",
]
DATA = "/srv/data"
YES, NO, UNKNOWN = True, False, None

SPELLINGS: list[tuple[str, Any, Any, bool | None]] = [
    # ---- paths
    ("under", DATA, "/srv/data/a", YES),
    ("under", DATA, "/srv/data/a/", YES),
    ("under", DATA, "/srv/data/./a", YES),
    ("under", DATA, "/srv/data", YES),
    ("under", DATA, "/srv/data/", YES),
    ("under", DATA, "/srv/data/.hidden/...", YES),
    ("under", DATA, "/srv/data/caf\u00e9", YES),
    ("under", DATA, "/srv/data-of-others/a", NO),
    ("under", DATA, "/srv/Data/a", NO),
    ("under", DATA, "/srv", NO),
    ("under", DATA, "/", NO),
    ("under", DATA, "/etc/passwd", NO),
    ("under", "/", "/etc/passwd", YES),
    ("under", ".", "a/b", YES),
    ("under", ".", ".", YES),
    ("under", "docs", ".", NO),
    ("under", ".", "/a", UNKNOWN),
    ("under", "docs", "docsx/a", NO),
    ("under", "docs", "/docs/a", UNKNOWN),
    ("under", DATA, "srv/data/a", UNKNOWN),
    ("under", DATA, "./srv/data/a", UNKNOWN),
    ("under", DATA, "", UNKNOWN),
    ("under", DATA, "/srv/data/../../etc/passwd", UNKNOWN),
    ("under", DATA, "/srv/data/a/../b", UNKNOWN),
    ("under", DATA, "/srv/data/..", UNKNOWN),
    ("under", DATA, "../srv/data", UNKNOWN),
    ("under", DATA, "..", UNKNOWN),
    ("under", DATA, "//srv/data/a", UNKNOWN),
    ("under", DATA, "/srv//data/a", UNKNOWN),
    ("under", DATA, "/srv/data/%2e%2e/%2e%2e/etc", UNKNOWN),
    ("under", DATA, "/srv/data/%252e%252e", UNKNOWN),
    ("under", DATA, "/srv/data/..\\..\\etc", UNKNOWN),
    ("under", DATA, "\\srv\\data\\a", UNKNOWN),
    ("under", DATA, "/srv/data/a\x00.txt", UNKNOWN),
    ("under", DATA, "/srv/data/a\n/etc", UNKNOWN),
    ("under", DATA, "/srv/data/\t", UNKNOWN),
    ("under", DATA, "/srv/data/\u202etxt.exe", UNKNOWN),
    ("under", DATA, "/srv/data/\u200b..", UNKNOWN),
    ("under", DATA, "/srv/data/cafe\u0301", UNKNOWN),
    ("under", DATA, "/srv/data/\ud800", UNKNOWN),
    ("under", DATA, "~/../srv/data", UNKNOWN),
    ("under", DATA, "~root/a", UNKNOWN),
    ("under", DATA, "/srv/data/$HOME", UNKNOWN),
    ("under", DATA, "file:///srv/data/a", UNKNOWN),
    ("under", DATA, "/srv/data/" + "a" * limits.CONTRACT_PATH_CHARS, UNKNOWN),
    ("under", DATA, ["/srv/data/a"], UNKNOWN),
    ("under", ["docs", DATA], "/srv/data/a", YES),
    ("under", ["docs", DATA], "/etc", UNKNOWN),
    ("glob", "/srv/*.md", "/srv/a.md", YES),
    ("glob", "/srv/*.md", "/srv/.md", NO),
    ("glob", "/srv/*.md", "/srv/a/b.md", NO),
    ("glob", "/srv/**.md", "/srv/a/b.md", YES),
    ("glob", "/srv/**", "/srv/", NO),
    ("glob", "/srv/?", "/srv/\u00e9", YES),
    ("glob", "acme/*", "acme/x", YES),
    ("glob", "acme/*", "acme/x/y", NO),
    ("glob", "a+b(c|d)[e].*", "a+b(c|d)[e].x", YES),
    ("glob", "a.c*", "abcd", NO),
    ("glob", "/srv/**", "/srv/.", UNKNOWN),
    ("glob", "/srv/**", "/srv/a/../../etc", UNKNOWN),
    ("glob", "/srv/**", "/srv//etc", UNKNOWN),
    ("glob", "/srv/**", "/srv/%2e%2e/etc", UNKNOWN),
    ("glob", "/srv/**", "/srv/a\\..\\b", UNKNOWN),
    ("glob", "/srv/**", "/srv/a\nb", UNKNOWN),
    ("glob", "/srv/**", "/srv/e\u0301", UNKNOWN),
    ("glob", "/srv/**", 5, UNKNOWN),
    # ---- beginnings and ends
    ("starts_with", "git ", "git status", YES),
    ("starts_with", "git ", "Git status", NO),
    ("starts_with", "git ", " git status", NO),
    ("starts_with", "git ", "git status\nrm -rf /", UNKNOWN),
    ("starts_with", "git ", "git \u2066x", UNKNOWN),
    ("starts_with", "caf\u00e9", "cafe\u0301s", UNKNOWN),
    ("starts_with", "git ", None, UNKNOWN),
    ("ends_with", ".md", "a.md", YES),
    ("ends_with", ".md", "a.md\n", UNKNOWN),
    ("ends_with", ".md", "a.exe\r.md", UNKNOWN),
    ("ends_with", ".md", "a.MD", NO),
    # ---- hosts
    ("host_in", HOSTS, "example.com", YES),
    ("host_in", HOSTS, "EXAMPLE.com", YES),
    ("host_in", HOSTS, "https://example.com", YES),
    ("host_in", HOSTS, "HTTPS://Example.COM/a?b#c", YES),
    ("host_in", HOSTS, "https://example.com:443/", YES),
    ("host_in", HOSTS, "http://example.com:80/", YES),
    ("host_in", HOSTS, "wss://example.com/caf\u00e9", YES),
    ("host_in", HOSTS, "https://a.b.example.org", YES),
    ("host_in", HOSTS, "https://example.com?@evil.example", YES),
    ("host_in", HOSTS, "https://example.com#@evil.example", YES),
    ("host_in", HOSTS, "https://10.0.0.1/", YES),
    ("host_in", HOSTS, "https://[2001:db8::1]/", YES),
    ("host_in", HOSTS, "https://[2001:DB8:0:0::0:1]:443/", YES),
    ("host_in", HOSTS, "https://xn--bcher-kva.example/", YES),
    ("host_in", HOSTS, "https://example.net:8443/", YES),
    ("host_in", HOSTS, "example.net:8443", YES),
    ("host_in", HOSTS, "https://evil.example/", NO),
    ("host_in", HOSTS, "https://example.com.evil.example/", NO),
    ("host_in", HOSTS, "https://evil-example.com/", NO),
    ("host_in", HOSTS, "https://example.org/", NO),
    ("host_in", HOSTS, "https://evilexample.org/", NO),
    ("host_in", HOSTS, "localhost", NO),
    ("host_in", HOSTS, "https://example.net/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com:8443/", UNKNOWN),
    ("host_in", HOSTS, "https://a.example.org:8443/", UNKNOWN),
    ("host_in", HOSTS, "example.com:443", UNKNOWN),
    ("host_in", HOSTS, "https://example.com:/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com:0443/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com:65536/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com:443@evil.example/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com@evil.example/", UNKNOWN),
    ("host_in", HOSTS, "https://user:pass@example.com/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com./", UNKNOWN),
    ("host_in", HOSTS, "https://example..com/", UNKNOWN),
    ("host_in", HOSTS, "https://example%2ecom/", UNKNOWN),
    ("host_in", HOSTS, "https://evil.example\\@example.com/", UNKNOWN),
    ("host_in", HOSTS, "https:\\\\example.com/", UNKNOWN),
    ("host_in", HOSTS, "https:/example.com/", UNKNOWN),
    ("host_in", HOSTS, "https:///example.com/", UNKNOWN),
    ("host_in", HOSTS, "//example.com/", UNKNOWN),
    ("host_in", HOSTS, "example.com/a", UNKNOWN),
    ("host_in", HOSTS, "ftp://example.com/", UNKNOWN),
    ("host_in", HOSTS, "javascript://example.com/%0aalert(1)", UNKNOWN),
    ("host_in", HOSTS, " https://example.com/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com/ x", UNKNOWN),
    ("host_in", HOSTS, "https://exam\nple.com/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com/\r\nHost: evil", UNKNOWN),
    ("host_in", HOSTS, "https://ex\u0430mple.com/", UNKNOWN),
    ("host_in", HOSTS, "https://\uff45xample.com/", UNKNOWN),
    ("host_in", HOSTS, "https://example\u3002com/", UNKNOWN),
    ("host_in", HOSTS, "https://b\u00fccher.example/", UNKNOWN),
    ("host_in", HOSTS, "https://xn--evil-kva.example/", UNKNOWN),
    ("host_in", HOSTS, "https://xn--evil-kva.example.org/", UNKNOWN),
    ("host_in", HOSTS, "https://10.0.0.2/", UNKNOWN),
    ("host_in", HOSTS, "https://10.0.1/", UNKNOWN),
    ("host_in", HOSTS, "https://010.0.0.1/", UNKNOWN),
    ("host_in", HOSTS, "https://167772161/", UNKNOWN),
    ("host_in", HOSTS, "https://0xa000001/", UNKNOWN),
    ("host_in", HOSTS, "https://0x0a.0.0.0x1/", UNKNOWN),
    ("host_in", HOSTS, "https://10.0.0.1./", UNKNOWN),
    ("host_in", HOSTS, "https://[::ffff:10.0.0.1]/", UNKNOWN),
    ("host_in", HOSTS, "https://[2001:db8::2]/", UNKNOWN),
    ("host_in", HOSTS, "https://[2001:db8::1%eth0]/", UNKNOWN),
    ("host_in", HOSTS, "https://[2001:db8::1/", UNKNOWN),
    ("host_in", HOSTS, "https://[2001:db8::1]x/", UNKNOWN),
    ("host_in", HOSTS, "https://[]/", UNKNOWN),
    ("host_in", HOSTS, "2001:db8::1", UNKNOWN),
    ("host_in", HOSTS, "https://-example.com/", UNKNOWN),
    ("host_in", HOSTS, "https://" + "a." * 127 + "example.org/", UNKNOWN),
    ("host_in", HOSTS, "https://example.com/" + "a" * limits.CONTRACT_PATH_CHARS, UNKNOWN),
    ("host_in", HOSTS, "", UNKNOWN),
    ("host_in", HOSTS, ["example.com"], UNKNOWN),
    # ---- e-mail addresses
    ("email_domain_in", ["example.com"], "a.b-c_d+e=f@example.com", YES),
    ("email_domain_in", ["example.com"], "a@Example.COM", YES),
    ("email_domain_in", ["example.com"], "a@evil.example", NO),
    ("email_domain_in", ["example.com"], "a@example.com.evil.example", NO),
    ("email_domain_in", ["example.com"], "a@sub.example.com", NO),
    ("email_domain_in", ["*.example.com"], "a@sub.example.com", YES),
    ("email_domain_in", ["*.example.com"], "a@example.com", NO),
    ("email_domain_in", ["example.com"], "a@example.com.", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@evil.example@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], '"a@evil.example"@example.com', UNKNOWN),
    ("email_domain_in", ["example.com"], "A <a@example.com>", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@example.com, b@evil.example", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@example.com,b@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a%evil.example@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "evil.example!a@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a(c)@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a..b@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@example.com:25", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@[10.0.0.1]", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@10.0.0.1", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@xn--exmple-cua.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@ex\u0430mple.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "\u00e9@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], "a@example.com\nBcc: b@evil.example", UNKNOWN),
    ("email_domain_in", ["example.com"], "a" * limits.CONTRACT_PATH_CHARS + "@example.com", UNKNOWN),
    ("email_domain_in", ["example.com"], {"a": 1}, UNKNOWN),
]  # fmt: skip


def session(entry: dict[str, Any]) -> Session:
    return opened({"t": {"schema_version": "1.1", "argument_value_invariants": [{"path": "$.a", **entry}]}})


def allows(entry: dict[str, Any], value: Any) -> bool:
    return engine.decide(session(entry), call({"a": value}), NOW).verdict == "allow"


@pytest.mark.parametrize(("operator", "operand", "value", "holds"), SPELLINGS)
def test_a_rule_takes_only_what_holds_and_its_not_only_what_does_not(
    operator: str, operand: Any, value: Any, holds: bool | None
) -> None:
    assert allows({operator: operand}, value) is (holds is True)
    assert allows({"not": {operator: operand}}, value) is (holds is False)


@pytest.mark.parametrize("operand", ["a\\b", "/a/%2e", "/a//b", "~/a", "/a/..", "/a\x07", "/cafe\u0301", "$X", ""])
def test_a_folder_in_a_spelling_that_is_never_judged_is_no_operand(operand: str) -> None:
    spec = {"t": {"schema_version": "1.1", "argument_value_invariants": [{"path": "$.a", "under": operand}]}}
    assert codes(spec) == ["BAD_OPERAND" if operand else "BAD_TYPE"]


def test_what_an_environment_variable_says_is_never_shown_by_a_not() -> None:
    rule = {"path": "$.a", "not": {"equals_env": "STAGE"}}
    for more in ({}, {"type": "string"}):
        spec = {"t": {"schema_version": "1.1", "execution_constraints": {"arguments": [{**rule, **more}]}}}
        decision = engine.decide(opened(spec), call({"a": "live"}), NOW)
        assert decision.verdict == "block" and "live" not in str(decision.to_json())
    assert compiled(spec).variables == ("STAGE",)


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        ("contains", "a" * 499 + "b"), ("starts_with", "a" * 1000), ("ends_with", "a" * 1000), ("glob", "*a*a*a*a*a*a*b"),  # noqa: E501
        ("under", "/a/a/a/a"), ("host_in", HOSTS), ("email_domain_in", ["example.com"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "unit", ["a", "/a", "a.", "\u0301", "\u0323\u0301", "\u0301\u0323", "e\u0301", "@a", "a@", "[:"]
)
def test_a_million_characters_are_judged_at_once(operator: str, operand: Any, unit: str) -> None:
    value = unit * (1_000_000 // len(unit))
    for entry in ({operator: operand}, {"not": {operator: operand}}):
        judged = session(entry)
        started = time.process_time()
        engine.decide(judged, call({"a": value}), NOW)
        assert time.process_time() - started < 2


def test_an_argument_that_is_held_against_another_one_holds_nothing_back_by_being_unclear() -> None:
    """What would hold something back matches on an argument that cannot be compared, and on one that is equal."""
    for operators in ({"equals_arg": "$.b"}, {"equals_arg": "$.b", "type": "string"}):
        entry = Entry(compile_path("$.a"), operators)
        assert entry.matches({"a": "x", "b": "x"}) and entry.matches({"a": "x"}) and entry.matches({"b": "x"})
        assert entry.matches({"a": "x", "b": "x\u200b"}) and not entry.matches({"a": "x", "b": "y"})


def test_more_values_than_are_looked_at_equal_no_argument() -> None:
    wide = {"a": 1, "many": [{}] * (limits.CONTRACT_JSONPATH_NODES + 1), "b": 1}
    assert not allows({"equals_arg": "$..b"}, 1)
    spec = {"t": {"schema_version": "1.1", "argument_value_invariants": [{"path": "$.a", "equals_arg": "$..b"}]}}
    assert engine.decide(opened(spec), call({"a": 1, "b": 1}), NOW).verdict == "allow"
    assert engine.decide(opened(spec), call(wide), NOW).verdict == "block"
