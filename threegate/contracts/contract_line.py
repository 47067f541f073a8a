"""The lines of a replay as models; `schemas/contract-line.schema.json` is generated from them.

Invariant: a line is read whole or refused, and what is said of a wrong one repeats no value. What only an operator
or the clock may say of a call is not in the published schema, and `serve/` refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from threegate.contracts.json_paths import MISSING
from threegate.contracts.state import CallOutcome
from threegate.core.errors import InvalidInput
from threegate.core.record import Record, without_null

_Cost = Annotated[float, Field(ge=0)]
"""A number that releases no budget."""
_Seconds = SkipJsonSchema[Annotated[float, Field(ge=0, lt=10**9)]]
"""Time since the beginning of the replay."""


class _Line(Record):
    model_config = ConfigDict(json_schema_extra=without_null)


class LineOutcome(_Line):
    """How a call ended."""

    status: str
    output: Any = None
    cost: _Cost | None = None
    exit_code: int | None = Field(default=None, ge=0, le=255, json_schema_extra={"format": "int32"})
    stderr: str | None = None
    artifacts: list[str] | None = None
    retry_after: float | None = None

    def ended(self) -> CallOutcome:
        """The same for the engine, which tells an output of null from none."""
        output = self.output if "output" in self.model_fields_set else MISSING
        files = tuple(self.artifacts or ())
        return CallOutcome(self.status, output, self.cost, self.exit_code, self.stderr or "", files, self.retry_after)


def _with_status(value: Any) -> Any:
    return {"status": value} if isinstance(value, str) else value


_Outcome = Annotated[
    LineOutcome,
    BeforeValidator(_with_status, json_schema_input_type=str | LineOutcome),
    Field(description="How a call ended: a status, or the status and its result."),
]


class CallLine(_Line):
    """A call of a tool that the caller runs."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    principal: dict[str, Any] | None = None
    session_id: str | None = None
    workflow_session: str | None = None
    role: str | None = None
    parent: str | None = None
    labels: list[str] | None = None
    cost: _Cost | None = None
    artifacts: list[str] | None = None
    claim: str | None = Field(default=None, description="Names the call, so that finish can say how it ended.")
    outcome: _Outcome | None = None
    at: _Seconds = 0
    asked: _Seconds | None = None
    answer: SkipJsonSchema[Literal["approve", "deny"]] | None = None


class FinishLine(_Line):
    """The end of a claimed call."""

    finish: str
    outcome: _Outcome = Field(default_factory=lambda: LineOutcome(status="succeeded"))
    at: _Seconds = 0


class CloseLine(_Line):
    """The end of a session."""

    close: str
    at: _Seconds = 0


class Kill(_Line):
    """What an operator ends."""

    scope: str
    name: str


class KillLine(_Line):
    """The end of a session, a subtree or a workflow for good."""

    kill: Kill
    at: _Seconds = 0


ContractLine = CallLine | FinishLine | CloseLine
"""The lines of a caller."""
_PARTS: Final[Mapping[str, type[_Line]]] = {"outcome": LineOutcome, "kill": Kill}


def read_line(value: Mapping[str, Any]) -> ContractLine | KillLine:
    """A line: a call, or one of the ends. Raises InvalidInput."""
    ends: dict[str, type[FinishLine | CloseLine | KillLine]]
    ends = {"finish": FinishLine, "close": CloseLine, "kill": KillLine}
    kind = next((ends[key] for key in ends if key in value), CallLine)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(_mistake(error, kind)) from None


def _mistake(error: ValidationError, kind: type[_Line]) -> str:
    found = error.errors(include_input=False, include_context=False, include_url=False)
    place = next((item["loc"] for item in found if item["type"] == "extra_forbidden"), None)
    if place is not None:
        known = _PARTS[str(place[0])] if len(place) > 1 else kind
        return f"a line has no key {place[-1]!r}; it has {', '.join(sorted(known.model_fields))}"
    name, *inner = map(str, found[0]["loc"])
    if name == "outcome" and (not inner or inner == ["status"]):
        return f"an outcome is a status, or a mapping with {', '.join(LineOutcome.model_fields)}"
    if name == "outcome":
        return f"{inner[0]} of an outcome has another type, or is out of range"
    if name == "kill":
        return "kill is an object with scope and name"
    if found[0]["type"] == "missing":
        return "a line is a call (tool, arguments), or close, kill or finish"
    if name in ("at", "asked"):
        return f"{name} is a number of seconds from the beginning of the play"
    return f"{name} has another type than a call's"
