"""What tools say about each other: slots, forbidden tools, required tools.

Invariant: a reference leads to something that exists; one that never could would be a rule that blocks for ever,
or one that never holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from threegate.contracts.build import ToolParts
from threegate.contracts.diagnostics import Diagnostic


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
                where = ("argument_value_invariants", index, "ref")
                found.append(report("REF_NEVER_BOUND", where, f"no contract binds {item.ref!r}"))
        for index, name in enumerate(contract.forbids_after):
            if name not in tools:
                message = f"no contract describes {name!r}"
                found.append(report("UNKNOWN_TOOL_REFERENCE", ("forbids_after", index), message))
        for index, condition in enumerate(contract.preconditions):
            required = condition.requires_prior_tool
            if required is not None and required not in tools:
                where = ("preconditions", index, "requires_prior_tool")
                found.append(report("UNKNOWN_TOOL_REFERENCE", where, f"no contract describes {required!r}"))
    return found
