"""Events made at random from a seed: well-formed ones that meet every rule, and ruined ones.

The lists say of each text whether it is negated, secret or personal, so that the reference model need not guess.
"""

from __future__ import annotations

import copy
import random
import re
from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 5, 10, tzinfo=UTC)

SECRETS = [
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "AKIA" + "IOSFODNN7ABCDEFG",
    "xoxb-" + "123456789012-123456789012-abcdefABCDEF123456789012",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "sk-or-v1-" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "glpat-" + "AbCdEfGhIjKlMnOpQrSt",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAcanary\n-----END RSA PRIVATE KEY-----",
]
PERSONAL = ["jane.doe@example.com", "call 415-555-0134 back"]

# (summary, negated)
PLAIN_SUMMARIES = [
    ("", False),
    ("User identity was authenticated.", False),
    ("User explicitly confirmed the refund action.", False),
    ("The user confirmed this draft.", False),
    ("Account ownership was validated.", False),
    ("Policy: the account is eligible and the call is allowed.", False),
    ("Quarterly figures attached.", False),
    ("The records conflict with each other.", False),
    ("The address is inconsistent; the customer disputes it.", False),
    ("User claimed to own it.", False),
    ("The page says that you are authenticated, public and on the list.", False),
    ("The user explicitly confirmed send_email.", False),
]
NEGATED_SUMMARIES = [
    ("The user has NOT confirmed the transfer.", True),
    ("Payment unconfirmed by the owner.", True),
    ("Session is unauthenticated; identity not verified, nothing validated.", True),
    ("Ownership was not validated, approval pending, no login.", True),
    ("The request was never confirmed, the user is not authenticated and not eligible.", True),
]
GONE_SUMMARIES = [
    ("Runtime state: authorization is missing.", True),
    ("Trace removes verified authorization from the call.", False),
    ("Missing authorization.", True),
]
STATE_SUMMARIES = [("Evidence missing for this account.", False), *GONE_SUMMARIES]
SUMMARIES = PLAIN_SUMMARIES * 3 + NEGATED_SUMMARIES
ALL_SUMMARIES = dict(SUMMARIES + STATE_SUMMARIES)
SOURCES = [
    "auth.session",
    "policy.refund",
    "draft_id:123",
    "approval:user-confirmed-send",
    "crm.record.7",
    "tool.result",
]
NEGATED_SOURCES = ["approval.unconfirmed", "auth:not-authenticated"]
GONE_SOURCES = ["counterfactual.missing_authorization.7", "trace:authorization-removed"]

NAMES = [
    "search_docs",
    "get_status",
    "get_customer_profile",
    "list_orders",
    "userDetails",
    "search_customer_orders",
    "send_email",
    "delete_record",
    "update_note",
    "transfer_funds",
    "render_chart",
    "bookingServer",
    "purge-cache",
    "lookup_customer_account",
    "find-user-id-by-email",
    "get_public_customer_profile",
    "get_deploy_status",
    "get_and_delete",
]
ACTS = {"send_email", "delete_record", "transfer_funds", "purge-cache", "get_and_delete"}
ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"query": "contract"},
    {"query": "public catalog search"},
    {"account_id": "acct_redacted"},
    {"filter": {"customerId": "c-1"}},
    {"rows": [{"Order-ID": 4}, None, True, 2.5]},
    {"to": "someone", "deep": [[["x", {"y": []}]]]},
]
DOMAINS = [
    "devops", "finance", "education", "hr", "legal", "pharma", "healthcare", "commerce", "customer_support",
    "security", "research", "personal_productivity", "public_information", "unknown",
]  # fmt: skip
STATES = ["none", "user_claimed", "authenticated", "validated", "confirmed"]
KINDS = [
    "user_message", "assistant_message", "tool_result", "policy", "auth_event", "approval", "system_state",
    "audit_record", "other",
]  # fmt: skip
TIMES = [
    "2026-05-09T00:00:00Z",
    "2026-05-09T23:59:00+02:00",
    "2026-05-01T00:00:00Z",
    "2026-05-10T00:03:00Z",
    "2026-05-10T00:06:00Z",
    "2026-05-09T12:00:00",
    "not a time",
    "",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
]


def has_secret(text: str) -> bool:
    """Whether one of this module's secrets is in a text."""
    return any(secret in text for secret in SECRETS)


def has_plain_secret(text: str) -> bool:
    """Whether one of those that the documented SDK knows (AKIA and sk- keys) is in a text."""
    return re.search(r"\b(sk-[A-Za-z0-9_-]{12,}|AKIA[0-9A-Z]{16})\b", text) is not None


def is_personal(text: str) -> bool:
    """Whether one of this module's personal data is in a text."""
    return any(item in text for item in PERSONAL)


def is_negated(source: str, summary: str, rank: int) -> bool:
    """Whether source or summary, by this module's lists, deny the state of a rank (1 user_claimed … 4 confirmed)."""
    if source in ("auth:not-authenticated", GONE_SOURCES[0]) or (
        source == "approval.unconfirmed" and rank not in (2, 3)
    ):
        return True
    if bare(summary) == "Payment unconfirmed by the owner.":
        return rank not in (2, 3)
    return ALL_SUMMARIES.get(bare(summary), False)


def acts_in(text: str) -> set[str]:
    """The acts that a text of this module, or a name of `NAMES`, speaks of."""
    known = {"send": "send", "refund": "refund", "transfer": "transfer", "pay": "payment", "remove": "remove"}
    known |= {"delete": "delete", "purge": "purge", "update": "update", "deploy": "deploy"}
    return {act for act, part in known.items() if part in text.lower()}


def is_gone(source: str, summary: str) -> bool:
    """Whether source or summary, by this module's lists, say that authorization is missing."""
    return source in GONE_SOURCES or bare(summary) in dict(GONE_SUMMARIES)


def bare(summary: str) -> str:
    """A summary without what was put behind it."""
    for item in (*SECRETS, *PERSONAL):
        summary = summary.replace(f" {item}", "")
    return summary


def reference(rng: random.Random) -> Any:
    """One evidence reference."""
    if rng.random() < 0.12:
        return rng.choice(SOURCES + NEGATED_SOURCES + GONE_SOURCES)
    ref: dict[str, Any] = {"source_id": rng.choice(SOURCES + SOURCES + NEGATED_SOURCES)}
    if rng.random() < 0.04:
        ref["source_id"] = rng.choice(GONE_SOURCES)
    if rng.random() < 0.93:
        ref["kind"] = rng.choice(KINDS)
    if rng.random() < 0.93:
        ref["trust_tier"] = rng.choice(["verified"] * 6 + ["runtime"] * 4 + ["user_claimed", "unverified", "unknown"])
    if rng.random() < 0.93:
        ref["redaction_status"] = rng.choice(
            ["public", "redacted", "redacted", "redacted", "unknown"] * 4 + ["sensitive"]
        )
    if rng.random() < 0.92:
        freshness: dict[str, Any] = {"status": rng.choice(["fresh"] * 14 + ["stale", "unknown"])}
        if rng.random() < 0.05:
            del freshness["status"]
        if rng.random() < 0.1:
            freshness["checked_at"] = rng.choice(TIMES)
        if rng.random() < 0.08:
            freshness["age_hours"] = rng.choice([0, 1, 5.5, 167, 169, 10**400])
        if rng.random() < 0.08:
            freshness["max_age_hours"] = rng.choice([0, 1, 5, 24, 168, 1e300])
        if rng.random() < 0.05:
            freshness["source"] = rng.choice(["connector", rng.choice(SECRETS)])
        ref["freshness"] = freshness
    if rng.random() < 0.8:
        texts = SUMMARIES
        if ref.get("kind") == "system_state" and rng.random() < 0.6:
            texts = STATE_SUMMARIES
        elif rng.random() < 0.04:
            texts = GONE_SUMMARIES
        ref["summary"] = rng.choice(texts)[0]
        roll = rng.random()
        if roll < 0.02:
            ref["summary"] += " " + rng.choice(SECRETS)
        elif roll < 0.05:
            ref["summary"] += " " + rng.choice(PERSONAL)
    if rng.random() < 0.3:
        ref["retrieved_at"] = rng.choice(TIMES)
    for field in ("provenance", "citation_url", "retrieval_url"):
        if rng.random() < 0.2:
            ref[field] = rng.choice(
                ["connector", "https://example.org/doc", rng.choice(SECRETS + PERSONAL)] + ["fixture"] * 12
            )
    for field in ("supports", "contradicts"):
        if rng.random() < 0.06:
            ref[field] = rng.choice([[], ["claim-1"], ["send_email"], ["claim-1", rng.choice(SECRETS)]])
    return ref


def well_formed(rng: random.Random) -> dict[str, Any]:
    """A well-formed event."""
    event: dict[str, Any] = {
        "tool_name": rng.choice(NAMES),
        "tool_category": rng.choice(["public_read", "private_read", "write", "write", "unknown"]),
        "authorization_state": rng.choice(STATES),
        "evidence_refs": [reference(rng) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))],
        "risk_domain": rng.choice(DOMAINS),
        "proposed_arguments": copy.deepcopy(rng.choice(ARGUMENTS)),
        "recommended_route": rng.choice(["accept"] * 7 + ["ask", "defer", "refuse"]),
    }
    if rng.random() < 0.03:
        event["proposed_arguments"][rng.choice(["note", "list"])] = [rng.choice(SECRETS)]
    if rng.random() < 0.1:
        event["user_intent"] = rng.choice(["Read the public list.", "Do it.", rng.choice(SECRETS), "Tidy up."])
    if rng.random() < 0.1:
        event["request_id"] = rng.choice(["r-1", "r-2", rng.choice(SECRETS)])
    if rng.random() < 0.1:
        event["agent_id"] = "agent-7"
    if rng.random() < 0.1:
        event["authorization_subject"] = {"subject_type": "account", "subject_ref": "acct_redacted"}
    return event


JUNK: list[Any] = [
    None, True, False, 0, -1, 2**70, 1.5, "", " ", "accept", "none", [], {}, ["x"], {"a": 1}, [[]], "verified",
    "\ud800", "\u202e", [None], {"": None}, {"status": "fresh"}, "x" * 300,
]  # fmt: skip


def ruined(rng: random.Random) -> dict[str, Any]:
    """An event with one to three random changes: keys taken away, added or given any value, at any depth."""
    event = well_formed(rng)
    for _ in range(rng.randint(1, 3)):
        places: list[Any] = [event]
        for place in places:
            items = place.values() if isinstance(place, dict) else place
            places += [item for item in items if isinstance(item, dict | list)]
        place = rng.choice(places)
        if isinstance(place, dict):
            key = rng.choice([*place, "extra", "Shadow Mode!", "schema_version"])
            if rng.random() < 0.3 and key in place:
                del place[key]
            else:
                place[key] = copy.deepcopy(rng.choice(JUNK))
        elif place and rng.random() < 0.5:
            place[rng.randrange(len(place))] = copy.deepcopy(rng.choice(JUNK))
        else:
            place.append(copy.deepcopy(rng.choice(JUNK)))
    return event
