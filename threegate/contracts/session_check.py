"""Checks of what a session contract and the tools' contracts say about each other.

Invariant: every name that a contract uses is declared; a rule about a tool without a contract is an error, never
silently ignored: it would block for ever, or never apply. A session that starts in the initial phase can reach a
terminal one from every reachable phase, and no tool moves it along an undeclared edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import Document, KeyPath
from threegate.contracts.json_paths import BadPath
from threegate.contracts.model_common import Problem
from threegate.contracts.model_session import Aggregate, SessionContract
from threegate.contracts.model_tool import ToolContract
from threegate.contracts.tool_names import bad_reference
from threegate.contracts.tool_rules import ALL, Tool


def check_session(document: Document, contract: SessionContract, tools: Mapping[str, Tool]) -> Iterator[Diagnostic]:
    """Everything in a session contract that names a tool, a phase or a slot, and the phases that tools name."""
    for code, where, message in (*_phase_problems(contract), *_problems(contract, tools)):
        yield document.error(code, where, message)
    for tool in tools.values():
        for code, where, message in _tool_phase_problems(contract, tool.contract):
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


def reachable(initial: Iterable[str], transitions: Mapping[str, Iterable[str]]) -> set[str]:
    """All phases that transitions lead to from `initial`, these included."""
    found = set(initial)
    open_ = list(found)
    while open_:
        for name in transitions.get(open_.pop(), ()):
            if name not in found:
                found.add(name)
                open_.append(name)
    return found


def _phase_problems(contract: SessionContract) -> Iterator[Problem]:
    """What is wrong with the phases of a session."""
    declared = {phase.name for phase in contract.phases}
    for source, targets in contract.transitions.items():
        if source not in declared:
            yield "PHASE_UNDECLARED", ("transitions", source), f"{source!r} is not a declared phase"
        for index, target in enumerate(targets):
            if target not in declared:
                yield "PHASE_UNDECLARED", ("transitions", source, index), f"{target!r} is not a declared phase"
    if not declared:
        return
    initial = [phase.name for phase in contract.phases if phase.initial]
    terminal = {phase.name for phase in contract.phases if phase.terminal}
    if not initial:
        yield "PHASE_NONE_INITIAL", ("phases",), "no phase has initial: true"
    if len(initial) > 1:
        yield "PHASE_MANY_INITIAL", ("phases",), f"{', '.join(initial)} all have initial: true"
    if not terminal:
        yield "PHASE_NONE_TERMINAL", ("phases",), "no phase has terminal: true"
    found = reachable(initial, contract.transitions)
    for index, phase in enumerate(contract.phases):
        if phase.name not in found and initial:
            code = "TERMINAL_PHASE_UNREACHABLE" if phase.terminal else "PHASE_UNREACHABLE"
            yield code, ("phases", index), f"no transition leads to {phase.name!r}"
        if terminal and not phase.terminal and not reachable([phase.name], contract.transitions) & terminal:
            yield "PHASE_DEAD_END", ("phases", index), f"no terminal phase can be reached from {phase.name!r}"


def _tool_phase_problems(contract: SessionContract, tool: ToolContract) -> Iterator[Problem]:
    """Phases of a tool that are not declared, and moves that are not along an edge."""
    if tool.transitions is None:
        return
    declared = {phase.name for phase in contract.phases}
    valid, target = tool.transitions.valid_in_phases, tool.transitions.advances_to
    for index, name in enumerate(valid or ()):
        if name not in declared:
            yield "PHASE_UNDECLARED", ("transitions", "valid_in_phases", index), f"{name!r} is not a declared phase"
    where = ("transitions", "advances_to")
    if target is not None and target not in declared:
        yield "PHASE_UNDECLARED", where, f"{target!r} is not a declared phase"
    elif target is not None:
        for name in sorted(declared if valid is None else declared & set(valid)):
            if name != target and target not in contract.transitions.get(name, ()):
                yield "ADVANCE_WITHOUT_EDGE", where, f"there is no transition from {name!r} to {target!r}"
