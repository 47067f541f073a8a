"""A session contract applied to all tools: the rules that the engine evaluates.

Invariant: every name that a session contract uses is declared; a rule about a tool without a contract is an
error, never silently ignored.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from threegate.contracts.assemble_totals import (
    ALL,
    build_aggregates,
    build_envelopes,
    known_tool,
    known_tools,
    unique_name,
)
from threegate.contracts.build import Scope
from threegate.contracts.comparisons import CompiledEntry
from threegate.contracts.document import KeyPath
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.phases import check_phases
from threegate.contracts.tool_plan import (
    AggregatePlan,
    CheckpointPlan,
    OutputSourcePlan,
    PreconditionPlan,
    Rules,
    ToolParts,
    ToolPlan,
    exact,
)
from threegate.core import limits

_PROVIDER_TERM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*(=[^\s+]+)?")


def build_rules(scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> Rules:
    """Compile a session contract over `tools`. Errors are in `scope.diagnostics`."""
    check_phases(scope, contract, tools)
    bounds = _limits(scope, contract, tools)
    policy = _Policy(scope, contract, tools)
    aggregates = build_aggregates(scope, contract, tools)
    envelopes = build_envelopes(scope, contract, tools)
    checkpoints = _checkpoints(scope, contract, tools)
    _providers(scope, contract)
    fulfils: dict[str, list[PreconditionPlan]] = defaultdict(list)
    for parts in tools.values():
        for precondition in parts.preconditions:
            fulfils[precondition.tool or ""].append(precondition)
    remembered: dict[str, dict[str, OutputSourcePlan]] = defaultdict(dict)
    for parts in tools.values():
        for rule in parts.output_rules:
            remembered[rule.source.tool][rule.source.key] = rule.source
    everywhere = [item for item in aggregates if item.tools is None]
    by_tool: dict[str, list[AggregatePlan]] = defaultdict(list)
    for item in aggregates:
        for name in item.tools or ():
            by_tool[name].append(item)
    plans = {}
    for name, parts in sorted(tools.items()):
        tool = parts.contract
        transitions = tool.transitions
        valid = None if transitions is None else transitions.valid_in_phases
        plans[name] = ToolPlan(
            parts=parts,
            contract=tool,
            name=name,
            risk_allowed=_risk(contract, tool),
            checks=(*parts.manual, *parts.derived) if contract.schema_derived else parts.manual,
            phases=None if valid is None else frozenset(valid),
            advances_to=None if transitions is None else transitions.advances_to,
            deny=(*parts.deny, *policy.deny(name)),
            allow_sets=policy.allow_sets(name, parts.allow),
            policed=policy.speaks or bool(parts.deny or parts.allow),
            label_gates=tuple(policy.gates.get(name, ())),
            aggregates=(*everywhere, *by_tool.get(name, ())),
            envelopes=tuple(envelopes.get(name, ())),
            checkpoints=(
                *(() if parts.checkpoint is None else (parts.checkpoint,)),
                *checkpoints.get(name, ()),
                *checkpoints.get(ALL, ()),
            ),
            fulfils=tuple(fulfils.get(name, ())),
            remembered=tuple(remembered.get(name, {}).values()),
            call_limit=contract.session_limits.max_calls_per_tool.get(name),
            early=tool.commit_requirement == "none",
        )
    return Rules(
        file=scope.document.file,
        contract=contract,
        plans=plans,
        initial=next((phase.name for phase in contract.phases if phase.initial), None),
        aggregates=tuple(aggregates),
        resources=tuple(
            (
                alias,
                item.type,
                scope.path(item.extract_from.path, ("resources", alias, "extract_from", "path")),
            )
            for alias, item in sorted(contract.resources.items())
        ),
        terminal=frozenset(phase.name for phase in contract.phases if phase.terminal),
        **bounds,
    )


def _risk(contract: SessionContract, tool: ToolContract) -> bool:
    """The tool's gate, else the session's default for its side effect, else reads only."""
    if tool.gate is not None:
        return tool.gate == "allow"
    default = contract.risk_defaults.get(tool.side_effect)
    return tool.side_effect == "read" if default is None else default == "allow"


def _limits(scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> dict[str, Any]:
    """The session's limits as fields of Rules."""
    bounds = contract.session_limits
    where: KeyPath = ("session_limits",)
    loop = bounds.loop_detection
    breaker = bounds.circuit_breaker
    numbers: list[tuple[KeyPath, Any]] = [
        ((*where, "max_steps"), bounds.max_steps),
        ((*where, "max_tool_calls"), bounds.max_tool_calls),
        ((*where, "max_cost_per_session"), bounds.max_cost_per_session),
        *(((*where, "max_calls_per_tool", name), number) for name, number in bounds.max_calls_per_tool.items()),
    ]
    if loop is not None:
        numbers.append(((*where, "loop_detection", "window"), loop.window))
        numbers.append(((*where, "loop_detection", "threshold"), loop.threshold))
        if loop.threshold > loop.window or loop.window > limits.CONTRACT_LOOP_WINDOW:
            message = f"threshold is at most the window, and the window at most {limits.CONTRACT_LOOP_WINDOW}"
            scope.error("BAD_TYPE", (*where, "loop_detection"), message)
    if breaker is not None:
        numbers.append(((*where, "circuit_breaker", "consecutive_blocks"), breaker.consecutive_blocks))
        numbers.append(((*where, "circuit_breaker", "consecutive_errors"), breaker.consecutive_errors))
    for path, number in numbers:
        if number is not None and number <= 0:
            scope.error("LIMIT_NOT_POSITIVE", path, "must be above zero")
    for name in bounds.max_calls_per_tool:
        known_tool(scope, name, tools, (*where, "max_calls_per_tool", name))
    limited = (bounds.max_steps, bounds.max_tool_calls, bounds.max_cost_per_session) != (None, None, None)
    return {
        "max_steps": bounds.max_steps,
        "max_calls": bounds.max_tool_calls,
        "max_cost": None if bounds.max_cost_per_session is None else exact(bounds.max_cost_per_session),
        "narrow": bounds.max_tool_calls_mode == "narrow",
        "window_size": 0 if loop is None else max(loop.window - 1, 0),
        "loop_threshold": 0 if loop is None else loop.threshold,
        "max_blocks": None if breaker is None else breaker.consecutive_blocks,
        "max_errors": None if breaker is None else breaker.consecutive_errors,
        "limited": limited or bool(bounds.max_calls_per_tool),
    }


class _Policy:
    """The session's policy, sorted by the tools it applies to."""

    def __init__(self, scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> None:
        self.default_deny = contract.policy.default_deny
        self.speaks = self.default_deny or bool(contract.policy.rules)
        self._deny: dict[str, list[CompiledEntry]] = defaultdict(list)
        self._allow: dict[str, list[CompiledEntry]] = defaultdict(list)
        self.gates: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for index, rule in enumerate(contract.policy.rules):
            where: KeyPath = ("policy", "rules", index)
            if (rule.allow is None) == (rule.deny is None):
                scope.error("MISSING_FIELD", where, "a rule is one of allow and deny")
                continue
            side = "allow" if rule.deny is None else "deny"
            inner = rule.allow or rule.deny
            if inner is None or (rule.tools is not None and inner.tools is not None):
                scope.error("TOOLS_TWICE", where, "tools is given both beside and inside")
                continue
            named = rule.tools if rule.tools is not None else inner.tools
            known_tools(
                scope,
                named or (),
                tools,
                (*where, "tools") if rule.tools is not None else (*where, side, "tools"),
            )
            entry = scope.entry(inner.principal, (*where, side, "principal"))
            entries = [] if entry is None else [entry]
            for name in [ALL] if named is None else named:
                (self._deny if side == "deny" else self._allow)[name].extend(entries)
        for index, gate in enumerate(contract.policy.label_gates):
            known_tools(scope, gate.deny_tools, tools, ("policy", "label_gates", index, "deny_tools"))
            for name in gate.deny_tools:
                self.gates[name].append((gate.when_label, gate.reason))

    def deny(self, tool: str) -> list[CompiledEntry]:
        """Principals that the session denies the tool."""
        return [*self._deny.get(ALL, ()), *self._deny.get(tool, ())]

    def allow_sets(self, tool: str, own: tuple[CompiledEntry, ...]) -> tuple[tuple[CompiledEntry, ...], ...]:
        """The sets that each need a match: the tool's own, and the session's if it mentions the tool."""
        session = (*self._allow.get(ALL, ()), *self._allow.get(tool, ()))
        sets = [allowed for allowed in (own, session) if allowed]
        return tuple(sets) if sets or not self.default_deny else ((),)


def _checkpoints(
    scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]
) -> dict[str, list[CheckpointPlan]]:
    by_tool: dict[str, list[CheckpointPlan]] = defaultdict(list)
    seen: set[str] = set()
    for index, item in enumerate(contract.checkpoints):
        where: KeyPath = ("checkpoints", index)
        unique_name(scope, item.name, seen, where)
        if item.tool != ALL:
            known_tool(scope, item.tool, tools, (*where, "tool"))
        by_tool[item.tool].append(scope.checkpoint(item, where, item.name))
    return by_tool


def _providers(scope: Scope, contract: SessionContract) -> None:
    for provider, constraints in contract.provider_constraints.items():
        for kind in ("block_incompatible", "warn_incompatible"):
            for index, pattern in enumerate(getattr(constraints, kind)):
                if not _pattern_ok(pattern):
                    where = ("provider_constraints", provider, kind, index)
                    scope.error("BAD_PROVIDER_PATTERN", where, f"{pattern!r} is no pattern")


def _pattern_ok(pattern: str) -> bool:
    """Whether it is a provider pattern: `field=value`, `field` or a model name, joined by ` + `."""
    return all(_PROVIDER_TERM.fullmatch(term.strip()) for term in pattern.split(" + "))
