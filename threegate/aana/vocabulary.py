"""The closed vocabulary of the Agent Action Contract v1: fields, values and the word lists of its rules.

Everything here is data of docs/spec/3-aana.md; a value that is not listed does not exist. Order matters where
the contract gives one (states, routes, required fields).
"""

from __future__ import annotations

from typing import Final, Literal, get_args


def split_words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


CONTRACT_VERSION: Final = "aana.agent_tool_precheck.v1"
"""The contract that every result names, and the only `schema_version` that an event may carry."""

SCHEMA_ID: Final = "https://aana.dev/schemas/agent_action_contract_v1.schema.json"

REQUIRED_FIELDS: Final = (
    "tool_name",
    "tool_category",
    "authorization_state",
    "evidence_refs",
    "risk_domain",
    "proposed_arguments",
    "recommended_route",
)
OPTIONAL_FIELDS: Final = ("schema_version", "request_id", "agent_id", "user_intent", "authorization_subject")
Category = Literal["public_read", "private_read", "write", "unknown"]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
State = Literal["none", "user_claimed", "authenticated", "validated", "confirmed"]
STATES: Final[tuple[State, ...]] = get_args(State)
"""Authorization states, weakest first."""
NONE, USER_CLAIMED, AUTHENTICATED, VALIDATED, CONFIRMED = range(5)
"""Ranks of the states."""
STATE_RANK: Final[dict[str, int]] = {state: rank for rank, state in enumerate(STATES)}
ACCEPTED_FROM: Final = {"private_read": AUTHENTICATED, "write": VALIDATED}
"""The least declared state with which a runtime may recommend accept, by category; an unknown one never may."""
Route = Literal["accept", "ask", "defer", "refuse"]
ROUTES: Final[tuple[Route, ...]] = get_args(Route)
"""Routes, laxest first."""
BROADER_ROUTES: Final = {
    "revise": "use ask, and check the revised call again",
    "retrieve": "use defer, and check again with the evidence that was retrieved",
}
"""Routes of the broader result envelope, which no tool call has, and what to use instead."""
ACCEPT, ASK, DEFER, REFUSE = range(4)
"""Ranks of the routes."""
ROUTE_RANK: Final[dict[str, int]] = {route: rank for rank, route in enumerate(ROUTES)}
HIGH_RISK_DOMAINS: Final = frozenset({"finance", "devops", "security", "legal", "pharma", "healthcare"})
SubjectType = Literal["user", "account", "client", "employee", "student", "patient", "case", "service", "unknown"]
SUBJECT_TYPES: Final = get_args(SubjectType)

Kind = Literal[
    "user_message",
    "assistant_message",
    "tool_result",
    "policy",
    "auth_event",
    "approval",
    "system_state",
    "audit_record",
    "other",
]
KINDS: Final = get_args(Kind)
Tier = Literal["verified", "runtime", "user_claimed", "unverified", "unknown"]
TIERS: Final = get_args(Tier)
Redaction = Literal["public", "redacted", "sensitive", "unknown"]
REDACTIONS: Final = get_args(Redaction)
FreshnessStatus = Literal["fresh", "stale", "unknown"]
FRESHNESS: Final = get_args(FreshnessStatus)
REF_STRINGS: Final = ("summary", "retrieved_at", "citation_url", "retrieval_url", "provenance")
"""Fields of an evidence reference that are plain text, besides `source_id`."""
REF_FIELDS: Final = (
    "source_id",
    "kind",
    "trust_tier",
    "redaction_status",
    "freshness",
    "provenance",
    "summary",
    "retrieved_at",
    "citation_url",
    "retrieval_url",
    "supports",
    "contradicts",
)
FRESHNESS_FIELDS: Final = ("status", "checked_at", "max_age_hours", "age_hours", "source")

WEAK_TIERS: Final = frozenset({"unverified", "unknown", "user_claimed"})
"""Tiers whose evidence supports at most user_claimed (D5)."""
CLAIMING_KINDS: Final = frozenset({"assistant_message", "user_message", "other"})
"""Kinds whose evidence supports at most user_claimed (D13)."""
NEVER_CONFIRMING_KINDS: Final = CLAIMING_KINDS | {"system_state"}
"""Kinds whose words confirm nothing, whoever verified them: a state says that it is so, not that somebody agreed
(D16).
"""

IDENTITY_KEYS: Final = split_words(
    "account_id account_key address card_id case_id client_id customer_id employee_id email invoice_id loan_id "
    "order_id patient_id payment_id payroll_id phone profile_id student_id subscription_id ticket_id "
    "transaction_id user_id"
)
IDENTITY_NAMES: Final = split_words(
    "account booking cart client customer invoice order profile reservation subscription ticket transaction user"
)
"""Parts of a tool name that make a read identity-bound."""
EXEMPT_WORDS: Final = split_words("search list")
"""Whole words of a tool name that say: a public listing, whatever it lists."""
HIGH_RISK_NAMES: Final = split_words("delete deploy grant pay purchase reset revoke send transfer")
"""Parts of a tool name that make a write high-risk."""

MISSING_WORDS: Final = (
    "evidence missing",
    "missing evidence",
    "information is missing",
    "record is missing",
    "not available",
    "unavailable",
    "unknown",
    "insufficient",
    "no evidence",
)
CONTRADICTION_WORDS: Final = ("contradict", "conflict", "inconsistent", "does not match", "disputes", "opposes")
RESULT_VALIDATION_WORDS: Final = ("validated", "ownership", "eligible", "policy validation", "verified target")
"""What a tool_result must speak of to support `validated`."""
POLICY_VALIDATION_WORDS: Final = ("validated", "allowed", "eligible")
"""What a policy must speak of to support `validated`."""
CONFIRMATION_WORDS: Final = ("confirmed", "explicitly confirm")
AUTHORIZATION_GONE_SOURCE: Final = "counterfactual.missing_authorization"
"""How an identifier begins, of any kind, that marks authorization as missing."""
AUTHORIZATION_GONE_WORDS: Final = ("missing authorization", "removes verified authorization")
"""What a system_state says when authorization is missing; D16 reads more words, in every kind."""

DESTRUCTIVE_WORDS: Final = split_words(
    "cancel delete deploy destroy disable drop erase grant kill overwrite pay publish "
    "purchase purge refund remove reset revoke send shutdown terminate transfer truncate uninstall unlink wipe "
    "withdraw write"
)
"""Verbs, as whole words of a tool name, that no public read does (D6)."""
DESTRUCTIVE_PARTS: Final = tuple("delete destroy overwrite purge revoke terminate transfer truncate uninstall".split())
"""Verbs that give a tool away even where its name is written together (D6)."""
READ_VERBS: Final = split_words(
    "check count describe fetch find get inspect list lookup query read retrieve search show view watch"
)
"""Verbs that, where they come first, make the verb after them what is read: get_deploy_status (D6)."""
JOINING_WORDS: Final = split_words("and or then also after before plus")
"""Words that add a second act to a name: get_and_delete (D6)."""

WARN_CATEGORIES: Final = frozenset({"private_read", "write"})
"""Categories whose weak evidence is worth a warning."""
