"""`threegate contracts test`: golden cases and scenario files, and the rules that none of them reached.

A scenario file `*.test.yaml` is ``{scenarios: [{name, principal?, calls: [CALL + {expect, code?, codes?,
outcome_is?}]}]}``. Invariant: a case passes only if verdict and codes are exactly those that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from threegate.contracts.compiled import Compiled
from threegate.contracts.compiler import folder_of
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import read_document
from threegate.contracts.engine import check_alone
from threegate.contracts.json_paths import MISSING
from threegate.contracts.model_tool import GoldenCase
from threegate.contracts.play import Play
from threegate.contracts.state import Reason
from threegate.contracts.tool_names import resolve
from threegate.contracts.tool_rules import Rules, ToolRules
from threegate.core.errors import InvalidInput

EXPECT_KEYS = frozenset({"expect", "code", "codes", "outcome_is", "why"})
_SCENARIO_KEYS = frozenset({"name", "principal", "calls"})


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: its location, and what is wrong with it (empty if it passed)."""

    file: str
    name: str
    problem: str = ""


@dataclass(slots=True)
class TestReport:
    """All cases of a folder, and the rules that none of them reached."""

    __test__ = False
    results: list[CaseResult] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return not any(result.problem for result in self.results)


def run_tests(compiled: Compiled, files: Mapping[str, bytes]) -> TestReport:
    """Run every golden case and every scenario file of a folder that compiles."""
    report = TestReport()
    reached: set[tuple[str, str, str]] = set()
    played: set[int] = set()
    for rules in (compiled.rules, *compiled.sessions.values()):
        for name, plan in sorted(rules.plans.items()):
            if id(plan.contract) not in played:
                played.add(id(plan.contract))
                for case in plan.contract.golden_cases:
                    report.results.append(_golden(compiled, rules, name, case, reached))
    for name in compiled.scenario_files:
        report.results.extend(run_file(compiled, name, files[name], reached))
    report.unreached = [
        f"{tool}: {code} at {path}" if path else f"{tool}: {code}"
        for tool, code, path in sorted(rules_in(compiled))
        if (tool, code, path) not in reached
    ]
    return report


def _golden(
    compiled: Compiled, rules: Rules, tool: str, case: GoldenCase, reached: set[tuple[str, str, str]]
) -> CaseResult:
    """A golden case: the tool's own rules, without the state of a session."""
    arguments = case.arguments if case.input_ref is None else compiled.case_inputs[case.input_ref]
    output = case.output if "output" in case.model_fields_set else MISSING
    reasons = check_alone(rules, tool, arguments or {}, case.principal, output)
    _reach(reached, tool, reasons)
    codes = [reason.code for reason in reasons]
    problem = ""
    if case.expect_ok and codes:
        problem = f"expected to be allowed, but {_told(reasons)}"
    elif not case.expect_ok and not codes:
        problem = "expected to be blocked, but it is allowed"
    elif case.expected_error is not None and case.expected_error not in codes:
        problem = f"expected {case.expected_error}, but {_told(reasons)}"
    return CaseResult(f"{folder_of(rules.file)}{tool}.yaml", case.id, problem)


def run_file(
    compiled: Compiled, file: str, data: bytes, reached: set[tuple[str, str, str]] | None = None
) -> Iterator[CaseResult]:
    """Run one scenario file; an error in the file is a case that fails."""
    document = read_document(file, data)
    if isinstance(document, Diagnostic):
        yield CaseResult(file, f"line {document.line}", document.message)
        return
    scenarios = document.value.get("scenarios") if isinstance(document.value, dict) else None
    if not isinstance(scenarios, list) or set(document.value) != {"scenarios"}:
        yield CaseResult(file, "line 1", "a scenario file is {scenarios: [...]}")
        return
    for index, scenario in enumerate(scenarios):
        if (
            not isinstance(scenario, dict)
            or set(scenario) - _SCENARIO_KEYS
            or not isinstance(scenario.get("calls"), list)
        ):
            line, _ = document.place(("scenarios", index))
            yield CaseResult(file, f"line {line}", "a scenario is {name, principal?, calls: [...]}")
            continue
        play = Play(compiled)
        for number, line_value in enumerate(scenario["calls"]):
            line, _ = document.place(("scenarios", index, "calls", number))
            name = f"{scenario.get('name', index)}, call {number + 1} (line {line})"
            try:
                problem = play_line(play, scenario, line_value, reached if reached is not None else set())
            except InvalidInput as mistake:
                problem = str(mistake)
            yield CaseResult(file, name, problem)


def play_line(play: Play, scenario: Mapping[str, Any], value: Any, reached: set[tuple[str, str, str]]) -> str:
    """Run one call of a scenario; return what is wrong with it."""
    if not isinstance(value, dict):
        raise InvalidInput("a call is a mapping")
    wanted = value.get("codes", [value["code"]] if "code" in value else None)
    if wanted is not None and not (isinstance(wanted, list) and all(isinstance(item, str) for item in wanted)):
        raise InvalidInput("code is one reason code, codes a list of them")
    line = {key: item for key, item in value.items() if key not in EXPECT_KEYS}
    if "tool" in line and "principal" in scenario:
        line.setdefault("principal", scenario["principal"])
    played = play.line(line)
    reasons = list(played.reasons) if played.decision is None else list(played.decision.reasons)
    verdict = None if played.decision is None else played.decision.verdict
    status = None if played.effect is None else played.effect.status
    if played.effect is not None:
        reasons.extend(played.effect.reasons)
    tool = str(line.get("tool", ""))
    contract = resolve(play.compiled.contracts, tool)
    _reach(reached, tool if contract is None else contract.tool, reasons)
    codes = [reason.code for reason in reasons]
    if "expect" in value and value["expect"] != verdict:
        return f"expected {value['expect']}, got {verdict}: {_told(reasons)}"
    if "outcome_is" in value and value["outcome_is"] != status:
        return f"expected the outcome to be {value['outcome_is']}, got {status}"
    if wanted is not None and sorted(set(codes)) != sorted(set(wanted)):
        return f"expected {', '.join(wanted)}, got {', '.join(codes) or 'no reason'}"
    if not {"expect", "outcome_is", "code", "codes"} & set(value) and verdict not in (None, "allow"):
        return f"a call without expectation was not allowed: {_told(reasons)}"
    return ""


def _told(reasons: list[Reason]) -> str:
    return "; ".join(f"{reason.code} ({reason.message})" for reason in reasons) or "no reason"


def _reach(reached: set[tuple[str, str, str]], tool: str, reasons: list[Reason]) -> None:
    for reason in reasons:
        reached.add((tool, reason.code, reason.path))
        reached.add((tool, reason.code, ""))
        reached.add(("session", reason.code, ""))


def rules_in(compiled: Compiled) -> set[tuple[str, str, str]]:
    """Every rule that can refuse, as (tool, code, path)."""
    found = set()
    for rules in compiled.sessions.values():
        policy = rules.contract.policy
        for code, there in (
            ("policy_denied", any(rule.deny for rule in policy.rules)),
            ("policy_not_allowed", policy.default_deny or any(rule.allow for rule in policy.rules)),
            ("label_gate", bool(policy.label_gates)),
        ):
            if there:
                found.add(("session", code, ""))
        for plan in rules.plans.values():
            found.update(_rules_of(rules, plan))
    return found


def _rules_of(rules: Rules, plan: ToolRules) -> Iterator[tuple[str, str, str]]:
    for check in plan.checks:
        yield plan.name, check.code, check.entry.path.text
    for item in (*plan.contract.refs, *plan.contract.output_rules):
        yield plan.name, "ref_mismatch", item.path
    for aggregate in plan.aggregates:
        if aggregate.lte is not None:
            yield plan.name, "aggregate_exceeded", aggregate.name
        if aggregate.gte is not None:
            yield plan.name, "aggregate_below", aggregate.name
    for _, stage in plan.envelopes:
        if stage.role == "constrained":
            yield plan.name, "envelope_violated", stage.path
    for name, _ in plan.checkpoints:
        yield plan.name, "checkpoint_required", name
    for code, there in (
        ("risk_blocked", not plan.risk_allowed),
        ("policy_denied", plan.contract.policy is not None and bool(plan.contract.policy.deny)),
        ("policy_not_allowed", plan.contract.policy is not None and bool(plan.contract.policy.allow)),
        ("precondition_not_met", bool(plan.contract.preconditions)),
        ("wrong_phase", plan.phases is not None and len(plan.phases) < len(rules.contract.phases)),
        ("output_invariant", bool(plan.contract.assertions.output_invariants)),
    ):
        if there:
            yield plan.name, code, ""
    if plan.call_limit is not None:
        yield plan.name, "session_limit_exceeded", f"session_limits.max_calls_per_tool.{plan.name}"
    for name in plan.contract.forbids_after:
        yield name, "forbidden_in_state", "tool"
