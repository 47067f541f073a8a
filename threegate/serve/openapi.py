"""What the HTTP server says of itself: the event, the envelope, four example events."""

from __future__ import annotations

from typing import Any, Final

from threegate.aana import vocabulary as words
from threegate.aana.envelope import EVENT_TYPE

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "public_read_accept": {
        "summary": "Public read: accept",
        "value": {
            "tool_name": "search_docs",
            "tool_category": "public_read",
            "authorization_state": "none",
            "evidence_refs": [],
            "risk_domain": "research",
            "proposed_arguments": {"query": "Agent Action Contract v1"},
            "recommended_route": "accept",
        },
    },
    "write_missing_confirmation_ask": {
        "summary": "Write missing confirmation: ask",
        "value": {
            "tool_name": "send_email",
            "tool_category": "write",
            "authorization_state": "user_claimed",
            "evidence_refs": ["draft_id:123"],
            "risk_domain": "customer_support",
            "proposed_arguments": {"to": "customer@example.com"},
            "recommended_route": "accept",
        },
    },
    "private_read_missing_auth_defer": {
        "summary": "Private read missing authentication: defer",
        "value": {
            "tool_name": "get_recent_transactions",
            "tool_category": "private_read",
            "authorization_state": "none",
            "evidence_refs": [],
            "risk_domain": "finance",
            "proposed_arguments": {"account_id": "acct_redacted", "limit": 5},
            "recommended_route": "accept",
        },
    },
    "unknown_destructive_refuse": {
        "summary": "Unknown destructive tool: refuse",
        "value": {
            "tool_name": "delete_database",
            "tool_category": "unknown",
            "authorization_state": "none",
            "evidence_refs": [],
            "risk_domain": "unknown",
            "proposed_arguments": {"database": "prod"},
            "recommended_route": "refuse",
        },
    },
}


def result_schema() -> dict[str, Any]:
    """The JSON Schema of the result envelope."""
    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    route = {"enum": list(words.ROUTES)}
    gate = {"enum": ["pass", "fail"]}
    state = {"enum": list(words.STATES)}
    score = {"type": "number", "minimum": 0, "maximum": 1}
    maybe_text = {"type": ["string", "null"]}
    return _object(
        {
            "contract_version": {"const": words.CONTRACT_VERSION},
            "route": route,
            "tool_name": maybe_text,
            "tool_category": {"enum": [*words.CATEGORIES, None]},
            "effective_category": {"enum": list(words.CATEGORIES)},
            "risk_domain": {"enum": [*words.RISK_DOMAINS, None]},
            "gate_decision": gate,
            "recommended_action": route,
            "candidate_gate": gate,
            "aana_route": route,
            "runtime_recommended_route": {"enum": [*words.ROUTES, None]},
            "execution_allowed": {"type": "boolean"},
            "hard_blockers": texts,
            "deviations": texts,
            "aix": _object(
                {
                    "score": score,
                    "components": _object({"P": score, "C": score, "F": score}),
                    "decision": route,
                    "hard_blockers": texts,
                    "thresholds": {"type": "object", "additionalProperties": score},
                }
            ),
            "architecture_decision": _object(
                {
                    "route": route,
                    "gate_decision": gate,
                    "execution_allowed": {"type": "boolean"},
                    "hard_blockers": texts,
                    "aix_score": score,
                    "authorization_state": state,
                    "recovery": text,
                }
            ),
            "authorization": _object(
                {"declared_state": state, "evidence_supported_state": state, "effective_state": state}
            ),
            "validation_errors": {"type": "array", "items": _object({"path": text, "message": text})},
            "reasons": texts,
            "evidence_report": _object(
                {
                    "checked_ref_count": {"type": "integer", "minimum": 0},
                    "used_source_ids": texts,
                    "contradictory_source_ids": texts,
                    "missing_source_ids": texts,
                    "stale_source_ids": texts,
                    "warning_codes": texts,
                }
            ),
            "audit_safe_log_event": _object(
                {
                    "type": {"const": EVENT_TYPE},
                    "request_id": maybe_text,
                    "agent_id": maybe_text,
                    "tool_name": maybe_text,
                    "tool_category": {"enum": [*words.CATEGORIES, None]},
                    "effective_category": {"enum": list(words.CATEGORIES)},
                    "risk_domain": {"enum": [*words.RISK_DOMAINS, None]},
                    "declared_state": state,
                    "supported_state": state,
                    "effective_state": state,
                    "recommended_route": {"enum": [*words.ROUTES, None]},
                    "route": route,
                    "gate_decision": gate,
                    "hard_blockers": texts,
                    "deviations": texts,
                    "aix_score": score,
                    "argument_keys": texts,
                    "evidence_source_ids": {"type": "array", "items": maybe_text},
                }
            ),
        }
    )


def error_schema() -> dict[str, Any]:
    """The JSON Schema of every answer that is no decision."""
    text = {"type": "string"}
    return _object({"error": _object({"code": text, "message": text})})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}
