"""References between tools: slots, forbidden tools, required tools.

Invariant: a reference leads to something that exists; otherwise its rule would block for ever, or never
apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from threegate.contracts.diagnostics import Diagnostic
from threegate.contracts.document import KeyPath
from threegate.contracts.model_operators import OutputSource, ToolInvariant
from threegate.contracts.tool_names import bad_reference
from threegate.contracts.tool_plan import ToolParts


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
            *(
                (
                    (
                        "argument_value_invariants",
                        index,
                        *(("not",) if denied else ()),
                        "from_output",
                        "tool",
                    ),
                    source.tool,
                )
                for index, item in enumerate(contract.argument_value_invariants)
                for denied, source in _sources(item)
            ),
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
            elif where[-2] == "from_output" and tools[other or ""].contract.evidence_class == "unverifiable":
                found.append(report("BIND_NEVER_OBSERVED", where, f"evidence_class of {other!r} is unverifiable"))
    return found


def _sources(item: ToolInvariant) -> Iterator[tuple[bool, OutputSource]]:
    """The earlier outputs that an argument rule refers to; True: inside its `not`."""
    inner = None if item.negated is None else item.negated.from_output
    yield from ((denied, source) for denied, source in ((False, item.from_output), (True, inner)) if source)
