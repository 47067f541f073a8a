"""The phase machine: checks of `phases`, `transitions`, and the tools that move through them.

Invariant: a session that starts in the initial phase can reach a terminal one from every reachable phase, and
no tool moves it along an undeclared edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from threegate.contracts.build import Scope
from threegate.contracts.model_session import SessionContract
from threegate.contracts.tool_plan import ToolParts


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


def check_phases(scope: Scope, contract: SessionContract, tools: Mapping[str, ToolParts]) -> None:
    """Report every error in the phases of a session and of its tools."""
    names = [phase.name for phase in contract.phases]
    declared = set(names)
    for index, name in enumerate(names):
        if name in names[:index]:
            scope.error("DUPLICATE_NAME", ("phases", index, "name"), f"{name!r} stands twice")
    for source, targets in contract.transitions.items():
        if source not in declared:
            scope.error("PHASE_UNDECLARED", ("transitions", source), f"{source!r} is no declared phase")
        for index, target in enumerate(targets):
            if target not in declared:
                scope.error("PHASE_UNDECLARED", ("transitions", source, index), f"{target!r} is no declared phase")
    if names:
        _machine(scope, contract)
    for parts in tools.values():
        _tool(scope, contract, declared, parts)


def _machine(scope: Scope, contract: SessionContract) -> None:
    initial = [phase.name for phase in contract.phases if phase.initial]
    terminal = {phase.name for phase in contract.phases if phase.terminal}
    if not initial:
        scope.error("PHASE_NONE_INITIAL", ("phases",), "no phase has initial: true")
    if len(initial) > 1:
        scope.error("PHASE_MANY_INITIAL", ("phases",), f"{', '.join(initial)} all have initial: true")
    if not terminal:
        scope.error("PHASE_NONE_TERMINAL", ("phases",), "no phase has terminal: true")
    found = reachable(initial, contract.transitions)
    for index, phase in enumerate(contract.phases):
        if phase.name not in found and initial:
            code = "TERMINAL_PHASE_UNREACHABLE" if phase.terminal else "PHASE_UNREACHABLE"
            scope.error(code, ("phases", index), f"no transition leads to {phase.name!r}")
        if terminal and not phase.terminal and not reachable([phase.name], contract.transitions) & terminal:
            scope.error("PHASE_DEAD_END", ("phases", index), f"no terminal phase can be reached from {phase.name!r}")


def _tool(scope: Scope, contract: SessionContract, declared: set[str], parts: ToolParts) -> None:
    """A tool's phases are declared, and it moves along edges only."""
    transitions = parts.contract.transitions
    if transitions is None:
        return
    report = parts.document.error
    valid = transitions.valid_in_phases
    for index, name in enumerate(valid or ()):
        if name not in declared:
            scope.diagnostics.append(
                report(
                    "PHASE_UNDECLARED",
                    ("transitions", "valid_in_phases", index),
                    f"{name!r} is no declared phase",
                )
            )
    target = transitions.advances_to
    if target is None:
        return
    where = ("transitions", "advances_to")
    if target not in declared:
        scope.diagnostics.append(report("PHASE_UNDECLARED", where, f"{target!r} is no declared phase"))
        return
    for name in sorted(declared if valid is None else declared & set(valid)):
        if name != target and target not in contract.transitions.get(name, ()):
            scope.diagnostics.append(
                report("ADVANCE_WITHOUT_EDGE", where, f"there is no transition from {name!r} to {target!r}")
            )
