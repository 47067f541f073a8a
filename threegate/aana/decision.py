"""The decision of the Agent Action Contract v1: accept, ask, defer or refuse, with the whole envelope.

Rules, in this order (docs/spec/3-aana.md): form → authorization that the evidence supports → category → evidence scan →
the stricter of ours and the runtime's recommendation. Invariants: `accept` exactly when `gate_decision` is pass and
there is no blocker (D3); a pure function of the event and `now`; any value gets a decision (D10); nothing of a found
secret is in the result (D9).
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from threegate.aana import vocabulary as words
from threegate.aana.envelope import GuardVerdict, malformed, render
from threegate.aana.event import EvidenceMode, check_event
from threegate.aana.evidence import EvidenceFindings, examine
from threegate.aana.leaks import NOTHING, Leaks, find_leaks
from threegate.core import limits

_WORD: Final = re.compile(r"[a-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDENTITY: Final = frozenset(key.replace("_", "") for key in words.IDENTITY_KEYS)
_LISTING: Final = re.compile(r"\b(?:search|find|list|lookup|catalog|availability|opening hours|public)\b")
_NOT_ALNUM: Final = str.maketrans(dict.fromkeys("_-. :/", ""))


def check_tool_call(
    event: Any, *, now: datetime | None = None, evidence_mode: EvidenceMode = "quickstart"
) -> dict[str, Any]:
    """Decide on a proposed tool call; never raises, whatever `event` is.

    `now` is the moment that evidence is aged at (default: the clock; naive means UTC). With `evidence_mode`
    "production" evidence given as plain strings is refused (D12). Returns the result envelope of docs/spec/3-aana.md.
    """
    problems, lines, keys = check_event(event, evidence_mode)
    if problems:
        return malformed(event, problems)
    moment = now or datetime.now(UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return render(_decide(event, lines, keys, moment))


def gate_action(
    event: Any, *, now: datetime | None = None, evidence_mode: EvidenceMode = "quickstart"
) -> dict[str, Any]:
    """The same as `check_tool_call`, under the contract's second name."""
    return check_tool_call(event, now=now, evidence_mode=evidence_mode)


def should_execute_tool(result: Any) -> bool:
    """Whether a result envelope lets the tool run: every line of the contract's execution rule, any other value is
    no.
    """
    if not isinstance(result, dict):
        return False
    aix, architecture = result.get("aix"), result.get("architecture_decision")
    return (
        result.get("gate_decision") == "pass"
        and result.get("recommended_action") == "accept"
        and isinstance(architecture, dict)
        and architecture.get("route") == "accept"
        and result.get("hard_blockers") == []
        and isinstance(aix, dict)
        and aix.get("hard_blockers") == []
        and result.get("validation_errors") == []
    )


def _decide(event: dict[str, Any], lines: list[str], keys: list[str], now: datetime) -> GuardVerdict:
    verdict = GuardVerdict(event)
    category = _category(event, keys, lines, verdict)
    verdict.category = category
    refs = event["evidence_refs"]
    warn = category in words.WARN_CATEGORIES
    findings = [examine(ref, event["tool_name"], event["proposed_arguments"], now, warn=warn) for ref in refs]
    state = _authorization(event, findings, verdict)
    if category == "private_read":
        _private_read(state, verdict)
    elif category == "write":
        _write(event, state, verdict)
    elif category == "unknown":
        verdict.block(words.DEFER, "unknown_tool_category", "unknown_tool_category_requires_review")
    else:
        verdict.reasons.append("public_read_allowed_without_identity_auth")
    _evidence(event, lines, findings, verdict)
    if verdict.blockers and verdict.route == words.ACCEPT:
        verdict.route = words.ASK
        verdict.deviations.add("D3")
    verdict.own_route = verdict.route
    _recommendation(event, verdict)
    return verdict


def _category(event: dict[str, Any], keys: list[str], lines: list[str], verdict: GuardVerdict) -> str:
    """The effective category: the name and the arguments can override a declared public_read."""
    category: str = event["tool_category"]
    if category != "public_read":
        return category
    name = _read_name(event["tool_name"])
    if name.destructive:
        verdict.block(words.DEFER, "category_contradicts_tool_name", "public_read_named_as_an_action")
        verdict.deviations.add("D6")
        return "unknown"
    named = name.identity_bound and not name.exempt
    plain_key = not words.IDENTITY_KEYS.isdisjoint(event["proposed_arguments"])
    nested_key = not plain_key and any(_is_identity_key(key) for key in keys)
    if not (plain_key or nested_key or named):
        return category
    if not plain_key and not named:
        verdict.deviations.add("D7")
    elif not plain_key and _speaks_of_listing(event, lines):
        verdict.deviations.add("D14")
    verdict.block(
        words.ACCEPT,
        "public_read_identity_bound_misclassified",
        "public_read_reclassified_as_identity_bound_private_read",
    )
    return "private_read"


def is_identity_bound(tool_name: str, arguments: Any) -> bool:
    """Whether a read by this name, or with these argument keys at any depth, is bound to a person or account."""
    name = _read_name(tool_name)
    if name.identity_bound and not name.exempt:
        return True
    stack = [arguments]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if any(isinstance(key, str) and _is_identity_key(key) for key in item):
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


class _Name(NamedTuple):
    """What a tool's name indicates."""

    destructive: bool
    identity_bound: bool
    exempt: bool
    high_risk: bool


def _read_name(name: str) -> _Name:
    """The facts of a name; those of usual length are kept, since tools are called again and again."""
    return _kept_name(name) if len(name) <= limits.AANA_NAME_CHARS else _fresh_name(name)


def _fresh_name(name: str) -> _Name:
    lowered = name.lower()
    return _Name(
        _acts(_WORD.findall(_CAMEL.sub(" ", name).lower()), lowered),
        any(part in lowered for part in words.IDENTITY_NAMES),
        not words.EXEMPT_WORDS.isdisjoint(_WORD.findall(lowered)),
        any(part in lowered for part in words.HIGH_RISK_NAMES),
    )


def _acts(spoken: list[str], lowered: str) -> bool:
    """Whether a name, by its words or written together, names an act (D6). After a reading verb, an act is what is
    read: ``get_deploy_status``.

    Unless the name ends with the act (``fetch_delete``) or joins it (``get_and_delete``).
    """
    acts = [index for index, word in enumerate(spoken) if _is_act(word)]
    if not acts:
        return any(part in lowered for part in words.DESTRUCTIVE_PARTS)
    before = spoken[: acts[0]]
    if words.READ_VERBS.isdisjoint(before) or not words.JOINING_WORDS.isdisjoint(spoken):
        return True
    return spoken[-1] in words.DESTRUCTIVE_WORDS or spoken[-1].endswith(words.DESTRUCTIVE_PARTS)


def _is_act(word: str) -> bool:
    return word in words.DESTRUCTIVE_WORDS or any(part in word for part in words.DESTRUCTIVE_PARTS)


_kept_name = functools.lru_cache(maxsize=1024)(_fresh_name)


def _is_identity_key(key: str) -> bool:
    return key.translate(_NOT_ALNUM).lower() in _IDENTITY


def _speaks_of_listing(event: dict[str, Any], lines: list[str]) -> bool:
    """Whether a word somewhere in the event would exempt the name in the documented SDK (D14)."""
    texts = [event["tool_name"], event.get("user_intent", ""), *lines]
    for ref in event["evidence_refs"]:
        texts += (ref,) if isinstance(ref, str) else (ref["source_id"], ref.get("summary", ""))
    return _LISTING.search("\n".join(texts).lower()) is not None


def _authorization(event: dict[str, Any], findings: list[EvidenceFindings], verdict: GuardVerdict) -> int:
    """The state that counts, a rank: what is declared, lowered to what the evidence supports."""
    declared = words.STATE_RANK[event["authorization_state"]]
    supported = claimed = words.NONE
    for found in findings:
        supported = max(supported, found.supported)
        claimed = max(claimed, found.claimed)
    effective = _effective(declared, supported, bool(findings))
    if effective < declared:
        verdict.block(
            words.ACCEPT,
            "authorization_state_not_supported_by_evidence",
            "authorization_state_lowered_to_what_evidence_supports",
        )
    if effective < _effective(declared, claimed, bool(findings)):
        for index, found in enumerate(findings):
            if found.claimed > supported:
                verdict.deviations.update(found.deviations)
                verdict.reasons += [
                    f"evidence_refs.{index}.{cause}: supports at most user_claimed (D5)" for cause in found.weak
                ]
    verdict.declared, verdict.supported, verdict.state = declared, supported, effective
    return effective


def _effective(declared: int, supported: int, any_evidence: bool) -> int:
    """Rank of the state that counts. Without any reference there is nothing to lower to: that defers anyway."""
    if declared == words.NONE:
        return supported
    if declared >= words.AUTHENTICATED and any_evidence and supported < declared:
        return max(supported, words.USER_CLAIMED)
    return declared


def _private_read(state: int, verdict: GuardVerdict) -> None:
    if state >= words.AUTHENTICATED:
        verdict.reasons.append("private_read_has_authenticated_context")
    elif state == words.USER_CLAIMED:
        verdict.block(words.ASK, "private_read_not_authenticated", "private_read_needs_authentication")
    else:
        verdict.block(words.DEFER, "private_read_not_authenticated", "private_read_missing_authorization")


def _write(event: dict[str, Any], state: int, verdict: GuardVerdict) -> None:
    if state == words.CONFIRMED:
        verdict.reasons.append("write_has_explicit_confirmation")
        return
    route = words.DEFER if state == words.NONE else words.ASK
    claimed = state in (words.USER_CLAIMED, words.AUTHENTICATED)
    if event["risk_domain"] in words.HIGH_RISK_DOMAINS or _read_name(event["tool_name"]).high_risk:
        verdict.block(
            route,
            "high_risk_write_missing_explicit_confirmation",
            "high_risk_write_requires_explicit_confirmation",
        )
        verdict.blockers.append("write_missing_explicit_confirmation")
        if claimed:
            verdict.blockers.append("write_missing_validation_or_confirmation")
    elif state == words.VALIDATED:
        verdict.block(route, "write_missing_explicit_confirmation", "write_needs_explicit_confirmation")
    elif claimed:
        verdict.block(route, "write_missing_validation_or_confirmation", "write_needs_validation_and_confirmation")
    else:
        verdict.block(route, "write_missing_authorization", "write_missing_authorization_context")


def _evidence(event: dict[str, Any], lines: list[str], findings: list[EvidenceFindings], verdict: GuardVerdict) -> None:
    """What the references say against the call, and what leaks anywhere in the event."""
    defer, refuse = words.DEFER, words.REFUSE
    verdict.findings = findings
    if any(found.gone for found in findings):
        verdict.block(defer, "evidence_missing_authorization", "evidence_says_authorization_is_missing")
        if not any(found.gone_plainly for found in findings):
            verdict.deviations.add("D16")
    if not findings and verdict.category != "public_read":
        verdict.block(defer, "missing_evidence_refs", "consequential_call_without_evidence")
    if any(found.redaction == "sensitive" for found in findings):
        verdict.block(refuse, "unsafe_redaction_status", "evidence_is_not_redacted")
    leaks = find_leaks(event, lines)
    if leaks is not NOTHING:
        _leaks(leaks, verdict)
    if not findings:
        return
    if any(found.stale for found in findings):
        verdict.block(defer, "stale_evidence", "evidence_is_stale")
        verdict.deviations.update("D8" for found in findings if "D8" in found.deviations)
    if any(found.invalid_time for found in findings):
        verdict.block(defer, "invalid_retrieved_at", "evidence_time_is_unreadable")
    if any(found.contradicts for found in findings):
        verdict.block(defer, "contradictory_evidence", "evidence_contradicts_the_call")
    if any(found.missing for found in findings):
        verdict.block(defer, "evidence_marks_missing_information", "evidence_says_information_is_missing")


def _leaks(leaks: Leaks, verdict: GuardVerdict) -> None:
    """Refuse what leaks; from here on nothing of the event is repeated unmasked."""
    verdict.leaking = True
    if leaks.evidence_secret or leaks.evidence_hidden:
        verdict.block(words.REFUSE, "evidence_secret_leak", "evidence_holds_a_secret")
    if leaks.evidence_personal:
        verdict.block(words.REFUSE, "evidence_pii_leak", "evidence_holds_personal_data")
    if leaks.arguments:
        verdict.block(words.REFUSE, "argument_secret_leak", "arguments_hold_a_secret")
    if leaks.elsewhere:
        verdict.block(words.REFUSE, "event_secret_leak", "event_holds_a_secret")
    if leaks.arguments or leaks.elsewhere or (leaks.evidence_hidden and not leaks.evidence_secret):
        verdict.deviations.add("D7")


def _recommendation(event: dict[str, Any], verdict: GuardVerdict) -> None:
    """The stricter of ours and the runtime's route; its accept counts only as far as the contract's table goes."""
    wanted = words.ROUTE_RANK[event["recommended_route"]]
    verdict.recommended = wanted
    if wanted == words.ACCEPT:
        category = event["tool_category"]
        if category == "unknown":
            wanted = words.DEFER
        elif verdict.declared < words.ACCEPTED_FROM.get(category, words.NONE):
            wanted = words.ASK
    if wanted > verdict.route:
        verdict.route = wanted
        verdict.reasons.append("runtime_recommended_stricter_route")
    if wanted == words.REFUSE:
        verdict.blockers.append("runtime_refusal")
