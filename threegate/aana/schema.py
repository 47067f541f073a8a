"""An event as models: its published JSON Schema is generated from them.

Invariant: an event is valid against it exactly when `validate_event` finds nothing in it once it names v1 (within
the gate's bounds on size and depth). The rules that join fields (D15) are the reference's: there is one schema under
its `$id`. Only references are taken before the reference fills them in: strings, or with keys left out.
The gate itself reads without these models, because it names every problem of an event at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from threegate.aana import vocabulary as words
from threegate.core.record import DIALECT, Record, schema_of, without_null
from threegate.core.risk_domains import RiskDomain

_NotBlank = Annotated[str, Field(pattern=r"\S")]


class _Part(Record):
    model_config = ConfigDict(json_schema_extra=without_null)


class Freshness(_Part):
    """How old the evidence is."""

    status: words.FreshnessStatus = "unknown"
    checked_at: str | None = None
    max_age_hours: float | None = None
    age_hours: float | None = None
    source: str | None = None


class EvidenceReference(_Part):
    """Where a piece of evidence is from, and how far it can be trusted."""

    source_id: _NotBlank
    kind: words.Kind = "other"
    trust_tier: words.Tier = "unknown"
    redaction_status: words.Redaction = "unknown"
    freshness: Freshness | None = None
    summary: str | None = None
    retrieved_at: str | None = None
    citation_url: str | None = None
    retrieval_url: str | None = None
    provenance: str | None = Field(default=None, min_length=1)
    supports: list[str] | None = None
    contradicts: list[str] | None = None


class AuthorizationSubject(_Part):
    """Whom the authorization is about."""

    subject_type: words.SubjectType | None = None
    subject_ref: str | None = None


class AgentActionEvent(_Part):
    """What an agent's runtime states about a tool call before the call may run."""

    tool_name: str = Field(min_length=1, description="The tool exactly as the agent will call it.")
    tool_category: words.Category = Field(description="What the call can affect.")
    authorization_state: words.State = Field(description="The strongest authorization known before the call.")
    evidence_refs: list[_NotBlank | EvidenceReference] = Field(
        description="Redacted evidence. Plain strings are for quickstarts; production takes objects."
    )
    risk_domain: RiskDomain = Field(description="Where harm would be done.")
    proposed_arguments: dict[str, Any] = Field(
        description="The arguments that the agent will pass, redacted where possible."
    )
    recommended_route: words.Route = Field(
        description="What the runtime proposes; a stricter one than the gate's wins."
    )
    schema_version: Literal["aana.agent_tool_precheck.v1"] | None = None
    request_id: str | None = None
    agent_id: str | None = None
    user_intent: str | None = None
    authorization_subject: AuthorizationSubject | None = None


def event_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an Agent Action Contract v1 event."""
    rules = [
        *(
            _when_accepted(category, "authorization_state", words.STATES[least:])
            for category, least in words.ACCEPTED_FROM.items()
        ),
        _when_accepted("unknown", "recommended_route", words.ROUTES[words.ASK :]),
    ]
    head = {"$schema": DIALECT, "$id": words.SCHEMA_ID, "title": "AANA Agent Action Contract v1"}
    return {**head, **event_part(), "allOf": rules}


def event_part() -> dict[str, Any]:
    """The event's schema as a part of a document that has its own `$schema`, without the rules that join fields."""
    return schema_of(AgentActionEvent)


def _when_accepted(category: str, field: str, values: Sequence[str]) -> dict[str, Any]:
    """What a field must be in an event of a category for which accept is recommended (D15)."""
    said = {"tool_category": {"const": category}, "recommended_route": {"const": "accept"}}
    return {
        "if": {"properties": said, "required": list(said)},
        "then": {"properties": {field: {"enum": list(values)}}},
    }
