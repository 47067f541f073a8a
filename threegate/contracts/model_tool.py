"""The per-tool contract, <tool>.yaml: every field of the contract YAML format, and three extensions.

Invariant: what one contract decides alone is decided here; what depends on the session's rules is in `tool_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import Field

from threegate.contracts.comparisons import Entry
from threegate.contracts.document import KeyPath
from threegate.contracts.model_common import (
    JsonPath,
    Located,
    Model,
    Name,
    Number,
    Problem,
    Reason,
    SideEffect,
    Terms,
    ToolPattern,
    path_problems,
    repeated,
)
from threegate.contracts.model_operators import ToolCheckpoint, ToolCondition, ToolInvariant
from threegate.contracts.path_compiler import compile_path
from threegate.contracts.tool_names import OURS, SERVED, WILDCARD
from threegate.core.json_operators import BadPattern, compile_pattern


class Timeouts(Model):
    """How long a call may take."""

    total_ms: Number = Field(description="caps the request's time limit, in milliseconds")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A time limit of zero or less."""
        return self.not_positive("total_ms")


class Retries(Model):
    """Whether an attempt that never started may be made again."""

    max_attempts: int = Field(description="1, or more for side_effect read")
    retry_on: list[str] = Field(description="outcome statuses that allow another attempt")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """No attempt at all."""
        if self.max_attempts < 1:
            yield "LIMIT_NOT_POSITIVE", ("max_attempts",), "must be at least 1"


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

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """No arguments, or two."""
        if (self.arguments is None) == (self.input_ref is None):
            yield "MISSING_FIELD", (), "give exactly one of arguments and input_ref"


class AllowedError(Model):
    """A failure that is expected and does not count towards the circuit breaker."""

    status: str | None = Field(default=None, description="outcome status")
    exit_code: int | None = Field(default=None, description="exit code")
    stderr_regex: str | None = Field(default=None, description="RE2 pattern searched in stderr")
    reason: Reason

    @cached_property
    def search(self) -> Callable[[str], Any]:
        """The compiled pattern. Raises BadPattern."""
        return compile_pattern(self.stderr_regex or "")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """A failure that nothing tells from others, and a pattern that does not compile."""
        if self.status is None and self.exit_code is None and self.stderr_regex is None:
            yield "MISSING_FIELD", (), "give status, exit_code or stderr_regex"
        try:
            compile_pattern(self.stderr_regex or "")
        except BadPattern as problem:
            yield "BAD_REGEX", ("stderr_regex",), str(problem)

    def expects(self, status: str, exit_code: int | None, stderr: str) -> bool:
        """Whether a failure is this one. An empty pattern, or none, is in every stderr."""
        return (
            self.status in (None, status)
            and self.exit_code in (None, exit_code)
            and (self.stderr_regex is None or self.search(stderr) is not None)
        )


class Transitions(Model):
    """Phases of the session in which the tool may run, and the one that follows."""

    valid_in_phases: list[Name] | None = Field(default=None, description="phases where it may run")
    advances_to: Name | None = Field(default=None, description="phase after a success")


class ResourceBinding(Located):
    """The same entity as in the earlier call."""

    bind_from: Literal["arguments", "output"] = Field(
        description="where the earlier call had the value that this call's arguments must repeat"
    )


class StepCount(Model):
    """How many steps must have been committed."""

    gte: int = Field(description="at least that many")


class Precondition(Model):
    """What must have happened before in the session."""

    requires_prior_tool: ToolPattern | None = Field(default=None, description="an earlier successful call")
    with_output: list[ToolCondition] | None = Field(default=None, description="what its output must fulfil")
    resource: ResourceBinding | None = Field(default=None, description="about the same entity")
    requires_step_count: StepCount | None = Field(default=None, description="steps committed before")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """No requirement, or two, or one that always holds."""
        if (self.requires_prior_tool is None) == (self.requires_step_count is None):
            yield "PRECONDITION_EMPTY", (), "must have exactly one of requires_prior_tool and requires_step_count"
        elif self.requires_step_count is not None and (self.with_output or self.resource):
            yield "PRECONDITION_EMPTY", (), "with_output and resource belong to requires_prior_tool"
        elif self.requires_step_count is not None and self.requires_step_count.gte < 1:
            yield "LIMIT_NOT_POSITIVE", ("requires_step_count", "gte"), "must be at least 1"


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


class Bind(Located):
    """Captures a value into a named slot of the session."""

    name: Name
    source: Literal["arguments", "output"] = "arguments"


class Implements(Model):
    """An extension: which requests may name this tool."""

    argv_prefix: list[str] | None = Field(default=None, min_length=1, description="first words of the command")
    code_sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="sha256 of the code block's text"
    )
    image: str | None = Field(default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="ERA image by digest")

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """An entry that any request fits."""
        if self.argv_prefix is None and self.code_sha256 is None:
            yield "MISSING_FIELD", (), "give argv_prefix or code_sha256"


class Check(NamedTuple):
    """An entry over the arguments, with the reason code of a failure and the end of its message."""

    code: str
    entry: Entry
    note: str = ""


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

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The rules for the arguments, in the order of docs/spec/4-contracts.md; those of its schema come after."""
        constraints = self.execution_constraints
        return (
            *(Check("argument_invariant", item.entry) for item in self.argument_value_invariants if item.operators),
            *(Check("execution_constraint", item.entry) for item in (constraints.arguments if constraints else ())),
            *(Check("input_invariant", item.entry) for item in self.assertions.input_invariants),
        )

    @cached_property
    def refs(self) -> tuple[ToolInvariant, ...]:
        """The arguments that must repeat what was bound."""
        return tuple(item for item in self.argument_value_invariants if item.ref is not None)

    @cached_property
    def output_rules(self) -> tuple[ToolInvariant, ...]:
        """The arguments that earlier outputs must have had, or must not have had."""
        return tuple(item for item in self.argument_value_invariants if item.sources)

    @cached_property
    def keyed(self) -> tuple[tuple[str, Precondition], ...]:
        """The preconditions with the keys that the session remembers them by."""
        return tuple((f"{self.tool}#{index}", item) for index, item in enumerate(self.preconditions))

    @cached_property
    def deny(self) -> tuple[Entry, ...]:
        """Principals that may not call the tool."""
        return tuple(rule.principal.entry for rule in (self.policy.deny if self.policy else ()))

    @cached_property
    def allow(self) -> tuple[Entry, ...]:
        """Principals that may; empty for all."""
        return tuple(rule.principal.entry for rule in (self.policy.allow if self.policy else ()))

    @cached_property
    def spoken_of(self) -> frozenset[Any]:
        """Paths without rules from the schema: the contract has its own for them, or excludes them. Raises BadPath."""
        paths = (*(item.path for item in self.argument_value_invariants), *self.schema_derived_exclude)
        return frozenset(compile_path(path).normal for path in paths)

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """Fields that contradict each other, and a tool that no request can name."""
        yield from self._bad_wildcards()
        if self.evidence_class == "ack_only" and self.side_effect in ("destructive", "admin", "financial"):
            yield "ACK_ONLY_ON_HIGH_RISK", ("evidence_class",), f"not with side_effect {self.side_effect}"
        if self.retries.max_attempts > 1 and self.side_effect != "read":
            yield "RETRIES_ABOVE_READ", ("retries", "max_attempts"), f"side_effect is {self.side_effect}"
        yield from repeated([case.id for case in self.golden_cases], ("golden_cases",), "id")
        for index, bind in enumerate(self.binds):
            if bind.source == "output" and self.evidence_class == "unverifiable":
                yield "BIND_NEVER_OBSERVED", ("binds", index), "evidence_class is unverifiable"
        for index, path in enumerate(self.schema_derived_exclude):
            yield from path_problems(path, ("schema_derived_exclude", index))
        if self.implements is None and not self.tool.startswith(OURS) and not SERVED.fullmatch(self.tool):
            yield "NO_IMPLEMENTS", ("tool",), "no request can name this tool (plays can)"

    def named_tools(self) -> Iterator[tuple[KeyPath, str]]:
        """The other tools that the contract names, but for those whose outputs it refers to."""
        for index, name in enumerate(self.forbids_after):
            yield ("forbids_after", index), name
        for index, item in enumerate(self.preconditions):
            if item.requires_prior_tool is not None:
                yield ("preconditions", index, "requires_prior_tool"), item.requires_prior_tool

    def _bad_wildcards(self) -> Iterator[Problem]:
        for where, name in ((("tool",), self.tool), *self.named_tools()):
            if name.endswith(WILDCARD) and self.schema_version == "1.0":
                message = 'a wildcard needs schema_version: "1.1" at the top of the file'
                yield "BAD_WILDCARD", where, message
            if name.endswith(WILDCARD) and name.startswith(OURS):
                yield "BAD_WILDCARD", where, "backends are named one by one"
