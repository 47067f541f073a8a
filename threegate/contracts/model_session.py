"""session.yaml: phases, limits, policy, aggregates, envelopes, checkpoints of a session."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from threegate.contracts.model_common import (
    JsonPath,
    Model,
    Name,
    NamedCheckpoint,
    Number,
    PrincipalRule,
    Reason,
    SideEffect,
)


class Phase(Model):
    """A phase of the session."""

    name: Name
    initial: bool = False
    terminal: bool = False


class LoopDetection(Model):
    """Equal calls in a row of the last calls."""

    window: int = Field(description="how many calls are looked at, this one included")
    threshold: int = Field(description="how many equal ones are a loop")


class CircuitBreaker(Model):
    """What ends a session for good."""

    consecutive_blocks: int | None = Field(default=None, description="blocked calls without a success between")
    consecutive_errors: int | None = Field(default=None, description="failed calls without a success between")


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


class SessionRule(Model):
    """One allow or deny rule; `tools` beside or inside."""

    deny: PrincipalRule | None = None
    allow: PrincipalRule | None = None
    tools: list[str] | None = Field(default=None, description="only these tools")


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


class ExtractFrom(Model):
    """Where a resource's id is in the arguments."""

    path: JsonPath


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


class Stage(Model):
    """Where an envelope takes or binds a value."""

    tool: str
    path: JsonPath
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
