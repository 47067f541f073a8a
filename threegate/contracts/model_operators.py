"""What schema_version 1.1 of a tool's contract adds to its conditions and argument rules.

Invariant: an entry of version 1.0 has none of these fields set; `SINCE_1_1` names them, and the compiler refuses them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from threegate.contracts.model_common import (
    WHEN,
    Checkpoint,
    Condition,
    JsonPath,
    Model,
    Operators,
    ToolPattern,
    TriggerCondition,
    ValueInvariant,
)

Text = Annotated[str, Field(min_length=1)]
Listed = Annotated[list[Text], Field(min_length=1)]


class _TextOperators(Model):
    """Operators that judge a text in one plain spelling only (`strict_texts`)."""

    starts_with: Text | None = Field(default=None, description="1.1: the text begins so")
    ends_with: Text | None = Field(default=None, description="1.1: the text ends so")
    glob: Text | None = Field(default=None, description="1.1: the whole text; * and ? never stand for /, ** does")
    under: Text | Listed | None = Field(
        default=None, description="1.1: a path that is, or stays below, one of these folders"
    )
    host_in: Listed | None = Field(
        default=None, description="1.1: a URL or host, of these; *.example.com is every name below"
    )
    email_domain_in: Listed | None = Field(default=None, description="1.1: an e-mail address at one of these domains")


class Negated(Operators, _TextOperators):
    """What must not hold, all of it together."""

    exact_match: str | None = Field(default=None, description="exactly this text")


class _Extended(_TextOperators):
    SINCE_1_1: ClassVar[frozenset[str]] = frozenset({*_TextOperators.model_fields, "negated"})

    negated: Negated | None = Field(
        default=None, alias="not", description="1.1: these operators do not hold, and each could be judged"
    )


class ToolCondition(Condition, _Extended):
    """A condition in a tool's contract: a path and the full set of operators, which must all hold."""


class ToolTrigger(TriggerCondition, _Extended):
    """A condition of a tool's checkpoint."""


class ToolCheckpoint(Checkpoint):
    """A checkpoint of one tool."""

    when: Literal["always"] | list[ToolTrigger] | None = Field(default=None, description=WHEN)


class OutputSource(Model):
    """Values of the outputs that earlier calls of a tool gave in this session."""

    tool: ToolPattern = Field(description="a tool that has a contract")
    path: JsonPath = Field(description="where in its outputs the values are, for example $.items[*].id")


class NegatedArgument(Negated):
    """What must not hold of an argument, all of it together."""

    equals_arg: JsonPath | None = Field(default=None, description="equals another argument of the call")
    from_output: OutputSource | None = Field(
        default=None, description="was in the output of an earlier call of that tool"
    )


class ToolInvariant(ValueInvariant, _Extended):
    """An argument rule: a subset of the operators, and `ref` to a slot that was bound earlier."""

    SINCE_1_1: ClassVar[frozenset[str]] = _Extended.SINCE_1_1 | {
        "contains",
        "equals_arg",
        "from_output",
    }

    equals_arg: JsonPath | None = Field(
        default=None, description="1.1: equals the one value at this path of the same arguments"
    )
    from_output: OutputSource | None = Field(
        default=None, description="1.1: was in the output of an earlier successful call of that tool"
    )
    negated: NegatedArgument | None = Field(
        default=None, alias="not", description="1.1: these operators do not hold, and each could be judged"
    )
    contains: str | None = Field(default=None, description="1.1: text within a text, or an entry of a list")


def said(model: Model, without: frozenset[str]) -> dict[str, Any]:
    """The operators that an entry really says, by name and sorted; what is in `not` as such a mapping."""
    found = {name: getattr(model, name) for name in sorted(model.model_fields_set - without)}
    if "negated" in found:
        found["not"] = said(found.pop("negated"), frozenset())
    return found
