"""What schema_version 1.1 of a tool's contract adds to its conditions and argument rules.

Invariant: an entry of version 1.0 has none of these fields set; `SINCE_1_1` names them, and `newer` refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from threegate.contracts.decimals import exact
from threegate.contracts.model_common import (
    WHEN,
    Checkpoint,
    Condition,
    JsonPath,
    Located,
    Model,
    Operators,
    Problem,
    Terms,
    ToolPattern,
    TriggerCondition,
    ValueInvariant,
    said,
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


class OutputSource(Located):
    """Values of the outputs that earlier calls of a tool gave in this session."""

    tool: ToolPattern = Field(description="a tool that has a contract")
    path: JsonPath = Field(description="where in its outputs the values are, for example $.items[*].id")

    @cached_property
    def key(self) -> str:
        """The name under which the session remembers these values."""
        return f"{self.tool} {self.path}"


class NegatedArgument(Negated):
    """What must not hold of an argument, all of it together."""

    equals_arg: JsonPath | None = Field(default=None, description="equals another argument of the call")
    from_output: OutputSource | None = Field(
        default=None, description="was in the output of an earlier call of that tool"
    )


class ToolInvariant(ValueInvariant, _Extended):
    """An argument rule: a subset of the operators, and `ref` to a slot that was bound earlier."""

    SINCE_1_1: ClassVar[frozenset[str]] = _Extended.SINCE_1_1 | {"contains", "equals_arg", "from_output"}

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

    @cached_property
    def sources(self) -> tuple[tuple[OutputSource, bool], ...]:
        """Earlier outputs that must have had the value, or with True must not have had it."""
        denied = None if self.negated is None else self.negated.from_output
        return tuple((source, no) for source, no in ((self.from_output, False), (denied, True)) if source is not None)

    @cached_property
    def operators(self) -> dict[str, Any]:
        """The operators that need no session: without `ref`, and without `from_output` and the `not` around one."""
        beside = {"path", "ref", "tolerance", "from_output"}
        if any(denied for _, denied in self.sources):
            beside.add("negated")
        return said(self, frozenset(beside))

    @cached_property
    def near(self) -> Decimal | None:
        """The tolerance as it is written."""
        return None if self.tolerance is None else exact(self.tolerance)

    def problems(self, terms: Terms) -> Iterator[Problem]:
        """As every entry's; what only the session decides may be the whole rule."""
        if self.tolerance is not None and self.ref is None:
            yield "TOLERANCE_WITHOUT_REF", ("tolerance",), "needs a ref in the same entry"
        elif self.operators or not (self.sources or self.ref is not None):
            yield from super().problems(terms)
        else:
            yield from [*self.newer(terms)] or Located.problems(self, terms)
        if self.negated is not None and self.negated.from_output is not None and len(self.negated.model_fields_set) > 1:
            message = "must be alone in its `not`; give the other operators an entry each"
            yield "BAD_OPERAND", ("not", "from_output"), message
