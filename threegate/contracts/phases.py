"""The phase machine: checks of `phases`, `transitions`, and the tools that move through them.

Invariant: a session that starts in the initial phase can reach a terminal one from every reachable phase, and
no tool moves it along an undeclared edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from threegate.contracts.model_common import Problem
from threegate.contracts.model_session import SessionContract
from threegate.contracts.model_tool import ToolContract


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


def phase_problems(contract: SessionContract) -> Iterator[Problem]:
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


def tool_phase_problems(contract: SessionContract, tool: ToolContract) -> Iterator[Problem]:
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
