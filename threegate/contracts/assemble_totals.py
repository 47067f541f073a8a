"""Aggregates and envelopes of a session contract, compiled.

Invariant: every stage and every total refers to existing tools, and has everything that its kind needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from threegate.contracts.build import Scope
from threegate.contracts.document import KeyPath
from threegate.contracts.json_paths import Path
from threegate.contracts.model_session import Aggregate, Envelope, SessionContract
from threegate.contracts.schema_paths import has_path
from threegate.contracts.tool_names import OURS, SERVED, WILDCARD, bad_reference
from threegate.contracts.tool_plan import AggregatePlan, EnvelopePlan, Override, ToolParts, exact

ALL = "*"

_NEEDS = {
    "lte_ceiling": ("ceiling",),
    "gte_floor": ("floor",),
    "within_band": ("anchor",),
    "monotonic_decrease": ("initial",),
    "monotonic_increase": ("initial",),
    "bounded": ("ceiling", "floor"),
}


def known_tools(scope: Scope, names: Iterable[str], tools: Mapping[str, ToolParts], where: KeyPath) -> None:
    """Check that every name is a tool with a contract."""
    for index, name in enumerate(names):
        known_tool(scope, name, tools, (*where, index))


def known_tool(scope: Scope, name: str, tools: Mapping[str, ToolParts], where: KeyPath) -> None:
    """Check that a name is a tool with a contract, or an unambiguous wildcard."""
    problem = bad_reference(name, tools)
    if problem is not None:
        scope.error(problem[0], where, problem[1])


def build_aggregates(scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> list[AggregatePlan]:
    """Compile the aggregates."""
    plans = []
    seen: set[str] = set()
    for index, item in enumerate(contract.aggregates):
        where: KeyPath = ("aggregates", index)
        unique_name(scope, item.name, seen, where)
        if item.gte is None and item.lte is None:
            scope.error("AGGREGATE_WITHOUT_BOUND", where, "neither gte nor lte")
        if item.path is None and item.metric != "count":
            scope.error("AGGREGATE_WITHOUT_PATH", where, f"{item.metric} needs the path of a value")
        names = [item.tool] if isinstance(item.tool, str) else item.tool
        everywhere = names == [ALL]
        if not everywhere:
            known_tools(scope, names, tools, (*where, "tool"))
        path = None if item.path is None else scope.path(item.path, (*where, "path"))
        plan = AggregatePlan(
            name=item.name,
            metric=item.metric,
            path=path,
            gte=None if item.gte is None else exact(item.gte),
            lte=None if item.lte is None else exact(item.lte),
            reason=item.reason,
            overrides=_overrides(scope, item, where, tools),
            tools=None if everywhere else frozenset(names),
            strangers=_strangers(path, tools) if everywhere and path is not None else frozenset(),
        )
        _check_first_call(scope, plan, where, {bind.name for parts in tools.values() for bind in parts.binds})
        plans.append(plan)
    return plans


def _strangers(path: Path, tools: Mapping[str, ToolParts]) -> frozenset[str]:
    """The tools that have no value at a path. A wildcard stands for tools that nobody listed, and a server's tool
    always has a schema: without it here, nothing is known.
    """
    return frozenset(
        name
        for name, parts in tools.items()
        if not name.endswith(WILDCARD)
        and (
            name.startswith(OURS) or not SERVED.fullmatch(name)
            if parts.schema is None
            else not has_path(parts.schema.parameters, path)
        )
    )


def _check_first_call(scope: Scope, plan: AggregatePlan, where: KeyPath, bound: set[str]) -> None:
    """Warn where the bounds, whatever is bound, let no call be the first one."""
    bounds = [(plan.gte, plan.lte)]
    bounds += [
        (plan.gte if override.gte is None else override.gte, plan.lte if override.lte is None else override.lte)
        for override in plan.overrides
        if override.binding in bound
    ]
    single = plan.path is None or (plan.metric in ("count", "count_distinct") and plan.path.get is not None)
    first = Decimal(1) if single else None
    if all(
        lower is not None and ((first is not None and first < lower) or (upper is not None and upper < lower))
        for lower, upper in bounds
    ):
        message = "`gte` is checked before each call too, and no first call could reach it"
        scope.error("FIRST_CALL_BLOCKED", where, message)


def _overrides(scope: Scope, item: Aggregate, where: KeyPath, tools: Mapping[str, ToolParts]) -> tuple[Override, ...]:
    bound = {bind.name for parts in tools.values() for bind in parts.binds}
    plans = []
    for number, override in enumerate(item.when):
        here = (*where, "when", number)
        if override.then_gte is None and override.then_lte is None:
            scope.error("AGGREGATE_WITHOUT_BOUND", here, "neither then_gte nor then_lte")
        if override.binding not in bound:
            lower, upper = override.then_gte, override.then_lte
            tightens = (lower is not None and (item.gte is None or lower > item.gte)) or (
                upper is not None and (item.lte is None or upper < item.lte)
            )
            code = "REF_NEVER_BOUND" if tightens else "BOUNDS_NEVER_USED"
            scope.error(code, (*here, "binding"), f"no contract binds {override.binding!r}")
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


def build_envelopes(
    scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]
) -> dict[str, list[EnvelopePlan]]:
    """Compile the envelopes; each tool's stages by its name."""
    by_tool: dict[str, list[EnvelopePlan]] = defaultdict(list)
    seen: set[str] = set()
    for index, item in enumerate(contract.envelopes):
        where: KeyPath = ("envelopes", index)
        unique_name(scope, item.name, seen, where)
        _check_envelope(scope, item, where)
        keys = tuple(f"{item.name}/{'last' if role == 'initial' else role}" for role in _NEEDS[item.constraint])
        own = _own_givers(item)
        spelled: dict[str, Any] = {}
        for number, stage in enumerate(item.stages):
            here = (*where, "stages", number)
            known_tool(scope, stage.tool, tools, (*here, "tool"))
            path = scope.path(stage.path, (*here, "path"))
            if stage.tool in own and spelled.setdefault(stage.tool, path.normal) != path.normal:
                message = "a tool that bounds itself does so with one value; give both stages the same path"
                scope.error("ENVELOPE_ROLE_MISMATCH", (*here, "path"), message)
            by_tool[stage.tool].append(
                EnvelopePlan(
                    name=item.name,
                    path=path,
                    role=stage.role,
                    constraint=item.constraint,
                    band=exact(item.band or 0),
                    reason=item.reason,
                    needs=keys,
                    captures=_captured(item, stage.role),
                    own=stage.tool in own,
                )
            )
    return by_tool


def _own_givers(item: Envelope) -> set[str]:
    """The tools that are measured against their own first call."""
    givers = {stage.tool for stage in item.stages if stage.role != "constrained"}
    return givers & {stage.tool for stage in item.stages if stage.role == "constrained"}


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
            "ENVELOPE_ROLE_MISMATCH",
            (*where, "stages"),
            "a constrained stage comes before the one that bounds it",
        )
    if set(needed) & {"ceiling", "floor"} and _own_givers(item):
        message = "a tool does not set its own ceiling or floor: let another tool do it"
        scope.error("ENVELOPE_ROLE_MISMATCH", (*where, "stages"), message)


def unique_name(scope: Scope, name: str, seen: set[str], where: KeyPath) -> None:
    """Report a duplicate name."""
    if name in seen:
        scope.error("DUPLICATE_NAME", (*where, "name"), f"{name!r} stands twice")
    seen.add(name)
