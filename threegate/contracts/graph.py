"""Graph analysis: rules that can never apply, or never allow anything. Warnings, which can be suppressed with
a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document
from threegate.contracts.session_check import reachable
from threegate.contracts.tool_rules import Rules, Tool
from threegate.core.json_operators import Test, is_number
from threegate.request.strict_texts import OPERATORS


def analyse(document: Document, rules: Rules, tools: Mapping[str, Tool]) -> list[Diagnostic]:
    """All graph diagnostics of one session, less the suppressed ones."""
    found: list[tuple[str, Diagnostic]] = []
    found.extend(_phases(document, rules, tools))
    found.extend(_preconditions(rules, tools))
    found.extend(_tools(rules, tools))
    suppressed = set()
    result = []
    for index, item in enumerate(rules.contract.graph_analysis.suppress):
        where = ("graph_analysis", "suppress", index)
        if not item.reason.strip():
            result.append(document.error("SUPPRESS_WITHOUT_REASON", where, "give a reason"))
        hits = {
            number
            for number, (subject, diagnostic) in enumerate(found)
            if diagnostic.code == item.check and item.tool in (None, subject)
        }
        if not hits:
            result.append(document.error("SUPPRESS_STALE", where, f"{item.check} does not occur here"))
        suppressed |= hits
    result.extend(diagnostic for number, (_, diagnostic) in enumerate(found) if number not in suppressed)
    return result


def _phases(document: Document, rules: Rules, tools: Mapping[str, Tool]) -> list[tuple[str, Diagnostic]]:
    """Tools valid nowhere, phases without a tool."""
    if rules.contract.initial is None:
        return []
    open_phases = _walkable(rules, tools)
    found = []
    for name, parts in tools.items():
        valid = rules.plans[name].phases
        if valid is not None and not valid & open_phases:
            where = ("transitions", "valid_in_phases")
            found.append(
                (name, parts.document.error("dead_tool", where, f"{name} is valid in no phase that is reached"))
            )
    for index, phase in enumerate(rules.contract.phases):
        usable = any(plan.phases is None or phase.name in plan.phases for plan in rules.plans.values())
        if not usable and not phase.terminal:
            message = f"no tool is valid in {phase.name!r}"
            found.append((phase.name, document.error("phase_without_tool", ("phases", index), message)))
    return found


def _walkable(rules: Rules, tools: Mapping[str, Tool]) -> set[str]:
    """Phases that are really reachable: an edge counts only if some tool advances along it."""
    edges: dict[str, set[str]] = {}
    for name in tools:
        plan = rules.plans[name]
        if plan.advances_to is not None:
            for phase in plan.phases if plan.phases is not None else rules.contract.transitions:
                edges.setdefault(phase, set()).add(plan.advances_to)
    return reachable([rules.contract.initial or ""], edges)


def _preconditions(rules: Rules, tools: Mapping[str, Tool]) -> list[tuple[str, Diagnostic]]:
    """Requirements that nothing can fulfil."""
    needs = {
        name: [
            item.requires_prior_tool for item in parts.contract.preconditions if item.requires_prior_tool is not None
        ]
        for name, parts in tools.items()
    }
    found = []
    in_circle = {name for name in needs if name in reachable(needs[name], needs)}
    for name, parts in tools.items():
        if name in in_circle:
            message = f"{name} requires itself, by way of {', '.join(needs[name])}"
            found.append((name, parts.document.error("precondition_cycle", ("preconditions",), message)))
        for index, item in enumerate(parts.contract.preconditions):
            first = item.requires_prior_tool
            if first is None or first in in_circle:
                continue
            if not _can_precede(rules, first, name):
                message = f"{first} cannot run before {name}"
                where = ("preconditions", index, "requires_prior_tool")
                found.append((name, parts.document.error("unreachable_precondition", where, message)))
    return found


def _can_precede(rules: Rules, first: str, then: str) -> bool:
    """Whether a session may run `first` and later `then`."""
    before, after = rules.plans[first], rules.plans[then]
    if not before.risk_allowed or then in before.contract.forbids_after:
        return False
    if rules.contract.initial is None:
        return True
    transitions = rules.contract.transitions
    starts = reachable([rules.contract.initial], transitions)
    valid = starts if before.phases is None else before.phases & starts
    if not valid:
        return False
    follow = reachable(valid if before.advances_to is None else [before.advances_to], transitions)
    return after.phases is None or bool(after.phases & follow)


def _tools(rules: Rules, tools: Mapping[str, Tool]) -> list[tuple[str, Diagnostic]]:
    """Tools that forbid themselves, slots that are never read, invariants that contradict each other."""
    read = {item.ref for parts in tools.values() for item in parts.contract.argument_value_invariants}
    read |= {override.binding for item in rules.contract.aggregates for override in item.when}
    found = []
    for name, parts in tools.items():
        report = parts.document.error
        for index, other in enumerate(parts.contract.forbids_after):
            if other == name:
                message = f"{name} runs once and then never again"
                found.append((name, report("self_forbidding", ("forbids_after", index), message)))
        for index, bind in enumerate(parts.contract.binds):
            if bind.name not in read:
                found.append((name, report("unused_bind", ("binds", index), f"nothing reads {bind.name!r}")))
        found.extend((name, item) for item in _contradictions(parts))
    return found


def _contradictions(parts: Tool) -> list[Diagnostic]:
    """Pairs of argument rules for one path that no value satisfies."""
    found = []
    by_path: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for index, item in enumerate(parts.contract.argument_value_invariants):
        said = {name: getattr(item, name) for name in item.model_fields_set}
        by_path.setdefault(item.path, []).append((index, said))
    for path, entries in by_path.items():
        merged: dict[str, list[Any]] = {}
        for _, said in entries:
            for name, operand in said.items():
                merged.setdefault(name, []).append(operand)
        if _impossible(merged):
            where = ("argument_value_invariants", entries[-1][0])
            found.append(
                parts.document.error("contradictory_invariants", where, f"no value satisfies all rules at {path}")
            )
    return found


def _impossible(said: Mapping[str, list[Any]]) -> bool:
    """Whether the operators of one path together allow no value."""
    lows = [value for value in said.get("gte", []) if is_number(value)]
    highs = [value for value in said.get("lte", []) if is_number(value)]
    if lows and highs and max(lows) > min(highs):
        return True
    exact = said.get("exact_match", [])
    choices = [options for options in said.get("one_of", []) if isinstance(options, list)]
    candidates = exact or (choices[0] if choices else None)
    if candidates is None:
        return False
    tests: list[Test] = [
        OPERATORS[name](operand)
        for name in said
        if name in OPERATORS and name != "type"
        for operand in said.get(name, [])
    ]
    return not any(all(test(value) for test in tests) for value in candidates)
