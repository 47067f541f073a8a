"""The OpenAPI document of the HTTP server, with the event, the envelope and four example events.

Invariant: the document relies on no default of OpenAPI: each operation lists its security (empty if no token
is required), all of its answers with their media types, and bounds for each integer.
"""

from __future__ import annotations

from typing import Any, Final

from threegate import __version__
from threegate.aana import vocabulary as words
from threegate.aana.envelope import EVENT_TYPE
from threegate.aana.schema import event_part
from threegate.core import limits
from threegate.core.risk_domains import RISK_DOMAINS
from threegate.serve.gate_schemas import (
    contract_decision_schema,
    contract_line_schema,
    proposal_schema,
    proposal_verdict_schema,
)

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
            "risk_domain": {"enum": [*RISK_DOMAINS, None]},
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
                    "checked_ref_count": _integer(0, limits.AANA_EVENT_BYTES),
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
                    "risk_domain": {"enum": [*RISK_DOMAINS, None]},
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


_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_MEANINGS: Final = {
    200: "The requested data.",
    400: "No HTTP/1.1 request.",
    401: "The token is missing or wrong.",
    404: "No workspace, or the extra threegate[metrics] is not installed.",
    408: "The body arrived too slowly.",
    413: "The body is larger than 64 KiB.",
    415: "The Content-Type is not application/json.",
    429: "Too many requests from this address; Retry-After says how long to wait.",
    503: "Temporarily unavailable: something cannot be recorded or read, or too many connections are open.",
}


def openapi_document(*, token: bool) -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server that requires a bearer token, or none."""
    components: dict[str, Any] = {
        "schemas": {
            "Event": event_part(),
            "Decision": result_schema(),
            "Proposal": proposal_schema(),
            "ProposalVerdict": proposal_verdict_schema(),
            "ContractLine": contract_line_schema(),
            "ContractDecision": contract_decision_schema(),
            "Error": _error_schema(),
        }
    }
    if token:
        components["securitySchemes"] = {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token that the server was started with (THREEGATE_TOKEN).",
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ThreeGate pre-tool check",
            "description": (
                "The AANA Agent Action Contract v1: may this tool call run now? And the verdicts on action proposals, "
                "and the decisions by a workspace's contracts."
            ),
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "contact": {
                "name": "The ThreeGate developers",
                "url": "https://github.com/threegate/threegate",
            },
        },
        "servers": [{"url": "/", "description": "The server that returned this document."}],
        "tags": [
            {"name": "decision", "description": "Decisions of the gates."},
            {"name": "state", "description": "State of the server and its workspace."},
        ],
        "paths": {
            "/pre-tool-check": {"post": _pre_tool_check(token)},
            "/proposals/validate": {
                "post": _judging(
                    token,
                    "validateProposal",
                    "What is the verdict on this proposal?",
                    "Judges one JSON action proposal. This runs nothing: auto and approval mean that it may "
                    "become a draft.",
                    "Proposal",
                    "ProposalVerdict",
                )
            },
            "/contracts/decide": {"post": _contracts_decide(token)},
            "/health": {
                "get": _operation(
                    "health",
                    "Is the process alive?",
                    "Whether the process answers; not rate-limited.",
                    _state("ok"),
                )
            },
            "/ready": {
                "get": _operation(
                    "ready",
                    "Can it decide?",
                    "Whether decisions can be made and recorded.",
                    _state("ready"),
                    429,
                )
            },
            "/metrics": {
                "get": _operation(
                    "metrics",
                    "The workspace's numbers",
                    "The workspace's numbers for Prometheus.",
                    {_TEXT: {"schema": {"type": "string"}}},
                    *((401,) if token else ()),
                    404,
                    429,
                    secured=token,
                )
            },
        },
        "components": components,
    }


def _pre_tool_check(token: bool) -> dict[str, Any]:
    operation = _judging(
        token,
        "preToolCheck",
        "May this call run?",
        "Decides on one Agent Action Contract v1 event. Execute only when execution_allowed is true.",
        "Event",
        "Decision",
    )
    unread = operation["responses"]["400"]
    unread["description"] = "The body is not JSON, and the envelope says refuse; or not an HTTP/1.1 request."
    unread["content"] = {_JSON: {"schema": _reference("Decision")}, **unread["content"]}
    operation["requestBody"]["content"][_JSON]["examples"] = EXAMPLES
    return operation


def _contracts_decide(token: bool) -> dict[str, Any]:
    operation = _judging(
        token,
        "decideCall",
        "Do the contracts allow this call?",
        "Decides by the workspace's contracts on one call of a tool that you run yourself. "
        "Execute only when verdict is allow and there is no reason.",
        "ContractLine",
        "ContractDecision",
        404,
    )
    unread = operation["responses"]["400"]
    unread["description"] = "The body contains nothing that can be judged: do not execute; or not an HTTP/1.1 request."
    unread["content"] = {_JSON: {"schema": _reference("Error")}, **unread["content"]}
    return operation


def _judging(
    token: bool, name: str, summary: str, description: str, body: str, answer: str, *statuses: int
) -> dict[str, Any]:
    """An operation that judges its body and records the decision; `body` and `answer` name schemas."""
    content = {_JSON: {"schema": _reference(answer)}}
    wanted = (401,) if token else ()
    operation = _operation(
        name,
        summary,
        description,
        content,
        *(*wanted, *statuses, 408, 413, 415, 429),
        secured=token,
        tag="decision",
    )
    operation["responses"]["200"]["description"] = "A decision."
    operation["responses"]["503"]["description"] = "The decision could not be made or recorded: do not execute."
    request = {"required": True, "content": {_JSON: {"schema": _reference(body)}}}
    return {**operation, "requestBody": request}


def _operation(
    name: str,
    summary: str,
    description: str,
    content: dict[str, Any],
    *statuses: int,
    secured: bool = False,
    tag: str = "state",
) -> dict[str, Any]:
    """One operation. Any path can also answer 400 and 503, from the HTTP server itself."""
    responses: dict[str, Any] = {"200": {"description": _MEANINGS[200], "content": content}}
    plain = {_TEXT: {"schema": {"type": "string"}}}
    error = {_JSON: {"schema": _reference("Error")}}
    for status in sorted((400, *statuses, 503)):
        responses[str(status)] = {
            "description": _MEANINGS[status],
            "content": {400: plain, 503: {**error, **plain}}.get(status, error),
        }
    if 429 in statuses:
        responses["429"]["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": _integer(1, 60)}}
    return {
        "operationId": name,
        "summary": summary,
        "description": description,
        "tags": [tag],
        "security": [{"bearer": []}] if secured else [],
        "responses": responses,
    }


def _state(word: str) -> dict[str, Any]:
    return {_JSON: {"schema": _object({"status": {"const": word}})}}


def _error_schema() -> dict[str, Any]:
    """The JSON Schema of every answer that is not a decision."""
    text = {"type": "string"}
    return _object({"error": _object({"code": text, "message": text})})


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _integer(minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "integer", "format": "int32", "minimum": minimum, "maximum": maximum}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}
