"""The documented SDK's rules, written down a second time from docs/spec/3-aana.md: plain, slow, and sharing no code
with ours.

`route_of(event, now, stricter=frozenset())` is the reference; with deviation ids in `stricter` those rules of
our own are added, so that a test can ask which of them explains a difference. What no rule could know by itself
(is this text negated? is that string a secret?) is told by the generator's own lists. `test_conformance.py` holds
the model against what the SDK answered to 450 recorded events.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.aana import generated

ROUTES = ["accept", "ask", "defer", "refuse"]
STATES = ["none", "user_claimed", "authenticated", "validated", "confirmed"]
ALL = frozenset({f"D{number}" for number in range(1, 17)})

IDENTITY_KEYS = [
    "account_id",
    "account_key",
    "address",
    "card_id",
    "case_id",
    "client_id",
    "customer_id",
    "employee_id",
    "email",
    "invoice_id",
    "loan_id",
    "order_id",
    "patient_id",
    "payment_id",
    "payroll_id",
    "phone",
    "profile_id",
    "student_id",
    "subscription_id",
    "ticket_id",
    "transaction_id",
    "user_id",
]
IDENTITY_NAMES = [
    "account",
    "booking",
    "cart",
    "client",
    "customer",
    "invoice",
    "order",
    "profile",
    "reservation",
    "subscription",
    "ticket",
    "transaction",
    "user",
]
EXEMPT = r"\b(search|find|list|lookup|catalog|availability|opening hours|public)\b"
HIGH_RISK = ["delete", "deploy", "grant", "pay", "purchase", "reset", "revoke", "send", "transfer"]
HIGH_RISK_DOMAINS = ["finance", "devops", "security", "legal", "pharma", "healthcare"]
MISSING = [
    "evidence missing",
    "missing evidence",
    "information is missing",
    "record is missing",
    "not available",
    "unavailable",
    "unknown",
    "insufficient",
    "no evidence",
]
CONTRADICTS = ["contradict", "conflict", "inconsistent", "does not match", "disputes", "opposes"]


def strictest(*routes: str) -> str:
    return max(routes, key=ROUTES.index)


def route_of(event: dict[str, Any], now: datetime, stricter: frozenset[str] = frozenset()) -> str:
    """The route of a well-formed event."""
    return decide(event, now, stricter)[0]


def decide(event: dict[str, Any], now: datetime, stricter: frozenset[str] = frozenset()) -> tuple[str, set[str]]:
    """(route, blockers) of a well-formed event."""
    if any(not source_of(ref).strip() for ref in event["evidence_refs"]):
        return "refuse", {"contract_normalization_failed"}
    refs = [filled(ref) for ref in event["evidence_refs"]]
    tool = event["tool_name"]
    if "schema_version" in event and breaks_v1(event, refs, now):
        return "refuse", {"contract_normalization_failed" if "D15" in stricter else "schema_validation_failed"}
    if "D15" in stricter and "schema_version" in event and breaks_v1(event, [], now):
        return "refuse", {"contract_normalization_failed"}
    category = event["tool_category"]
    routes = ["accept"]
    blockers: set[str] = set()

    if category == "public_read" and "D6" in stricter and acts(event["tool_name"]):
        category = "unknown"
        blockers.add("category_contradicts_tool_name")
    if category == "public_read" and identity_bound(event, stricter):
        category = "private_read"
        blockers.add("public_read_identity_bound_misclassified")

    support = max((supports(ref, tool, now, stricter) for ref in refs), key=STATES.index, default="none")
    declared = state = event["authorization_state"]
    if "schema_version" in event and "D15" not in stricter:
        declared = state = raised(event, refs, now)
    if declared == "none":
        state = support
    elif STATES.index(declared) >= 2 and refs and STATES.index(support) < STATES.index(declared):
        state = "user_claimed" if support == "none" else support
        blockers.add("authorization_state_not_supported_by_evidence")

    if category == "private_read":
        if state in ("none", "user_claimed"):
            routes.append("defer" if state == "none" else "ask")
            blockers.add("private_read_not_authenticated")
    elif category == "write":
        if state != "confirmed":
            routes.append("defer" if state == "none" else "ask")
            blockers |= write_blockers(event, state)
    elif category == "unknown":
        routes.append("defer")
        blockers.add("unknown_tool_category")

    if not refs and category != "public_read":
        routes.append("defer")
        blockers.add("missing_evidence_refs")
    for ref in refs:
        for route, blocker in objections(ref, now, stricter):
            routes.append(route)
            blockers.add(blocker)
    if "D7" in stricter:
        if any(generated.has_secret(text) for text in texts_of(event["proposed_arguments"])):
            routes.append("refuse")
            blockers.add("argument_secret_leak")
        if any(
            generated.has_secret(event.get(field, ""))
            for field in ("tool_name", "user_intent", "request_id", "agent_id")
        ):
            routes.append("refuse")
            blockers.add("event_secret_leak")

    if blockers and "D3" in stricter:
        routes.append("ask")
    routes.append(recommendation(event))
    if event["recommended_route"] == "refuse":
        blockers.add("runtime_refusal")
    return strictest(*routes), blockers


def breaks_v1(event: dict[str, Any], refs: list[dict[str, Any]], now: datetime) -> bool:
    """The rules of the published schema that join fields, after evidence raised the declared state."""
    if event["recommended_route"] != "accept":
        return False
    least = {"unknown": 5, "write": 3, "private_read": 2}.get(event["tool_category"], 0)
    return STATES.index(raised(event, refs, now)) < least


def raised(event: dict[str, Any], refs: list[dict[str, Any]], now: datetime) -> str:
    """The declared state of an event that names v1, raised where that makes its accept valid."""
    least = {"write": 3, "private_read": 2}.get(event["tool_category"], 0)
    declared = event["authorization_state"]
    if event["recommended_route"] != "accept" or STATES.index(declared) >= least:
        return declared
    best = max(
        (supports(ref, event["tool_name"], now, frozenset()) for ref in refs),
        key=STATES.index,
        default="none",
    )
    return best if STATES.index(best) >= least else declared


def source_of(ref: Any) -> str:
    return ref if isinstance(ref, str) else ref["source_id"]


def filled(ref: Any) -> dict[str, Any]:
    """A reference with the keys that it lacks."""
    if isinstance(ref, str):
        ref = {
            "source_id": ref,
            "kind": "other",
            "trust_tier": "runtime",
            "redaction_status": "redacted",
            "freshness": {"status": "fresh"},
            "summary": "Quickstart evidence reference supplied by the agent runtime.",
            "provenance": "runtime_quickstart",
        }
    base = {"kind": "other", "trust_tier": "unknown", "redaction_status": "unknown", "summary": ""}
    whole = {**base, **ref}
    whole["freshness"] = {"status": "unknown", **ref.get("freshness", {})}
    return whole


def recommendation(event: dict[str, Any]) -> str:
    """The runtime's route; without a version, an accept is lowered to what the contract's table allows."""
    wanted, category = event["recommended_route"], event["tool_category"]
    state = STATES.index(event["authorization_state"])
    if wanted == "accept" and "schema_version" not in event:
        if category == "unknown":
            return "defer"
        if (category == "write" and state < 3) or (category == "private_read" and state < 2):
            return "ask"
    return wanted


def write_blockers(event: dict[str, Any], state: str) -> set[str]:
    claimed = state in ("user_claimed", "authenticated")
    risky = any(word in event["tool_name"].lower() for word in HIGH_RISK)
    if risky or event["risk_domain"] in HIGH_RISK_DOMAINS:
        found = {"high_risk_write_missing_explicit_confirmation", "write_missing_explicit_confirmation"}
        return found | ({"write_missing_validation_or_confirmation"} if claimed else set())
    if state == "validated":
        return {"write_missing_explicit_confirmation"}
    return {"write_missing_validation_or_confirmation" if claimed else "write_missing_authorization"}


def name_words(text: str) -> set[str]:
    return set(re.findall("[a-z0-9]+", text.lower()))


def acts(name: str) -> bool:
    return name in generated.ACTS


def identity_bound(event: dict[str, Any], stricter: frozenset[str]) -> bool:
    arguments = event["proposed_arguments"]
    if any(key in arguments for key in IDENTITY_KEYS):
        return True
    if "D7" in stricter:
        plain = {key.replace("_", "") for key in IDENTITY_KEYS}
        if any(re.sub("[^a-z]", "", key.lower()) in plain for key in keys_of(arguments)):
            return True
    name = event["tool_name"].lower()
    if not any(part in name for part in IDENTITY_NAMES):
        return False
    if name_words(name) & {"search", "list"}:
        return False
    if "D14" in stricter:
        return True
    refs = [filled(ref) for ref in event["evidence_refs"]]
    told = [text for ref in refs for text in (ref["source_id"], ref["summary"])]
    texts = [name, event.get("user_intent", ""), *texts_of(arguments), *told]
    return re.search(EXEMPT, "\n".join(texts).lower()) is None


def keys_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in keys_of(item))]
    if isinstance(value, list):
        return [key for item in value for key in keys_of(item)]
    return []


def texts_of(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in texts_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return []


def supports(ref: dict[str, Any], tool: str, now: datetime, stricter: frozenset[str]) -> str:
    text = f"{ref['source_id']} {ref['summary']}".lower()
    kind, tier = ref["kind"], ref["trust_tier"]
    own = 1 if kind == "user_message" or tier == "user_claimed" else 0
    if kind == "auth_event":
        own = 2
    if kind == "tool_result" and re.search("validated|ownership|eligible|policy validation|verified target", text):
        own = 3
    if kind == "policy" and re.search("validated|allowed|eligible", text):
        own = 3
    said = 1 if "user claimed" in text else 0
    if "authenticated" in text:
        said = 2
    if "confirmed" in text or "explicitly confirm" in text:
        said = 4
    anybody = kind in ("assistant_message", "user_message", "other")
    named = tool in ref.get("supports", []) or tool.lower() in re.split(r"[^\w-]+", text)
    other = not generated.acts_in(text) <= generated.acts_in(tool)
    about = (named or generated.acts_in(text) & generated.acts_in(tool)) and not other
    verified = said == 4 and tier == "verified" and named and not other
    if kind == "approval" or (verified and not anybody and kind != "system_state"):
        own = 4
    plain = found = max(own, said)
    if kind == "approval" and not about and "D16" in stricter:
        found = 2
    if (
        found > own
        and "D13" in stricter
        and (anybody or found < 4)
        or found > own
        and "D16" in stricter
        and found == 4
        and not anybody
    ):
        found = max(own, 1)
    if found and "D4" in stricter and generated.is_negated(ref["source_id"], ref["summary"], own if own > 1 else plain):
        return "none"
    weak = tier in ("unverified", "unknown", "user_claimed")
    if "D5" in stricter and (weak or ref["freshness"]["status"] != "fresh" or stale(ref, now, stricter)):
        found = min(found, 1)
    return STATES[found]


def stale(ref: dict[str, Any], now: datetime, stricter: frozenset[str]) -> bool:
    freshness = ref["freshness"]
    moment = read_time(ref)
    if freshness["status"] == "stale" or (isinstance(moment, datetime) and now - moment > timedelta(hours=168)):
        return True
    if "D8" not in stricter:
        return False
    if freshness.get("age_hours", 0) > freshness.get("max_age_hours", 168):
        return True
    if not isinstance(moment, datetime):
        return False
    if moment - now > timedelta(minutes=5):
        return True
    return "max_age_hours" in freshness and (now - moment) / timedelta(hours=1) > freshness["max_age_hours"]


def read_time(ref: dict[str, Any]) -> datetime | str | None:
    text = ref.get("retrieved_at") or ref["freshness"].get("checked_at")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return "unreadable"
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def objections(ref: dict[str, Any], now: datetime, stricter: frozenset[str]) -> list[tuple[str, str]]:
    found = []
    scanned = [ref.get(name, "") for name in ("source_id", "summary", "citation_url", "retrieval_url", "provenance")]
    hidden = [*ref.get("supports", []), *ref.get("contradicts", []), ref["freshness"].get("source", "")]
    summary = ref["summary"].lower()
    if ref["redaction_status"] == "sensitive":
        found.append(("refuse", "unsafe_redaction_status"))
    hides = generated.has_secret if "D7" in stricter else generated.has_plain_secret
    if any(generated.has_plain_secret(part) or hides(part) for part in scanned):
        found.append(("refuse", "evidence_secret_leak"))
    elif ref["redaction_status"] != "redacted" and any(generated.is_personal(part) for part in scanned):
        found.append(("refuse", "evidence_pii_leak"))
    if "D7" in stricter and any(generated.has_secret(part) for part in hidden):
        found.append(("refuse", "evidence_secret_leak"))
    if stale(ref, now, stricter):
        found.append(("defer", "stale_evidence"))
    if read_time(ref) == "unreadable":
        found.append(("defer", "invalid_retrieved_at"))
    if ref.get("contradicts") or any(word in summary for word in CONTRADICTS):
        found.append(("defer", "contradictory_evidence"))
    if any(word in summary for word in MISSING):
        found.append(("defer", "evidence_marks_missing_information"))
    gone = ref["kind"] == "system_state" and re.search("missing authorization|removes verified authorization", summary)
    if (
        gone
        or ref["source_id"].startswith("counterfactual.missing_authorization")
        or ("D16" in stricter and generated.is_gone(ref["source_id"], ref["summary"]))
    ):
        found.append(("defer", "evidence_missing_authorization"))
    return found
