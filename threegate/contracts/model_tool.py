"""The per-tool contract, <tool>.yaml: every field of the contract YAML format, and three extensions of ours."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from threegate.contracts.model_common import (
    JsonPath,
    Model,
    Name,
    Number,
    Reason,
    SideEffect,
    ToolPattern,
)
from threegate.contracts.model_operators import ToolCheckpoint, ToolCondition, ToolInvariant


class Timeouts(Model):
    """How long a call may take."""

    total_ms: Number = Field(description="caps the request's time limit, in milliseconds")


class Retries(Model):
    """Whether an attempt that never started may be made again."""

    max_attempts: int = Field(description="1, or more for side_effect read")
    retry_on: list[str] = Field(description="outcome statuses that allow another attempt")


class On429(Model):
    """What follows a 429 that the proxy saw."""

    respect_retry_after: bool = Field(description="delay the tool's next request by Retry-After")
    max_sleep_seconds: Number = Field(ge=0, description="longest delay")


class RateLimits(Model):
    """Handling of rate limits."""

    on_429: On429


class Assertions(Model):
    """Structural assertions before and after."""

    input_invariants: list[ToolCondition] = Field(description="must hold for the arguments")
    output_invariants: list[ToolCondition] = Field(description="must hold for /out/result.json")


class GoldenCase(Model):
    """A reference case that `threegate contracts test` runs."""

    id: Name
    arguments: dict[str, Any] | None = Field(default=None, description="the arguments of the call")
    input_ref: str | None = Field(default=None, description="a JSON file in the folder with the arguments")
    expect_ok: bool = Field(description="whether the call is allowed (and its output accepted)")
    expected_error: str | None = Field(default=None, description="the reason code that must be given")
    principal: dict[str, Any] | None = Field(default=None, description="who calls")
    output: Any = Field(default=None, description="an output that output_invariants are checked on")


class AllowedError(Model):
    """A failure that is expected and does not count towards the circuit breaker."""

    status: str | None = Field(default=None, description="outcome status")
    exit_code: int | None = Field(default=None, description="exit code")
    stderr_regex: str | None = Field(default=None, description="RE2 pattern searched in stderr")
    reason: Reason


class Transitions(Model):
    """Phases of the session in which the tool may run, and the one that follows."""

    valid_in_phases: list[Name] | None = Field(default=None, description="phases where it may run")
    advances_to: Name | None = Field(default=None, description="phase after a success")


class ResourceBinding(Model):
    """The same entity as in the earlier call."""

    bind_from: Literal["arguments", "output"] = Field(
        description="where the earlier call had the value that this call's arguments must repeat"
    )
    path: JsonPath


class StepCount(Model):
    """How many steps must have been committed."""

    gte: int = Field(description="at least that many")


class Precondition(Model):
    """What must have happened before in the session."""

    requires_prior_tool: ToolPattern | None = Field(default=None, description="an earlier successful call")
    with_output: list[ToolCondition] | None = Field(default=None, description="what its output must fulfil")
    resource: ResourceBinding | None = Field(default=None, description="about the same entity")
    requires_step_count: StepCount | None = Field(default=None, description="steps committed before")


class ResponseFormat(Model):
    """What a recorded model response must look like."""

    finish_reason: str | None = Field(default=None, description="expected finish reason")
    content_when_tool_calls: Literal["empty", "allowed"] | None = Field(
        default=None, description="whether text is allowed next to tool calls"
    )
    tool_calls_present: bool | None = Field(default=None, description="whether there must be tool calls")


class ExecutionConstraints(Model):
    """Checks of the arguments with the full set of operators."""

    arguments: list[ToolCondition]


class ToolRule(Model):
    """Whom an allow or deny entry is about."""

    principal: ToolCondition


class ToolPolicy(Model):
    """Who may call the tool; a deny beats every allow."""

    allow: list[ToolRule] = Field(default=[], description="with any entry, only who matches one")
    deny: list[ToolRule] = Field(default=[], description="never who matches one")


class Bind(Model):
    """Captures a value into a named slot of the session."""

    name: Name
    source: Literal["arguments", "output"] = "arguments"
    path: JsonPath


class Implements(Model):
    """Our extension: which requests may name this tool."""

    argv_prefix: list[str] | None = Field(default=None, min_length=1, description="first words of the command")
    code_sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="sha256 of the code block's text"
    )
    image: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="ERA image by digest")


class ToolContract(Model):
    """One tool: what it does, what must hold before, and what follows from it."""

    schema_version: Literal["1.0", "1.1"] = Field(
        default="1.0", description="1.1 adds operators, `not` around them, and wildcards"
    )
    tool: ToolPattern = Field(description="the tool's name, and the name of this file; 1.1: also name.*")
    side_effect: SideEffect = Field(description="risk class")
    evidence_class: Literal["local_transaction", "ack_only", "unverifiable"] = Field(
        description="what proves a success"
    )
    commit_requirement: Literal["acknowledged", "none"] = Field(description="when the state moves")
    timeouts: Timeouts
    retries: Retries
    rate_limits: RateLimits
    assertions: Assertions
    golden_cases: list[GoldenCase]
    allowed_errors: list[AllowedError]
    gate: Literal["allow", "block"] | None = Field(default=None, description="overrides risk_defaults")
    transitions: Transitions | None = None
    preconditions: list[Precondition] = []
    forbids_after: list[ToolPattern] = Field(default=[], description="tools that may not run after this one")
    argument_value_invariants: list[ToolInvariant] = []
    response_format_invariants: ResponseFormat | None = None
    execution_constraints: ExecutionConstraints | None = None
    policy: ToolPolicy | None = None
    binds: list[Bind] = []
    schema_derived: bool = Field(default=True, description="derive rules from <tool>.schema.json")
    schema_derived_exclude: list[JsonPath] = Field(default=[], description="paths without derived rules")
    checkpoint: ToolCheckpoint | None = None
    adds_labels: list[Name] = Field(default=[], description="extension: labels that a success adds")
    arguments_from: Literal["vars"] | None = Field(
        default=None, description="extension: the request's Inputs object is the root of the arguments"
    )
    implements: Implements | None = Field(default=None, description="extension: which requests may name it")
