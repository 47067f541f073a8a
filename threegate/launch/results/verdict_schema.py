"""Verdict files as a model; `schemas/verdict.schema.json` is generated from it."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from threegate.core.record import Record, published, schema_of
from threegate.launch.results.verdict import State
from threegate.request.schema import ExposureFacts, ReportFinding, ReportFix

_RULES: Final = "^TG[1-59][0-9]{2}$"
"""The rules of gate 1, and those that need the workspace (TG9xx)."""


class VerdictFinding(ReportFinding):
    """One finding, of gate 1 or of the workspace."""

    rule: str = Field(pattern=_RULES)


class VerdictFix(ReportFix):
    """One fix: whole lines, see `threegate.request.report.Fix`."""

    rule: str = Field(pattern=_RULES)


class ProposalFinding(Record):
    """One problem of a proposal, by JSON pointer."""

    path: str
    code: str
    message: str


class VerdictFile(ExposureFacts):
    """``tool-exec/verdicts/<file name>.json``."""

    schema_: Literal["threegate.verdict/1"] = Field(alias="schema")
    file: str = Field(description="the request's file name")
    sha256: str = Field(description="of the bytes that this speaks of; empty when they were not read")
    request_id: str | None
    stage: str
    valid: bool = Field(description="whether gate 1 found no error")
    state: State
    reason: str | None = Field(description="the rule or reason code that decides the state")
    findings: list[VerdictFinding | ProposalFinding] = Field(
        description="what gate 1 found; of a proposal: its problems by JSON pointer"
    )
    judgement: dict[str, Any] | None = Field(description="route, blockers and contract, once judged")
    fixes: list[VerdictFix] = Field(description="whole lines to change in the bytes of `sha256`, last line first")
    updated_utc: str = Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")


def verdict_schema() -> dict[str, Any]:
    """The JSON Schema of `VerdictFile`."""
    return published("verdict", "ThreeGate verdict", schema_of(VerdictFile))
