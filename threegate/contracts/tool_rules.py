"""A session contract applied to the tools: for each tool, the rules that one decision evaluates.

Invariant: what applies to a tool is looked up by its name once, here, so that a decision takes no longer for contracts
that do not apply to it. Nothing is compiled here: the models are (`cached_property`), once for all sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from threegate.contracts.comparisons import Entry
from threegate.contracts.document import Document
from threegate.contracts.model_common import Checkpoint
from threegate.contracts.model_operators import OutputSource
from threegate.contracts.model_session import Aggregate, Envelope, SessionContract, Stage
from threegate.contracts.model_tool import Check, Precondition, ToolContract
from threegate.contracts.schema_derived import Derived
from threegate.contracts.schema_paths import has_path
from threegate.contracts.tool_names import OURS, SERVED, WILDCARD

ALL = "*"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool's contract, the file that it is in, and what its JSON Schema implies."""

    contract: ToolContract
    document: Document
    schema: Derived | None

    @property
    def derived(self) -> tuple[Check, ...]:
        """The rules from the schema, for paths that the contract itself does not speak of."""
        return tuple(
            Check("argument_invariant", entry, " (from the tool's schema)")
            for entry in (self.schema.entries if self.schema else ())
            if entry.path.normal not in self.contract.spoken_of
        )

    def lacks(self, aggregate: Aggregate) -> bool:
        """Whether the tool has no value that an aggregate over all tools adds up, as far as its schema says.

        A wildcard stands for tools that nobody listed, and a server's tool always has a schema: without it here,
        nothing is known.
        """
        name = self.contract.tool
        if aggregate.tools is not None or aggregate.at is None or name.endswith(WILDCARD):
            return False
        if self.schema is None:
            return name.startswith(OURS) or not SERVED.fullmatch(name)
        return not has_path(self.schema.parameters, aggregate.at)


@dataclass(slots=True)
class ToolRules:
    """What applies to one tool under one session contract."""

    contract: ToolContract
    name: str
    risk_allowed: bool
    checks: tuple[Check, ...]
    phases: frozenset[str] | None
    """The phases where the tool may run; None: all."""
    deny: tuple[Entry, ...]
    allow_sets: tuple[tuple[Entry, ...], ...]
    """Each set needs one match of its own."""
    policed: bool
    """Some policy applies here: a missing principal is denied."""
    label_gates: tuple[tuple[str, str], ...]
    """(label, reason)"""
    aggregates: tuple[Aggregate, ...]
    lacking: frozenset[str]
    """Of these aggregates, those over all tools whose value this tool does not have: a call may leave it out."""
    envelopes: tuple[tuple[Envelope, Stage], ...]
    checkpoints: tuple[tuple[str, Checkpoint], ...]
    fulfils: tuple[tuple[str, Precondition], ...]
    """Preconditions of any tool that a success of this one may fulfil, by their keys."""
    remembered: tuple[OutputSource, ...]
    """What `from_output` of any tool asks of this one's outputs."""
    call_limit: int | None

    @property
    def advances_to(self) -> str | None:
        """The phase that follows a success."""
        return None if self.contract.transitions is None else self.contract.transitions.advances_to

    @property
    def early(self) -> bool:
        """Whether its state moves at launch."""
        return self.contract.commit_requirement == "none"


@dataclass(slots=True)
class Rules:
    """One session contract with all tools."""

    file: str
    contract: SessionContract
    plans: dict[str, ToolRules] = field(default_factory=dict)


def apply(file: str, contract: SessionContract, tools: Mapping[str, Tool]) -> Rules:
    """The rules of a session contract over `tools`; nothing in either has a problem."""
    policy = _Policy(contract)
    gates: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for gate in contract.policy.label_gates:
        for name in gate.deny_tools:
            gates[name].append((gate.when_label, gate.reason))
    envelopes: dict[str, list[tuple[Envelope, Stage]]] = defaultdict(list)
    for envelope in contract.envelopes:
        for stage in envelope.stages:
            envelopes[stage.tool].append((envelope, stage))
    checkpoints: dict[str, list[tuple[str, Checkpoint]]] = defaultdict(list)
    for checkpoint in contract.checkpoints:
        checkpoints[checkpoint.tool].append((checkpoint.name, checkpoint))
    fulfils: dict[str, list[tuple[str, Precondition]]] = defaultdict(list)
    remembered: dict[str, dict[str, OutputSource]] = defaultdict(dict)
    for tool in tools.values():
        for key, precondition in tool.contract.keyed:
            fulfils[precondition.requires_prior_tool or ""].append((key, precondition))
        for rule in tool.contract.output_rules:
            for source, _ in rule.sources:
                remembered[source.tool][source.key] = source
    everywhere = [item for item in contract.aggregates if item.tools is None]
    aggregates: dict[str, list[Aggregate]] = defaultdict(list)
    for item in contract.aggregates:
        for name in item.tools or ():
            aggregates[name].append(item)
    rules = Rules(file, contract)
    for name, tool in sorted(tools.items()):
        own = tool.contract
        valid = None if own.transitions is None else own.transitions.valid_in_phases
        rules.plans[name] = ToolRules(
            contract=own,
            name=name,
            risk_allowed=_risk(contract, own),
            checks=(*own.checks, *tool.derived) if contract.schema_derived else own.checks,
            phases=None if valid is None else frozenset(valid),
            deny=(*own.deny, *policy.entries("deny", name)),
            allow_sets=policy.allow_sets(name, own.allow),
            policed=policy.speaks or bool(own.deny or own.allow),
            label_gates=tuple(gates[name]),
            aggregates=(*everywhere, *aggregates[name]),
            lacking=frozenset(item.name for item in everywhere if tool.lacks(item)),
            envelopes=tuple(envelopes[name]),
            checkpoints=(
                *(() if own.checkpoint is None else ((f"tool:{name}", own.checkpoint),)),
                *checkpoints[name],
                *checkpoints[ALL],
            ),
            fulfils=tuple(fulfils[name]),
            remembered=tuple(remembered[name].values()),
            call_limit=contract.session_limits.max_calls_per_tool.get(name),
        )
    return rules


def _risk(contract: SessionContract, tool: ToolContract) -> bool:
    """The tool's gate, else the session's default for its side effect, else reads only."""
    if tool.gate is not None:
        return tool.gate == "allow"
    default = contract.risk_defaults.get(tool.side_effect)
    return tool.side_effect == "read" if default is None else default == "allow"


class _Policy:
    """The session's policy, sorted by the tools it applies to."""

    def __init__(self, contract: SessionContract) -> None:
        self.default_deny = contract.policy.default_deny
        self.speaks = self.default_deny or bool(contract.policy.rules)
        self._entries: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for rule in contract.policy.rules:
            for side, inner in (("deny", rule.deny), ("allow", rule.allow)):
                for name in [ALL] if rule.named is None else rule.named:
                    if inner is not None:
                        self._entries[side, name].append(inner.principal.entry)

    def entries(self, side: Literal["allow", "deny"], tool: str) -> tuple[Entry, ...]:
        """Principals that the session allows or denies the tool."""
        return (*self._entries[side, ALL], *self._entries[side, tool])

    # With default_deny and no allow rule about the tool, one empty set remains, which nobody matches.
    def allow_sets(self, tool: str, own: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], ...]:
        """The sets that each need a match: the tool's own, and the session's if it mentions the tool."""
        sets = [allowed for allowed in (own, self.entries("allow", tool)) if allowed]
        return tuple(sets) if sets or not self.default_deny else ((),)
