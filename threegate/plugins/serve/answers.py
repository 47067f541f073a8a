"""The bodies and answers of the HTTP gates as models: the OpenAPI document, the tools' schemas of MCP and files of
`schemas/` are generated from them.

Invariant: nothing reads an answer with these models, so a schema of an answer is open: a later version may say more.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from threegate.aana.vocabulary import Category, Route, State
from threegate.core import limits
from threegate.core.record import Record, without_null
from threegate.core.risk_domains import RiskDomain
from threegate.core.version import shipped

_INT32: Final[JsonDict] = {"format": "int32"}
"""OpenAPI wants it of each integer."""
_Score = Annotated[float, Field(ge=0, le=1)]
_Gate = Literal["pass", "fail"]


class _Answer(Record):
    model_config = ConfigDict(extra="ignore", json_schema_extra=without_null)


class Components(_Answer):
    """The parts of a score."""

    P: _Score
    C: _Score
    F: _Score


class Aix(_Answer):
    """The score of a decision."""

    score: _Score
    components: Components
    decision: Route
    hard_blockers: list[str]
    thresholds: dict[str, _Score]


class ArchitectureDecision(_Answer):
    """The decision once more, with what to do next."""

    route: Route
    gate_decision: _Gate
    execution_allowed: bool
    hard_blockers: list[str]
    aix_score: _Score
    authorization_state: State
    recovery: str


class Authorization(_Answer):
    """The states of authorization: as declared, as the evidence supports it, and the weaker of both."""

    declared_state: State
    evidence_supported_state: State
    effective_state: State


class ValidationProblem(_Answer):
    """One problem of an event's form."""

    path: str
    message: str


class EvidenceReport(_Answer):
    """What the evidence came to, by source."""

    checked_ref_count: int = Field(ge=0, le=limits.AANA_EVENT_BYTES, json_schema_extra=_INT32)
    used_source_ids: list[str]
    contradictory_source_ids: list[str]
    missing_source_ids: list[str]
    stale_source_ids: list[str]
    warning_codes: list[str]


class AuditSafeEvent(_Answer):
    """What may be stored anywhere: ids, names and codes, never values."""

    type: Literal["aana_decision/1"]
    request_id: str | None
    agent_id: str | None
    tool_name: str | None
    tool_category: Category | None
    effective_category: Category
    risk_domain: RiskDomain | None
    declared_state: State
    supported_state: State
    effective_state: State
    recommended_route: Route | None
    route: Route
    gate_decision: _Gate
    hard_blockers: list[str]
    deviations: list[str]
    aix_score: _Score
    argument_keys: list[str]
    evidence_source_ids: list[str | None]


class Decision(_Answer):
    """The decision on an event (`threegate.aana.decision` makes it)."""

    contract_version: Literal["aana.agent_tool_precheck.v1"]
    route: Route
    tool_name: str | None
    tool_category: Category | None
    effective_category: Category
    risk_domain: RiskDomain | None
    gate_decision: _Gate
    recommended_action: Route
    candidate_gate: _Gate
    aana_route: Route
    runtime_recommended_route: Route | None
    execution_allowed: bool
    hard_blockers: list[str]
    deviations: list[str]
    aix: Aix
    architecture_decision: ArchitectureDecision
    authorization: Authorization
    validation_errors: list[ValidationProblem]
    reasons: list[str]
    evidence_report: EvidenceReport
    audit_safe_log_event: AuditSafeEvent


class DecisionReason(_Answer):
    """One reason of a decision, without the values that only the operator may see."""

    layer: int = Field(ge=0, le=9, json_schema_extra=_INT32)
    code: str
    path: str


class DemandedCheckpoint(_Answer):
    """A contract checkpoint that waits for a person."""

    name: str
    timeout_seconds: float
    on_timeout: Literal["deny", "allow"]


class LineEnd(_Answer):
    """How the session took the end of a call."""

    status: str
    reasons: list[DecisionReason]


class ContractDecision(_Answer):
    """What the contracts decide: `verdict` for a call, `outcome` if one was given, `reasons` for a session's end."""

    verdict: Literal["allow", "block", "checkpoint"] | None = None
    reasons: list[DecisionReason] | None = None
    checkpoints: list[DemandedCheckpoint] | None = None
    allowed_tools: list[str] | None = None
    outcome: LineEnd | None = None


class Failure(_Answer):
    """Why there is no decision."""

    code: str
    message: str


class Error(_Answer):
    """Every answer that is not a decision."""

    error: Failure


class Alive(_Answer):
    """The process answers."""

    status: Literal["ok"]


class Ready(_Answer):
    """Decisions can be made and recorded."""

    status: Literal["ready"]


def schema_part(name: str) -> dict[str, Any]:
    """A published schema as a part of an OpenAPI document."""
    file = shipped("schemas") / f"{name}.schema.json"
    schema = {key: value for key, value in json.loads(file.read_bytes()).items() if key not in ("$schema", "$id")}
    return dict(_with_format(schema))


def _with_format(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_format(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    below = {key: _with_format(item) for key, item in schema.items()}
    return {**below, **_INT32} if below.get("type") == "integer" else below
