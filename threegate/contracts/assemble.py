"""A session contract laid over all tools: the rules that the engine asks.

Invariant: every name that a session contract uses is declared; a rule about a tool that no contract describes is a
mistake, never a rule that is silently about nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from threegate import limits
from threegate.contracts.build import Scope, ToolParts
from threegate.contracts.document import KeyPath
from threegate.contracts.model_session import Aggregate, Envelope, SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.operators import Entry
from threegate.contracts.patterns import pattern_ok
from threegate.contracts.phases import check_phases
from threegate.contracts.plan import (
    AggregatePlan,
    CheckpointPlan,
    EnvelopePlan,
    Override,
    PreconditionPlan,
    Rules,
    ToolPlan,
    exact,
)

ALL = "*"

_NEEDS = {
    "lte_ceiling": ("ceiling",),
    "gte_floor": ("floor",),
    "within_band": ("anchor",),
    "monotonic_decrease": ("initial",),
    "monotonic_increase": ("initial",),
    "bounded": ("ceiling", "floor"),
}


def build_rules(scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> Rules:
    """Compile a session contract over `tools`. Mistakes are in `scope.diagnostics`."""
    check_phases(scope, contract, tools)
    bounds = _limits(scope, contract, tools)
    policy = _Policy(scope, contract, tools)
    aggregates = _aggregates(scope, contract, tools)
    envelopes = _envelopes(scope, contract, tools)
    checkpoints = _checkpoints(scope, contract, tools)
    _providers(scope, contract)
    fulfils: dict[str, list[PreconditionPlan]] = defaultdict(list)
    for parts in tools.values():
        for precondition in parts.preconditions:
            fulfils[precondition.tool or ""].append(precondition)
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
            contract=tool,
            name=name,
            risk_allowed=_risk(contract, tool),
            checks=(*parts.manual, *parts.derived) if contract.schema_derived else parts.manual,
            refs=parts.refs,
            preconditions=parts.preconditions,
            outputs=parts.outputs,
            binds=parts.binds,
            expected_failures=parts.expected_failures,
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
    """The tool's gate, else the session's default for its side effect, else only what reads."""
    if tool.gate is not None:
        return tool.gate == "allow"
    default = contract.risk_defaults.get(tool.side_effect)
    return tool.side_effect == "read" if default is None else default == "allow"


def _known(scope: Scope, names: Iterable[str], tools: Mapping[str, ToolParts], where: KeyPath) -> None:
    """Every name is a tool that a contract describes."""
    for index, name in enumerate(names):
        if name not in tools:
            scope.error("UNKNOWN_TOOL_REFERENCE", (*where, index), f"no contract describes {name!r}")


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
        *(
            ((*where, "max_calls_per_tool", name), number)
            for name, number in bounds.max_calls_per_tool.items()
        ),
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
        if name not in tools:
            path = (*where, "max_calls_per_tool", name)
            scope.error("UNKNOWN_TOOL_REFERENCE", path, f"no contract describes {name!r}")
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
    """The session's policy, sorted by the tools it speaks of."""

    def __init__(self, scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> None:
        self.default_deny = contract.policy.default_deny
        self.speaks = self.default_deny or bool(contract.policy.rules)
        self._deny: dict[str, list[Entry]] = defaultdict(list)
        self._allow: dict[str, list[Entry]] = defaultdict(list)
        self.gates: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for index, rule in enumerate(contract.policy.rules):
            where: KeyPath = ("policy", "rules", index)
            if (rule.allow is None) == (rule.deny is None):
                scope.error("MISSING_FIELD", where, "a rule is one of allow and deny")
                continue
            side = "allow" if rule.deny is None else "deny"
            inner = rule.allow or rule.deny
            if inner is None or (rule.tools is not None and inner.tools is not None):
                scope.error("TOOLS_TWICE", where, "tools stands beside and inside")
                continue
            named = rule.tools if rule.tools is not None else inner.tools
            _known(
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
            _known(scope, gate.deny_tools, tools, ("policy", "label_gates", index, "deny_tools"))
            for name in gate.deny_tools:
                self.gates[name].append((gate.when_label, gate.reason))

    def deny(self, tool: str) -> list[Entry]:
        """Whom the session denies the tool."""
        return [*self._deny.get(ALL, ()), *self._deny.get(tool, ())]

    def allow_sets(self, tool: str, own: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], ...]:
        """The sets of which each needs a match: the tool's own, and the session's where it speaks of the tool."""
        session = (*self._allow.get(ALL, ()), *self._allow.get(tool, ()))
        sets = [allowed for allowed in (own, session) if allowed]
        return tuple(sets) if sets or not self.default_deny else ((),)


def _aggregates(
    scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]
) -> list[AggregatePlan]:
    plans = []
    seen: set[str] = set()
    for index, item in enumerate(contract.aggregates):
        where: KeyPath = ("aggregates", index)
        _unique(scope, item.name, seen, where)
        if item.gte is None and item.lte is None:
            scope.error("AGGREGATE_WITHOUT_BOUND", where, "neither gte nor lte")
        if item.path is None and item.metric != "count":
            scope.error("AGGREGATE_WITHOUT_PATH", where, f"{item.metric} needs the path of a value")
        names = [item.tool] if isinstance(item.tool, str) else item.tool
        everywhere = names == [ALL]
        if not everywhere:
            _known(scope, names, tools, (*where, "tool"))
        plans.append(
            AggregatePlan(
                name=item.name,
                metric=item.metric,
                path=None if item.path is None else scope.path(item.path, (*where, "path")),
                gte=None if item.gte is None else exact(item.gte),
                lte=None if item.lte is None else exact(item.lte),
                reason=item.reason,
                overrides=_overrides(scope, item, where, tools),
                tools=None if everywhere else frozenset(names),
            )
        )
    return plans


def _overrides(
    scope: Scope, item: Aggregate, where: KeyPath, tools: Mapping[str, ToolParts]
) -> tuple[Override, ...]:
    bound = {bind.name for parts in tools.values() for bind in parts.binds}
    plans = []
    for number, override in enumerate(item.when):
        here = (*where, "when", number)
        if override.then_gte is None and override.then_lte is None:
            scope.error("AGGREGATE_WITHOUT_BOUND", here, "neither then_gte nor then_lte")
        if override.binding not in bound:
            scope.error("REF_NEVER_BOUND", (*here, "binding"), f"no contract binds {override.binding!r}")
        entry = scope.entry(override, here, path="$", skip=("binding", "then_gte", "then_lte"))
        if entry is not None:
            plans.append(
                Override(
                    override.binding,
                    entry,
                    None if override.then_gte is None else exact(override.then_gte),
                    None if override.then_lte is None else exact(override.then_lte),
                )
            )
    return tuple(plans)


def _envelopes(
    scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]
) -> dict[str, list[EnvelopePlan]]:
    by_tool: dict[str, list[EnvelopePlan]] = defaultdict(list)
    seen: set[str] = set()
    for index, item in enumerate(contract.envelopes):
        where: KeyPath = ("envelopes", index)
        _unique(scope, item.name, seen, where)
        _check_envelope(scope, item, where)
        keys = tuple(
            f"{item.name}/{'last' if role == 'initial' else role}" for role in _NEEDS[item.constraint]
        )
        for number, stage in enumerate(item.stages):
            here = (*where, "stages", number)
            if stage.tool not in tools:
                scope.error(
                    "UNKNOWN_TOOL_REFERENCE", (*here, "tool"), f"no contract describes {stage.tool!r}"
                )
            by_tool[stage.tool].append(
                EnvelopePlan(
                    name=item.name,
                    path=scope.path(stage.path, (*here, "path")),
                    role=stage.role,
                    constraint=item.constraint,
                    band=exact(item.band or 0),
                    reason=item.reason,
                    needs=keys,
                    captures=_captured(item, stage.role),
                )
            )
    return by_tool


def _captured(item: Envelope, role: str) -> str | None:
    """The reference that a stage sets: a monotonic value is measured against the last one."""
    if role == "constrained":
        return f"{item.name}/last" if item.constraint.startswith("monotonic") else None
    return f"{item.name}/{'last' if role == 'initial' else role}"


def _check_envelope(scope: Scope, item: Envelope, where: KeyPath) -> None:
    """Stages, roles and band fit the constraint."""
    if len(item.stages) < 2:
        scope.error("ENVELOPE_TOO_SHORT", (*where, "stages"), "at least two stages")
    if (item.band is None) == (item.constraint == "within_band"):
        scope.error("BAND_MISSING", where, "within_band has a band, and only it")
    needed = _NEEDS[item.constraint]
    roles: list[str] = [stage.role for stage in item.stages]
    if not set(needed) <= set(roles) or set(roles) != {*needed, "constrained"}:
        message = f"{item.constraint} takes the roles {', '.join(needed)} and constrained"
        scope.error("ENVELOPE_ROLE_MISMATCH", (*where, "stages"), message)
    elif roles.index("constrained") < max(roles.index(role) for role in needed):
        scope.error(
            "ENVELOPE_ROLE_MISMATCH", (*where, "stages"), "a constrained stage stands before what bounds it"
        )
    givers = {stage.tool for stage in item.stages if stage.role != "constrained"}
    if givers & {stage.tool for stage in item.stages if stage.role == "constrained"}:
        scope.error("ENVELOPE_ROLE_MISMATCH", (*where, "stages"), "a tool does not bound itself")


def _checkpoints(
    scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]
) -> dict[str, list[CheckpointPlan]]:
    by_tool: dict[str, list[CheckpointPlan]] = defaultdict(list)
    seen: set[str] = set()
    for index, item in enumerate(contract.checkpoints):
        where: KeyPath = ("checkpoints", index)
        _unique(scope, item.name, seen, where)
        if item.tool != ALL and item.tool not in tools:
            scope.error("UNKNOWN_TOOL_REFERENCE", (*where, "tool"), f"no contract describes {item.tool!r}")
        by_tool[item.tool].append(scope.checkpoint(item, where, item.name))
    return by_tool


def _providers(scope: Scope, contract: SessionContract) -> None:
    for provider, constraints in contract.provider_constraints.items():
        for kind in ("block_incompatible", "warn_incompatible"):
            for index, pattern in enumerate(getattr(constraints, kind)):
                if not pattern_ok(pattern):
                    where = ("provider_constraints", provider, kind, index)
                    scope.error("BAD_PROVIDER_PATTERN", where, f"{pattern!r} is no pattern")


def _unique(scope: Scope, name: str, seen: set[str], where: KeyPath) -> None:
    if name in seen:
        scope.error("DUPLICATE_NAME", (*where, "name"), f"{name!r} stands twice")
    seen.add(name)
