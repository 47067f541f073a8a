"""edictum's public fixtures under our engine: what can be said, and that each verdict is theirs or a stricter one.

The fixtures stay where they come from. No package index has them, so this test runs where EDICTUM_SCHEMAS names a
checkout of github.com/edictum-ai/edictum-schemas at COMMIT; the mapping itself is tested everywhere.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contracts.edictum_rules import RANK, Mapped, NotExpressed

COMMIT = "7d4a73070f5641932bb028e28600f39bc9a14e61"
FIXTURES_SHA256 = "dffa7230a3cb199afd4ff6bb47c60a1a683afccd6e996a41aa3730d1ffb5d33c"
"""Over the names and bytes of the files below."""
STRICTER = {
    *("adv-cond-002", "adv-tool-001", "adv-tool-002"),  # a missing argument, a tool that nobody described
    *("bundle-002", "pre-allow-003", "sandbox-multi-003"),  # a person is asked
    *(
        "bundle-003",
        "post-warn-001",
        "post-warn-003",
        "sel-result-001",
        "tooldef-001",
        "tooldef-002",
    ),  # no mere warning
    "expr-nested-002",  # an exception from a rule, with another operator
}
NOT_EXPRESSED = {
    *("observe-001", "observe-002", "session-adv-005"),
    *("post-redact-001", "post-redact-002"),
    *("sel-env-001", "sel-env-002"),
    *("sel-metadata-001", "sel-metadata-002"),
    *("session-adv-001", "session-adv-002"),
    *("tags-001", "tags-002"),
}


def fixture_files() -> list[Path]:
    root = os.environ.get("EDICTUM_SCHEMAS")
    if not root:
        pytest.skip("no package index has edictum's fixtures; EDICTUM_SCHEMAS names no checkout of edictum-schemas")
    base = Path(root) / "fixtures"
    found = sorted([*base.glob("behavioral/*.fixtures.yaml"), *base.glob("adversarial/*.adversarial.yaml")])
    digest = hashlib.sha256()
    for path in found:
        digest.update(f"{path.relative_to(base)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    assert digest.hexdigest() == FIXTURES_SHA256, f"not the fixtures of {COMMIT}: {digest.hexdigest()}"
    return found


def test_each_verdict_is_theirs_or_a_stricter_one() -> None:
    count, equal, stricter, missing, weaker = 0, set(), set(), {}, {}
    for path in fixture_files():
        for fixture in yaml.safe_load(path.read_text())["fixtures"]:
            count += 1
            name, wanted = fixture["id"], fixture["expected"]["verdict"]
            try:
                ours = Mapped(fixture).verdict()
            except NotExpressed as reason:
                missing[name] = str(reason)
                continue
            if RANK[ours] < RANK[wanted]:
                weaker[name] = f"{wanted}, ours {ours}"
            else:
                (equal if ours == wanted else stricter).add(name)
    assert count == 122
    assert set(weaker) == {"adv-inject-002"}, weaker  # says `contains` is literal, and wants "$()" in "$(whoami)"
    assert set(missing) == NOT_EXPRESSED, missing
    assert stricter == STRICTER, stricter
    assert len(equal) + len(stricter) >= 105, len(equal)


def one(rule: dict[str, Any], arguments: dict[str, Any], **more: Any) -> str:
    rules = [{"id": "a", **rule}]
    ruleset = {"defaults": {"mode": "enforce"}, "rules": rules}
    envelope = {"tool_name": more.pop("called", "Run"), "arguments": arguments}
    return Mapped({"contract": ruleset, "envelope": envelope, "expected": {"verdict": "denied"}, **more}).verdict()


def pre(when: dict[str, Any], action: str = "block", tool: str = "Run") -> dict[str, Any]:
    return {"type": "pre", "tool": tool, "when": when, "then": {"action": action, "timeout": 40}}


def test_the_mapping_turns_rules_round() -> None:
    both = {"all": [{"args.a": {"equals": 1}}, {"args.b": {"gt": 5}}]}
    for when, allowed, denied in (
        ({"args.a": {"contains_any": ["x", "y"]}}, {"a": "z"}, {"a": "zy"}),
        ({"any": [{"args.a": {"gt": 5}}, {"args.b": {"exists": True}}]}, {"a": 5}, {"a": 5, "b": 1}),
        (both, {"a": 2, "b": 9}, {"a": 1, "b": 9}),
        (
            {"not": {"not": {"not": {"args.a.b": {"starts_with": "x"}}}}},
            {"a": {"b": "xy"}},
            {"a": {"b": "yx"}},
        ),
    ):
        assert one(pre(when), allowed) == "allowed" and one(pre(when), denied) == "denied", when
        assert one(pre(when, tool="R*"), denied) == "denied" and one(pre(when, tool="Q"), denied) == "allowed"


def test_the_mapping_asks_a_person_limits_a_session_and_keeps_a_sandbox() -> None:
    ask = pre({"args.a": {"equals": 1}}, "ask")
    assert one(ask, {"a": 2}) == "allowed" and one(ask, {"a": 1}) == "denied"
    assert one(ask, {"a": 1}, approval_decision="approved") == "allowed"
    assert one(ask, {"a": 1}, approval_decision="rejected") == "denied" == one(ask, {"a": 1}, timeout_expired=True)
    limit = {"type": "session", "limits": {"max_calls_per_tool": {"Run": 2}}}
    assert one(limit, {}, session={"per_tool": {"Run": 2}}) == "denied"
    assert one(limit, {}, session={"per_tool": {"Run": 1}, "tool_calls": 9}) == "allowed"
    box = {"type": "sandbox", "tool": "Run", "within": ["/srv"], "allows": {"commands": ["ls"]}}
    assert one(box, {"path": "/srv/a", "command": "ls -l"}) == "allowed"
    assert one(box, {"path": "/srv/../a", "command": "ls"}) == "denied"
    assert one(box, {"path": "/srv/a", "command": "ls;id"}) == "denied"


@pytest.mark.parametrize(
    "rule",
    [
        pre({"env.STAGE": {"equals": "live"}}),
        {**pre({"args.a": {"exists": True}}), "mode": "observe"},
        {"type": "post", "tool": "Run", "when": {"result.a": {"matches": "x"}}, "then": {"action": "redact"}},
        {"type": "session", "limits": {"max_attempts": 3}},
    ],
)
def test_the_mapping_says_what_it_cannot_say(rule: dict[str, Any]) -> None:
    with pytest.raises(NotExpressed):
        one(rule, {})
