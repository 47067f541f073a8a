"""The four example events of the Agent Action Contract v1, one for each route; the OpenAPI document shows them."""

from __future__ import annotations

from typing import Any, Final

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
