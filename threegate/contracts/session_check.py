"""Checks of what a session contract and the tools' contracts say about each other.

Invariant: every name that a contract uses is declared; a rule about a tool without a contract is an error, never
silently ignored: it would block for ever, or never apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document, KeyPath
from threegate.contracts.json_paths import BadPath
from threegate.contracts.model_common import Problem
from threegate.contracts.model_session import Aggregate, SessionContract
from threegate.contracts.phases import phase_problems, tool_phase_problems
from threegate.contracts.tool_names import bad_reference
from threegate.contracts.tool_rules import ALL, Tool


def check_session(document: Document, contract: SessionContract, tools: Mapping[str, Tool]) -> Iterator[Diagnostic]:
    """Everything in a session contract that names a tool, a phase or a slot, and the phases that tools name."""
    for code, where, message in (*phase_problems(contract), *_problems(contract, tools)):
        yield document.error(code, where, message)
    for tool in tools.values():
        for code, where, message in tool_phase_problems(contract, tool.contract):
            yield tool.document.error(code, where, message)


def _problems(contract: SessionContract, tools: Mapping[str, Tool]) -> Iterator[Problem]:
    for where, name in _named_tools(contract):
        problem = bad_reference(name, tools)
        if problem is not None:
            yield problem[0], where, problem[1]
    bound = {bind.name for tool in tools.values() for bind in tool.contract.binds}
    for index, item in enumerate(contract.aggregates):
        yield from _unbound(item, ("aggregates", index), bound)
        if not _can_begin(item, bound):
            message = "`gte` is checked before each call too, and no first call could reach it"
            yield "FIRST_CALL_BLOCKED", ("aggregates", index), message


def _named_tools(contract: SessionContract) -> Iterator[tuple[KeyPath, str]]:
    """Every tool that a session contract names, with the place."""
    for name in contract.session_limits.max_calls_per_tool:
        yield ("session_limits", "max_calls_per_tool", name), name
    for index, rule in enumerate(contract.policy.rules):
        side = "allow" if rule.deny is None else "deny"
        inside: KeyPath = (side, "tools") if rule.tools is None else ("tools",)
        yield from _listed(rule.named or (), ("policy", "rules", index, *inside))
    for index, gate in enumerate(contract.policy.label_gates):
        yield from _listed(gate.deny_tools, ("policy", "label_gates", index, "deny_tools"))
    for index, item in enumerate(contract.aggregates):
        yield from _listed(item.tools or (), ("aggregates", index, "tool"))
    for index, envelope in enumerate(contract.envelopes):
        for number, stage in enumerate(envelope.stages):
            yield ("envelopes", index, "stages", number, "tool"), stage.tool
    for index, checkpoint in enumerate(contract.checkpoints):
        if checkpoint.tool != ALL:
            yield ("checkpoints", index, "tool"), checkpoint.tool


def _listed(names: Iterable[str], where: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for index, name in enumerate(names):
        yield (*where, index), name


def _unbound(item: Aggregate, where: KeyPath, bound: set[str]) -> Iterator[Problem]:
    """Other bounds that wait for a slot that nothing binds: an error if they are the stricter ones."""
    for index, override in enumerate(item.when):
        if override.binding not in bound:
            lower, upper = override.then_gte, override.then_lte
            # A looser bound that is never used leaves the stricter base in force, so only the other way is an error.
            tightens = (lower is not None and (item.gte is None or lower > item.gte)) or (
                upper is not None and (item.lte is None or upper < item.lte)
            )
            code = "REF_NEVER_BOUND" if tightens else "BOUNDS_NEVER_USED"
            yield code, (*where, "when", index, "binding"), f"no contract binds {override.binding!r}"


def _can_begin(item: Aggregate, bound: set[str]) -> bool:
    """Whether the bounds, whatever is bound, let some call be the first one."""
    try:
        path = item.at
    except BadPath:
        return True  # which is reported as such
    single = path is None or (item.metric in ("count", "count_distinct") and path.get is not None)
    bounds = [item.bounds, *(override.bounds(item) for override in item.when if override.binding in bound)]
    return any(
        lower is None or ((not single or lower <= Decimal(1)) and (upper is None or upper >= lower))
        for lower, upper in bounds
    )


def check_tools(tools: Mapping[str, Tool]) -> Iterator[Diagnostic]:
    """References between tools: slots, forbidden and required tools, earlier outputs."""
    slots: dict[str, str] = {}
    for name, tool in sorted(tools.items()):
        for index, bind in enumerate(tool.contract.binds):
            if bind.name in slots:
                message = f"{bind.name!r} is bound by {slots[bind.name]} already"
                yield tool.document.error("DUPLICATE_BIND", ("binds", index, "name"), message)
            slots[bind.name] = name
    for tool in tools.values():
        for index, item in enumerate(tool.contract.argument_value_invariants):
            at: KeyPath = ("argument_value_invariants", index)
            if item.ref is not None and item.ref not in slots:
                yield tool.document.error("REF_NEVER_BOUND", (*at, "ref"), f"no contract binds {item.ref!r}")
            for source, denied in item.sources:
                where = (*at, *(("not",) if denied else ()), "from_output", "tool")
                problem = bad_reference(source.tool, tools)
                if problem is None and tools[source.tool].contract.evidence_class == "unverifiable":
                    problem = "BIND_NEVER_OBSERVED", f"evidence_class of {source.tool!r} is unverifiable"
                if problem is not None:
                    yield tool.document.error(problem[0], where, problem[1])
        for where, name in tool.contract.named_tools():
            problem = bad_reference(name, tools)
            if problem is not None:
                yield tool.document.error(problem[0], where, problem[1])
