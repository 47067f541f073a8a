"""Parts shared by all three files: bounded names, numbers, paths and the entries with operators.

Invariant: a model accepts exactly the fields of the contract YAML format and our named extensions; an unset
field is absent (`model_fields_set`), so `equals: null` is a rule and a missing `equals` is not.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StrictFloat, StrictInt

from threegate.core import limits
from threegate.core.record import Record, without_null

SideEffect = Literal["read", "write", "destructive", "admin", "financial"]
JsonType = Literal["string", "number", "integer", "boolean", "object", "array"]
Number = StrictInt | StrictFloat
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$")]
ToolPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(\.\*)?$")]
"""A tool or, in version 1.1, all tools below a name without their own contract: ``github.*``."""
JsonPath = Annotated[str, Field(description="JSONPath (RFC 9535), for example $.field")]
Reason = Annotated[str, Field(min_length=1, max_length=limits.CONTRACT_REASON_CHARS)]


class Model(Record):
    """Base of all contract models."""

    model_config = ConfigDict(json_schema_extra=without_null)


class Operators(Model):
    """The operators on one value."""

    equals: Any = Field(default=None, description="deep JSON equality")
    type: JsonType | None = Field(default=None, description="JSON type; 1.0 is an integer, as in JSON Schema")
    contains: str | None = Field(default=None, description="text within a text, or an entry of a list")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")
    regex: str | None = Field(default=None, description="RE2 pattern, searched, not anchored")
    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    length_gte: int | None = Field(default=None, ge=0, description="length of a text or list, at least")
    length_lte: int | None = Field(default=None, ge=0, description="length of a text or list, at most")
    equals_env: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="equals that environment variable"
    )


class Condition(Operators):
    """A path and the full set of operators; several operators in one entry must all hold."""

    path: JsonPath
    exists: bool = Field(default=True, description="whether something other than null is at the path")


class ValueInvariant(Model):
    """An argument rule: the subset of operators, and `ref` to a slot that was bound earlier."""

    path: JsonPath
    exact_match: str | None = Field(default=None, description="exactly this text")
    type: JsonType | None = Field(default=None, description="JSON type; 1.0 is an integer, as in JSON Schema")
    regex: str | None = Field(default=None, description="RE2 pattern, searched, not anchored")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")
    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    ref: str | None = Field(default=None, description="equals the value bound to that slot")
    tolerance: Number | None = Field(default=None, ge=0, description="relative nearness to the ref")


class TriggerCondition(Model):
    """A condition of a checkpoint."""

    path: JsonPath
    gte: Number | None = Field(default=None, description="number, at least")
    lte: Number | None = Field(default=None, description="number, at most")
    equals: Any = Field(default=None, description="deep JSON equality")
    one_of: list[Any] | None = Field(default=None, description="the value is one of these")


class ContextField(Model):
    """What is shown to the person who answers a checkpoint."""

    path: JsonPath
    label: Annotated[str, Field(min_length=1, max_length=limits.CONTRACT_LABEL_CHARS)]


WHEN: Final = "`always`, or conditions on the arguments"


class Checkpoint(Model):
    """When a person must decide before the call may run."""

    when_side_effect: SideEffect | None = Field(default=None, description="every tool of that side effect")
    match: Literal["any", "all"] = Field(default="any", description="any or all conditions trigger")
    timeout_seconds: Number = Field(description="how long an answer is waited for, and holds; at least 30")
    on_timeout: Literal["deny", "allow"] = Field(default="deny", description="what silence means")
    context: list[ContextField] = Field(default=[], description="shown to the person who decides")


class NamedCheckpoint(Checkpoint):
    """A checkpoint of the session."""

    name: Name
    tool: str = Field(description='the tool, or "*"')
    when: Literal["always"] | list[TriggerCondition] | None = Field(default=None, description=WHEN)


class PrincipalRule(Model):
    """To whom a rule applies."""

    principal: Condition
    tools: list[str] | None = Field(default=None, description="only these tools")
