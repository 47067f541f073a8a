"""session.yaml: phases, limits, policy, aggregates, envelopes, checkpoints of a session."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import Field

from threegate.contracts.comparisons import Entry
from threegate.contracts.decimals import exact
from threegate.contracts.model_common import (
    JsonPath,
    Located,
    Model,
    Name,
    NamedCheckpoint,
    Number,
    PrincipalRule,
    Problem,
    Reason,
    SideEffect,
    Terms,
    path_problems,
    repeated,
    said,
)
from threegate.contracts.path_compiler import Path, compile_path
from threegate.core import limits

_PROVIDER_TERM: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*(=[^\s+]+)?")
_NEEDS: Final = {
    "lte_ceiling": ("ceiling",),
    "gte_floor": ("floor",),
    "within_band": ("anchor",),
    "monotonic_decrease": ("initial",),
    "monotonic_increase": ("initial",),
    "bounded": ("ceiling", "floor"),
}
"""The roles that each constraint of an envelope needs besides `constrained`."""


class Phase(Model):
    """A phase of the session."""

    name: Name
    initial: bool = False
    terminal: bool = False


class LoopDetection(Model):
    """Equal calls in a row of the last calls."""

    window: int = Field(description="how many calls are looked at, this one included")
    threshold: int = Field(description="how many equal ones are a loop")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A loop that no window can show."""
        yield from self.not_positive("window", "threshold")
        if self.threshold > self.window or self.window > limits.CONTRACT_LOOP_WINDOW:
            message = f"threshold is at most the window, and the window at most {limits.CONTRACT_LOOP_WINDOW}"
            yield "BAD_TYPE", (), message


class CircuitBreaker(Model):
    """What ends a session for good."""

    consecutive_blocks: int | None = Field(default=None, description="blocked calls without a success between")
    consecutive_errors: int | None = Field(default=None, description="failed calls without a success between")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A breaker that is always open."""
        return self.not_positive("consecutive_blocks", "consecutive_errors")


class SessionLimits(Model):
    """Bounds over a session. Committed calls count."""

    max_steps: int | None = Field(default=None, description="steps, that is committed calls")
    max_tool_calls: int | None = Field(default=None, description="tool calls")
    max_tool_calls_mode: Literal["block", "narrow"] = Field(
        default="block", description="narrow also reports which tools are left"
    )
    max_cost_per_session: Number | None = Field(default=None, description="cost of all calls")
    max_calls_per_tool: dict[str, int] = Field(default={}, description="calls of one tool")
    loop_detection: LoopDetection | None = None
    circuit_breaker: CircuitBreaker | None = None

    @cached_property
    def max_cost(self) -> Decimal | None:
        """The highest cost as it is written."""
        return None if self.max_cost_per_session is None else exact(self.max_cost_per_session)

    @cached_property
    def counted(self) -> bool:
        """Whether any total is bounded."""
        totals = (self.max_steps, self.max_tool_calls, self.max_cost_per_session)
        return totals != (None, None, None) or bool(self.max_calls_per_tool)

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Limits that let nothing through."""
        yield from self.not_positive("max_steps", "max_tool_calls", "max_cost_per_session")
        for name, number in self.max_calls_per_tool.items():
            if number <= 0:
                yield "LIMIT_NOT_POSITIVE", ("max_calls_per_tool", name), "must be above zero"


class SessionRule(Model):
    """One allow or deny rule; `tools` beside or inside."""

    deny: PrincipalRule | None = None
    allow: PrincipalRule | None = None
    tools: list[str] | None = Field(default=None, description="only these tools")

    @property
    def named(self) -> list[str] | None:
        """The only tools that the rule is about; None: all."""
        inner = self.allow or self.deny
        return self.tools if self.tools is not None or inner is None else inner.tools

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A rule that does not say what it does, or for which tools."""
        inner = self.allow or self.deny
        if (self.allow is None) == (self.deny is None):
            yield "MISSING_FIELD", (), "a rule is one of allow and deny"
        elif self.tools is not None and inner is not None and inner.tools is not None:
            yield "TOOLS_TWICE", (), "tools is given both beside and inside"


class LabelGate(Model):
    """Tools that a label of the session closes."""

    when_label: Name
    deny_tools: list[str] = Field(min_length=1)
    reason: Reason


class SessionPolicy(Model):
    """Who may call what; a deny beats every allow."""

    default_deny: bool = False
    rules: list[SessionRule] = []
    label_gates: list[LabelGate] = []


class Provider(Model):
    """What a model provider's interface does not take."""

    block_incompatible: list[str] = Field(default=[], description="patterns that are errors")
    warn_incompatible: list[str] = Field(default=[], description="patterns that are warnings")
    warn_floating_alias: bool = Field(default=False, description="warn about a model name without a version")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Patterns other than `field=value`, `field` or a model name, joined by ` + `."""
        for kind in ("block_incompatible", "warn_incompatible"):
            for index, pattern in enumerate(getattr(self, kind)):
                if not all(_PROVIDER_TERM.fullmatch(term.strip()) for term in pattern.split(" + ")):
                    yield "BAD_PROVIDER_PATTERN", (kind, index), f"{pattern!r} is not a provider pattern"


class ExtractFrom(Located):
    """Where a resource's id is in the arguments."""


class Resource(Model):
    """A kind of entity that calls are about."""

    type: Name
    extract_from: ExtractFrom


class BoundOverride(Model):
    """Other bounds while a slot holds a certain value."""

    binding: Name
    gte: Number | None = None
    lte: Number | None = None
    equals: Any = None
    then_gte: Number | None = None
    then_lte: Number | None = None

    @cached_property
    def entry(self) -> Entry:
        """The test of the slot's value."""
        return Entry(compile_path("$"), said(self, frozenset({"binding", "then_gte", "then_lte"})))

    def bounds(self, aggregate: Aggregate) -> tuple[Decimal | None, Decimal | None]:
        """(gte, lte) of an aggregate while the slot's value fulfils the test."""
        return (
            aggregate.bounds[0] if self.then_gte is None else exact(self.then_gte),
            aggregate.bounds[1] if self.then_lte is None else exact(self.then_lte),
        )

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """No other bounds, or no test."""
        if self.then_gte is None and self.then_lte is None:
            yield "AGGREGATE_WITHOUT_BOUND", (), "neither then_gte nor then_lte"
        if not self.entry.tests:
            yield "NO_OPERATOR", (), "has no operator"


class Aggregate(Model):
    """A bound on what all calls of the session make together."""

    name: Name
    metric: Literal["sum", "count", "max", "min", "count_distinct"]
    tool: str | list[str] = Field(description='a tool, tools, or "*"')
    path: JsonPath | None = None
    gte: Number | None = Field(default=None, description="checked before every call, and when the session is closed")
    lte: Number | None = Field(default=None, description="checked before every call")
    reason: Reason
    when: list[BoundOverride] = []

    @cached_property
    def at(self) -> Path | None:
        """The compiled path. Raises BadPath."""
        return None if self.path is None else compile_path(self.path)

    @cached_property
    def bounds(self) -> tuple[Decimal | None, Decimal | None]:
        """(gte, lte) while no slot gives others."""
        return None if self.gte is None else exact(self.gte), None if self.lte is None else exact(self.lte)

    @cached_property
    def tools(self) -> list[str] | None:
        """The tools whose calls are added up; None: every tool."""
        return None if self.tool in ("*", ["*"]) else [self.tool] if isinstance(self.tool, str) else self.tool

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """No bound, or no value that is bounded."""
        if self.gte is None and self.lte is None:
            yield "AGGREGATE_WITHOUT_BOUND", (), "neither gte nor lte"
        if self.path is None and self.metric != "count":
            yield "AGGREGATE_WITHOUT_PATH", (), f"{self.metric} needs the path of a value"
        if self.path is not None:
            yield from path_problems(self.path, ("path",))


class Stage(Located):
    """Where an envelope takes or binds a value."""

    tool: str
    role: Literal["ceiling", "floor", "anchor", "initial", "constrained"]


class Envelope(Model):
    """A value of a later call that an earlier one bounds."""

    name: Name
    stages: list[Stage]
    constraint: Literal[
        "lte_ceiling", "gte_floor", "within_band", "monotonic_decrease", "monotonic_increase", "bounded"
    ]
    band: Number | None = Field(default=None, ge=0, description="fraction, for within_band")
    reason: Reason

    @cached_property
    def exact_band(self) -> Decimal:
        """The fraction as it is written."""
        return exact(self.band or 0)

    @cached_property
    def own(self) -> frozenset[str]:
        """The tools that are measured against their own first call."""
        constrained = {stage.tool for stage in self.stages if stage.role == "constrained"}
        return frozenset(constrained & {stage.tool for stage in self.stages if stage.role != "constrained"})

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Keys of the references that a constrained stage is measured against."""
        return tuple(self._key(role) for role in _NEEDS[self.constraint])

    def captures(self, stage: Stage) -> str | None:
        """Key of the reference that a committed call of a stage sets; None: it only obeys.

        A monotonic value is measured against the last one.
        """
        if stage.role == "constrained" and not self.constraint.startswith("monotonic"):
            return None
        return self._key("initial" if stage.role == "constrained" else stage.role)

    def _key(self, role: str) -> str:
        return f"{self.name}/{'last' if role == 'initial' else role}"

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Stages, roles and band that do not fit the constraint."""
        if len(self.stages) < 2:
            yield "ENVELOPE_TOO_SHORT", ("stages",), "at least two stages"
        if (self.band is None) == (self.constraint == "within_band"):
            yield "BAND_MISSING", (), "within_band has a band, and only it"
        needed = _NEEDS[self.constraint]
        roles: list[str] = [stage.role for stage in self.stages]
        if set(roles) != {*needed, "constrained"}:
            message = f"{self.constraint} takes the roles {', '.join(needed)} and constrained"
            yield "ENVELOPE_ROLE_MISMATCH", ("stages",), message
        elif roles.index("constrained") < max(roles.index(role) for role in needed):
            yield "ENVELOPE_ROLE_MISMATCH", ("stages",), "a constrained stage comes before the one that bounds it"
        if set(needed) & {"ceiling", "floor"} and self.own:
            message = "a tool does not set its own ceiling or floor: let another tool do it"
            yield "ENVELOPE_ROLE_MISMATCH", ("stages",), message
        spelled: dict[str, Any] = {}
        for index, stage in enumerate(self.stages):
            if stage.tool not in self.own or any(Located.problems(stage, terms)):
                continue
            if spelled.setdefault(stage.tool, stage.at.normal) != stage.at.normal:
                message = "a tool that bounds itself does so with one value; give both stages the same path"
                yield "ENVELOPE_ROLE_MISMATCH", ("stages", index, "path"), message


class Suppression(Model):
    """A graph diagnostic that is meant so."""

    check: str
    tool: str | None = Field(default=None, description="the tool (phase_without_tool: the phase)")
    reason: str = ""


class GraphAnalysis(Model):
    """What the graph analysis leaves out."""

    suppress: list[Suppression] = []


class SessionContract(Model):
    """The rules of a session."""

    schema_version: Literal["1.0"]
    agent: Name
    phases: list[Phase] = []
    transitions: dict[str, list[Name]] = Field(default={}, description="phase: phases that may follow")
    session_limits: SessionLimits = SessionLimits()
    risk_defaults: dict[SideEffect, Literal["allow", "block"]] = {}
    policy: SessionPolicy = SessionPolicy()
    provider_constraints: dict[str, Provider] = {}
    resources: dict[str, Resource] = {}
    aggregates: list[Aggregate] = []
    envelopes: list[Envelope] = []
    checkpoints: list[NamedCheckpoint] = []
    schema_derived: bool = Field(default=True, description="derive rules from tool schemas")
    graph_analysis: GraphAnalysis = GraphAnalysis()

    @cached_property
    def initial(self) -> str | None:
        """The phase in which a session starts."""
        return next((phase.name for phase in self.phases if phase.initial), None)

    @cached_property
    def loop_threshold(self) -> int:
        """How many equal calls are a loop; 0 without loop detection."""
        loop = self.session_limits.loop_detection
        return 0 if loop is None else loop.threshold

    @cached_property
    def window_size(self) -> int:
        """How many earlier calls a session remembers for it: the window includes the call that is decided."""
        loop = self.session_limits.loop_detection
        return 0 if loop is None else loop.window - 1

    @cached_property
    def breaker(self) -> CircuitBreaker:
        """The circuit breaker; without one, one that never opens."""
        return self.session_limits.circuit_breaker or CircuitBreaker()

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Names that occur twice."""
        for where in ("phases", "aggregates", "envelopes", "checkpoints"):
            yield from repeated([item.name for item in getattr(self, where)], (where,))
