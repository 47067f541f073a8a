"""The compiled form of contracts: what the engine evaluates for one tool.

Invariant: a plan is frozen and independent of files; everything that could be looked up or compiled in
advance was, so that a decision needs only dictionary look-ups and comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Literal

from threegate.contracts.json_paths import Path, selected
from threegate.core.json_operators import is_number

if TYPE_CHECKING:
    from threegate.contracts.comparisons import CompiledEntry
    from threegate.contracts.document import Document
    from threegate.contracts.model_session import SessionContract
    from threegate.contracts.model_tool import ToolContract
    from threegate.contracts.schema_derived import Derived

EXACT = Context(prec=1200)
"""Enough digits that the sum of doubles is never rounded: totals do not depend on the order of calls."""


def exact(number: int | float) -> Decimal:
    """A JSON number as the decimal that is written."""
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


@dataclass(frozen=True, slots=True)
class ArgumentCheck:
    """An entry over the arguments, with the reason code of a failure."""

    code: str
    entry: CompiledEntry
    note: str = ""


@dataclass(frozen=True, slots=True)
class RefPlan:
    """An argument that must equal a bound slot."""

    path: Path
    slot: str
    tolerance: Decimal | None


@dataclass(frozen=True, slots=True)
class OutputSourcePlan:
    """Values in a tool's outputs that the session remembers. `key` names them there."""

    key: str
    tool: str
    path: Path


@dataclass(frozen=True, slots=True)
class OutputRule:
    """An argument that earlier outputs must have had, or with `negated` must not have had."""

    path: Path
    source: OutputSourcePlan
    negated: bool


@dataclass(frozen=True, slots=True)
class PreconditionPlan:
    """Something that must have happened before. `key` identifies it in the session."""

    key: str
    tool: str | None
    with_output: tuple[CompiledEntry, ...]
    resource: Path | None
    bind_from: Literal["arguments", "output"]
    steps: int | None


@dataclass(frozen=True, slots=True)
class Override:
    """Other bounds of an aggregate while a slot fulfils the tests."""

    binding: str
    entry: CompiledEntry
    gte: Decimal | None
    lte: Decimal | None


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """A bound over all calls."""

    name: str
    metric: Literal["sum", "count", "max", "min", "count_distinct"]
    path: Path | None
    gte: Decimal | None
    lte: Decimal | None
    reason: str
    overrides: tuple[Override, ...]
    tools: frozenset[str] | None
    """None: every tool."""
    strangers: frozenset[str] = frozenset()
    """Of every tool, those that have no value at the path, as far as their schema says: they may leave it out."""


@dataclass(frozen=True, slots=True)
class EnvelopePlan:
    """One stage of an envelope as its tool sees it."""

    name: str
    path: Path
    role: str
    constraint: str
    band: Decimal
    reason: str
    needs: tuple[str, ...]
    """Keys of the references that a constrained stage is measured against."""
    captures: str | None
    """Key of the reference that a committed call of this stage sets; None: it only obeys."""
    own: bool = False
    """The tool sets the reference that it is measured against: its first call does, and no later one."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """When a person must decide."""

    name: str
    always: bool
    conditions: tuple[CompiledEntry, ...]
    side_effect: str | None
    match_all: bool
    timeout_seconds: float
    on_timeout: Literal["deny", "allow"]
    context: tuple[tuple[str, Path], ...]


@dataclass(frozen=True, slots=True)
class BindPlan:
    """A value that a success captures."""

    name: str
    source: Literal["arguments", "output"]
    path: Path


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """A failure that does not count towards the breaker."""

    status: str | None
    exit_code: int | None
    stderr: Any
    reason: str


@dataclass(slots=True)
class ToolParts:
    """A compiled tool before a session contract is applied."""

    contract: ToolContract
    document: Document
    manual: tuple[ArgumentCheck, ...]
    derived: tuple[ArgumentCheck, ...]
    refs: tuple[RefPlan, ...]
    output_rules: tuple[OutputRule, ...]
    preconditions: tuple[PreconditionPlan, ...]
    outputs: tuple[CompiledEntry, ...]
    binds: tuple[BindPlan, ...]
    expected_failures: tuple[ExpectedFailure, ...]
    deny: tuple[CompiledEntry, ...]
    allow: tuple[CompiledEntry, ...]
    checkpoint: CheckpointPlan | None
    variables: set[str] = field(default_factory=set)
    schema: Derived | None = None


@dataclass(slots=True)
class ToolPlan:
    """One tool under one session contract."""

    parts: ToolParts
    contract: ToolContract
    name: str
    risk_allowed: bool
    checks: tuple[ArgumentCheck, ...]
    phases: frozenset[str] | None
    advances_to: str | None
    deny: tuple[CompiledEntry, ...] = ()
    allow_sets: tuple[tuple[CompiledEntry, ...], ...] = ()
    """Each set needs one match of its own."""
    policed: bool = False
    """Some policy applies here: a missing principal is denied."""
    label_gates: tuple[tuple[str, str], ...] = ()
    aggregates: tuple[AggregatePlan, ...] = ()
    envelopes: tuple[EnvelopePlan, ...] = ()
    checkpoints: tuple[CheckpointPlan, ...] = ()
    fulfils: tuple[PreconditionPlan, ...] = ()
    """Preconditions of any tool that a success of this one may fulfil."""
    remembered: tuple[OutputSourcePlan, ...] = ()
    """What `from_output` of any tool asks of this one's outputs."""
    call_limit: int | None = None
    early: bool = False
    """commit_requirement none: its state moves at launch."""


@dataclass(slots=True)
class Rules:
    """One session contract with all tools, compiled."""

    file: str
    contract: SessionContract
    plans: dict[str, ToolPlan]
    initial: str | None = None
    max_steps: int | None = None
    max_calls: int | None = None
    max_cost: Decimal | None = None
    narrow: bool = False
    window_size: int = 0
    """Calls kept for the loop: one less than the window, 0 without loop detection."""
    loop_threshold: int = 0
    max_blocks: int | None = None
    max_errors: int | None = None
    limited: bool = False
    """Whether any limit or aggregate over totals exists."""
    aggregates: tuple[AggregatePlan, ...] = ()
    resources: tuple[tuple[str, str, Path], ...] = ()
    """(alias, type, path)"""
    terminal: frozenset[str] = field(default_factory=frozenset)


def measure(aggregate: AggregatePlan, tool: str, arguments: Any) -> list[Any] | Literal["unmeasurable", "outside"]:
    """The values that one call adds to an aggregate. A call is outside of an aggregate over all tools if it has no such
    value and its tool knows none.
    """
    path = aggregate.path
    if path is None:
        return [1]
    values = selected(path, arguments)
    if values == []:
        absence = path.absence(arguments)
        if absence == "no such key" and tool in aggregate.strangers:
            return "outside"
        return [] if absence == "empty list" and aggregate.metric == "sum" else "unmeasurable"
    if values is None:
        return "unmeasurable"
    if aggregate.metric in ("sum", "max", "min"):
        for value in values:
            if not is_number(value) or value - value != 0:  # infinities and NaN
                return "unmeasurable"
    return values
