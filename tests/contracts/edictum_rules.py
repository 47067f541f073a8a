"""edictum's rulesets, written as contracts: what its public fixtures say, in our language.

A ruleset says what is blocked, a contract says what must hold, so every rule is turned round. Where only something
stricter can be said (one side of an `all`, a person who is always asked), that is what is said; NotExpressed for what
would come out weaker, or would mean something else.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.contracts.material import TOOL, compiled
from threegate.contracts.play import Play

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
OTHER: Final = "other_tool"
PATHS: Final = ("file_path", "path", "working_directory")
RANK: Final = {"allowed": 0, "warned": 1, "denied": 2}
_POSITIVE: Final = {
    "equals": "equals",
    "in": "one_of",
    "contains": "contains",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    "matches": "regex",
    "gte": "gte",
    "lte": "lte",
}
_NEGATIVE: Final = {"not_equals": "equals", "not_in": "one_of", "gt": "lte", "lt": "gte"}
_MANY: Final = {"contains_any": "contains", "matches_any": "matches"}


class NotExpressed(Exception):
    """The contract language has no rule that is as strict."""


def _leaf(condition: Mapping[str, Any]) -> tuple[str, str, Any]:
    ((selector, test),) = condition.items()
    ((operator, operand),) = test.items()
    return selector, operator, operand


def _deny(condition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(selector, operators) that must all hold, so that `condition` does not."""
    if "any" in condition:
        for item in condition["any"]:
            yield from _deny(item)
        return
    if "all" in condition:
        yield from _deny(condition["all"][0])  # stricter: one side never holds
        return
    if "not" in condition:
        yield from _require(condition["not"])
        return
    selector, operator, operand = _leaf(condition)
    if operator in _MANY:
        for item in operand:
            yield from _deny({selector: {_MANY[operator]: item}})
    elif operator == "exists":
        yield selector, {"exists": not operand}
    elif operator in _NEGATIVE:
        yield selector, {_NEGATIVE[operator]: operand}
    else:
        yield selector, {"not": {_POSITIVE[operator]: operand}}


def _require(condition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(selector, operators) that must all hold, so that `condition` does."""
    if "not" in condition:
        yield from _deny(condition["not"])
        return
    selector, operator, operand = _leaf(condition)
    yield selector, {_POSITIVE[operator]: operand}


def _path(selector: str) -> str:
    return "$." + selector.partition(".")[2]


class Mapped:
    """The contracts of one fixture."""

    def __init__(self, fixture: Mapping[str, Any]) -> None:
        """Raises NotExpressed."""
        self.fixture = fixture
        self.ruleset = fixture["contract"]
        self.called = fixture["envelope"]["tool_name"]
        rules = [rule for rule in self.ruleset["rules"] if rule.get("enabled", True)]
        if self.ruleset["defaults"]["mode"] == "observe" or any("mode" in rule for rule in rules):
            raise NotExpressed("a single rule, or a part of the rules, that only observes")
        if "tags" in fixture["expected"]:
            raise NotExpressed("tags on a verdict")
        named = [name for rule in rules for name in _tools(rule) if TOOL_NAME.fullmatch(name)]
        known = {OTHER, *named, *([self.called] if TOOL_NAME.fullmatch(self.called) else ())}
        self.spec: dict[str, Any] = {name: self._tool() for name in known}
        self.timeout = 0.0
        limits: dict[str, Any] = {}
        for rule in rules:
            if rule["type"] == "session":
                if "max_attempts" in rule["limits"]:
                    raise NotExpressed("a limit over attempts, the blocked ones included")
                limits.update(rule["limits"])
                for name in rule["limits"].get("max_calls_per_tool", {}):
                    self.spec.setdefault(name, self._tool())
                continue
            for name in known:
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in _tools(rule)):
                    self._add(self.spec[name], rule)
        self.spec["session"] = {"session_limits": limits}

    def _tool(self) -> dict[str, Any]:
        return {
            **{key: value for key, value in TOOL.items() if key != "assertions"},
            "schema_version": "1.1",
            "gate": "allow",
            "execution_constraints": {"arguments": []},
            "assertions": {"input_invariants": [], "output_invariants": []},
            "policy": {"deny": []},
        }

    def _add(self, tool: dict[str, Any], rule: Mapping[str, Any]) -> None:
        arguments = tool["execution_constraints"]["arguments"]
        if rule["type"] == "sandbox":
            if rule.get("outside") == "approve":
                self._ask(tool, rule, "always")
            else:
                arguments.extend(self._sandbox(rule))
            return
        then = rule["then"]
        if then["action"] == "redact":
            raise NotExpressed("a part of an output that is cut out")
        if then["action"] == "ask":
            selector, operator, operand = _leaf(rule["when"])
            name = _POSITIVE.get(operator)
            exact = selector.startswith("args.") and name in ("equals", "one_of", "gte", "lte")
            self._ask(tool, then, [{"path": _path(selector), str(name): operand}] if exact else "always")
            return
        for selector, operators in _deny(rule["when"]):
            kind = selector.partition(".")[0]
            if kind == "args":
                arguments.append({"path": _path(selector), **operators})
            elif kind == "result":
                tool["assertions"]["output_invariants"].append({"path": _path(selector), **operators})
            elif kind == "principal" and set(operators) == {"not"}:
                tool["policy"]["deny"].append({"principal": {"path": _path(selector), **operators["not"]}})
            else:
                raise NotExpressed(f"a rule about {kind}.*")

    def _ask(self, tool: dict[str, Any], rule: Mapping[str, Any], when: Any) -> None:
        self.timeout = max(30.0, rule.get("timeout", 300))
        silence = {"block": "deny", "allow": "allow"}[rule.get("timeout_effect", "block")]
        tool["checkpoint"] = {"when": when, "timeout_seconds": self.timeout, "on_timeout": silence}

    def _sandbox(self, rule: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        allows, refuses = rule.get("allows", {}), rule.get("not_allows", {})
        for name in PATHS:
            if name in self.fixture["envelope"]["arguments"]:
                yield {"path": f"$.{name}", "under": rule["within"]}
                if "not_within" in rule:
                    yield {"path": f"$.{name}", "not": {"under": rule["not_within"]}}
        if "commands" in allows:  # plain words only: nothing that a shell would read as more
            words = "|".join(map(re.escape, allows["commands"]))
            yield {"path": "$.command", "regex": rf"^(?:{words})(?: [A-Za-z0-9_./=:@+-]+)*$"}
        if "domains" in allows and "*" not in allows["domains"]:
            yield {"path": "$.url", "host_in": allows["domains"]}
        if "domains" in refuses:
            hosts = [host for name in refuses["domains"] for host in (name, f"*.{name}")]
            yield {"path": "$.url", "not": {"host_in": hosts}}

    def verdict(self) -> str:
        """What the engine says of the fixture's call: allowed, or denied (also: a person is asked first)."""
        play = Play(compiled(self.spec, permit_timeout_allow=True))
        fixture = self.fixture
        before = fixture.get("session", {})
        earlier = [name for name, number in before.get("per_tool", {}).items() for _ in range(number)]
        earlier += [OTHER] * (before.get("tool_calls", 0) - len(earlier))
        for name in earlier:
            play.line({"tool": name, "arguments": {}, "principal": {}, "outcome": "succeeded"})
        line: dict[str, Any] = {"tool": self.called, "arguments": fixture["envelope"]["arguments"]}
        line["principal"] = fixture.get("principal", {})
        line["outcome"] = {"status": "succeeded", "output": fixture.get("result", {})}
        if "approval_decision" in fixture:
            line["answer"] = {"approved": "approve", "rejected": "deny"}[fixture["approval_decision"]]
            line.update(asked=0, at=1)
        if fixture.get("timeout_expired"):
            line.update(asked=0, at=self.timeout + 1)
        played = play.line(line)
        passed = played.decision is not None and played.decision.verdict == "allow"
        passed = passed and (played.effect is None or played.effect.status == "committed")
        return "allowed" if passed else "denied"


def _tools(rule: Mapping[str, Any]) -> list[str]:
    return rule.get("tools") or [rule["tool"]] if rule["type"] != "session" else []
