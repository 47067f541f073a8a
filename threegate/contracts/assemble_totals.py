"""Aggregates and envelopes of a session contract, compiled.

Invariant: every stage and every total refers to existing tools, and has everything that its kind needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from threegate.contracts.build import Scope
from threegate.contracts.document import KeyPath
from threegate.contracts.model_session import Aggregate, Envelope, SessionContract
from threegate.contracts.tool_names import bad_reference
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


def _overrides(scope: Scope, item: Aggregate, where: KeyPath, tools: Mapping[str, ToolParts]) -> tuple[Override, ...]:
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
        for number, stage in enumerate(item.stages):
            here = (*where, "stages", number)
            known_tool(scope, stage.tool, tools, (*here, "tool"))
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
            "ENVELOPE_ROLE_MISMATCH",
            (*where, "stages"),
            "a constrained stage comes before the one that bounds it",
        )
    givers = {stage.tool for stage in item.stages if stage.role != "constrained"}
    if givers & {stage.tool for stage in item.stages if stage.role == "constrained"}:
        scope.error("ENVELOPE_ROLE_MISMATCH", (*where, "stages"), "a tool does not bound itself")


def unique_name(scope: Scope, name: str, seen: set[str], where: KeyPath) -> None:
    """Report a duplicate name."""
    if name in seen:
        scope.error("DUPLICATE_NAME", (*where, "name"), f"{name!r} stands twice")
    seen.add(name)
