"""What tools say about each other: slots, forbidden tools, required tools.

Invariant: a reference leads to something that exists; one that never could would be a rule that blocks for ever,
or one that never holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from threegate.contracts.build import ToolParts
from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import KeyPath
from threegate.contracts.tool_names import bad_reference


def check_links(tools: Mapping[str, ToolParts]) -> list[Diagnostic]:
    """Diagnostics of all references between tools."""
    found = []
    slots: dict[str, str] = {}
    for name, parts in sorted(tools.items()):
        for index, bind in enumerate(parts.binds):
            if bind.name in slots:
                message = f"{bind.name!r} is bound by {slots[bind.name]} already"
                found.append(parts.document.error("DUPLICATE_BIND", ("binds", index, "name"), message))
            slots[bind.name] = name
    for parts in tools.values():
        contract, report = parts.contract, parts.document.error
        for index, item in enumerate(contract.argument_value_invariants):
            if item.ref is not None and item.ref not in slots:
                at = ("argument_value_invariants", index, "ref")
                found.append(report("REF_NEVER_BOUND", at, f"no contract binds {item.ref!r}"))
        named: list[tuple[KeyPath, str | None]] = [
            *((("forbids_after", index), other) for index, other in enumerate(contract.forbids_after)),
            *(
                (("preconditions", index, "requires_prior_tool"), condition.requires_prior_tool)
                for index, condition in enumerate(contract.preconditions)
            ),
        ]
        for where, other in named:
            problem = None if other is None else bad_reference(other, tools)
            if problem is not None:
                found.append(report(problem[0], where, problem[1]))
    return found
