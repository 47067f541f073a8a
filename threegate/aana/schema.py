"""The published JSON Schema of an event, made from the same vocabulary that the gate reads.

Invariant: an event is valid against it exactly when `validate_event` finds nothing in it once it names v1 (within
the gate's bounds on size and depth). The rules that join fields (D15) are the reference's: there is one schema under
its `$id`. Only references are taken before the reference fills them in: strings, or with keys left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threegate.aana import vocabulary as words
from threegate.core.risk_domains import RISK_DOMAINS


def event_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an Agent Action Contract v1 event."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": words.SCHEMA_ID,
        "title": "AANA Agent Action Contract v1",
        "description": "What an agent's runtime states about a tool call before the call may run.",
        "type": "object",
        "additionalProperties": False,
        "required": list(words.REQUIRED_FIELDS),
        "properties": {
            "tool_name": {
                "type": "string",
                "minLength": 1,
                "description": "The tool exactly as the agent will call it.",
            },
            "tool_category": {
                "enum": list(words.CATEGORIES),
                "description": "What the call can affect.",
            },
            "authorization_state": {
                "enum": list(words.STATES),
                "description": "The strongest authorization known before the call.",
            },
            "evidence_refs": {
                "type": "array",
                "items": {"anyOf": [_blank_free(), _reference()]},
                "description": "Redacted evidence. Plain strings are for quickstarts; production takes objects.",
            },
            "risk_domain": {"enum": list(RISK_DOMAINS), "description": "Where harm would be done."},
            "proposed_arguments": {
                "type": "object",
                "description": "The arguments that the agent will pass, redacted where possible.",
            },
            "recommended_route": {
                "enum": list(words.ROUTES),
                "description": "What the runtime proposes; a stricter one than the gate's wins.",
            },
            "schema_version": {"const": words.CONTRACT_VERSION},
            "request_id": {"type": "string"},
            "agent_id": {"type": "string"},
            "user_intent": {"type": "string"},
            "authorization_subject": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "subject_type": {"enum": list(words.SUBJECT_TYPES)},
                    "subject_ref": {"type": "string"},
                },
            },
        },
        "allOf": [
            *(
                _when_accepted(category, "authorization_state", words.STATES[least:])
                for category, least in words.ACCEPTED_FROM.items()
            ),
            _when_accepted("unknown", "recommended_route", words.ROUTES[words.ASK :]),
        ],
    }


def event_part() -> dict[str, Any]:
    """The event's schema as a part of a document that has its own `$schema`, without the rules that join fields."""
    return {key: value for key, value in event_schema().items() if key not in ("$schema", "$id", "allOf")}


def _when_accepted(category: str, field: str, values: Sequence[str]) -> dict[str, Any]:
    """What a field must be in an event of a category for which accept is recommended (D15)."""
    said = {"tool_category": {"const": category}, "recommended_route": {"const": "accept"}}
    return {
        "if": {"properties": said, "required": list(said)},
        "then": {"properties": {field: {"enum": list(values)}}},
    }


def _blank_free() -> dict[str, Any]:
    return {"type": "string", "pattern": r"\S"}


def _reference() -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["source_id"],
        "properties": {
            "source_id": _blank_free(),
            "kind": {"enum": list(words.KINDS), "default": "other"},
            "trust_tier": {"enum": list(words.TIERS), "default": "unknown"},
            "redaction_status": {"enum": list(words.REDACTIONS), "default": "unknown"},
            "freshness": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "status": {"enum": list(words.FRESHNESS), "default": "unknown"},
                    "checked_at": {"type": "string"},
                    "max_age_hours": {"type": "number"},
                    "age_hours": {"type": "number"},
                    "source": {"type": "string"},
                },
            },
            **{field: {"type": "string"} for field in words.REF_STRINGS},
            "provenance": {"type": "string", "minLength": 1},
            "supports": texts,
            "contradicts": texts,
        },
    }
