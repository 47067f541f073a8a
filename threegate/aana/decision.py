"""The decision of the Agent Action Contract v1: accept, ask, defer or refuse, with the whole envelope.

Rules, in this order (docs/spec/3-aana.md): form → authorization that the evidence supports → category → evidence scan →
the stricter recommendation, the gate's or the runtime's. Invariants: `accept` exactly when `gate_decision` is pass and
there is no blocker (D3); a pure function of the event and `now`; any value gets a decision (D10). Everything in the
envelope is a fixed word, a number, a name of the vocabulary or an identifier that was masked if anything in the event
leaks (D9); `audit_safe_log_event` may be stored anywhere: its identifiers and argument keys are always masked,
personal data too.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from threegate.aana import vocabulary as words
from threegate.aana.event import EventProblem, EvidenceMode, check_event
from threegate.aana.evidence import EvidenceFindings, examine
from threegate.aana.leaks import NOTHING, find_leaks, masked, masked_all, masked_names
from threegate.core import limits

_WORD: Final = re.compile(r"[a-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDENTITY: Final = frozenset(key.replace("_", "") for key in words.IDENTITY_KEYS)
_LISTING: Final = re.compile(r"\b(?:search|find|list|lookup|catalog|availability|opening hours|public)\b")
_NOT_ALNUM: Final = str.maketrans(dict.fromkeys("_-. :/", ""))
_SCORES: Final = (0.95, 0.72, 0.45, 0.15)
_ADVICE: Final = (
    "Execute the checked call and record the decision.",
    "Ask for what is missing, then check again.",
    "Take it to a person or fetch stronger evidence, then check again.",
    "Do not execute.",
)
EVENT_TYPE: Final = "aana_decision/1"
"""What an audit-safe event calls itself."""
# Those that a problem of form may name; whatever names none is D1.
_FORM_DEVIATIONS: Final = ("D1", "D2", "D10", "D12", "D15")


@dataclass(slots=True)
class _Verdict:
    """A decision while it is made. Ranks are those of `vocabulary`."""

    event: Any
    category: str = "unknown"
    route: int = words.ACCEPT
    own_route: int = words.ACCEPT
    recommended: int | None = None
    declared: int = words.NONE
    supported: int = words.NONE
    state: int = words.NONE
    blockers: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    deviations: set[str] = field(default_factory=set)
    findings: list[EvidenceFindings] = field(default_factory=list)
    leaking: bool = False

    def block(self, route: int, blocker: str, reason: str) -> None:
        """Add a hard blocker and make the route at least `route`."""
        self.blockers.append(blocker)
        self.reasons.append(reason)
        if route > self.route:
            self.route = route


def check_tool_call(
    event: Any, *, now: datetime | None = None, evidence_mode: EvidenceMode = "quickstart"
) -> dict[str, Any]:
    """Decide on a proposed tool call: the result envelope of docs/spec/3-aana.md. Never raises, whatever `event` is.

    `now` is the moment that evidence is aged at (default: the clock; naive means UTC). With `evidence_mode`
    "production" evidence given as plain strings is refused (D12).
    """
    problems, lines, keys = check_event(event, evidence_mode)
    if problems:
        return malformed(event, problems)
    moment = now or datetime.now(UTC)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    verdict = _Verdict(event)
    category = verdict.category = _category(event, keys, lines, verdict)
    warn = category in words.WARN_CATEGORIES
    tool, arguments = event["tool_name"], event["proposed_arguments"]
    verdict.findings = [examine(ref, tool, arguments, moment, warn=warn) for ref in event["evidence_refs"]]
    _authorization(event, verdict)
    if category == "private_read":
        _private_read(verdict)
    elif category == "write":
        _write(event, verdict)
    elif category == "unknown":
        verdict.block(words.DEFER, "unknown_tool_category", "unknown_tool_category_requires_review")
    else:
        verdict.reasons.append("public_read_allowed_without_identity_auth")
    _evidence(event, lines, verdict)
    if verdict.blockers and verdict.route == words.ACCEPT:
        verdict.route = words.ASK
        verdict.deviations.add("D3")
    verdict.own_route = verdict.route
    # The stricter of the gate's and the runtime's route; its accept counts only as far as the contract's table goes.
    wanted = verdict.recommended = words.ROUTE_RANK[event["recommended_route"]]
    if wanted == words.ACCEPT:
        if event["tool_category"] == "unknown":
            wanted = words.DEFER
        elif verdict.declared < words.ACCEPTED_FROM.get(event["tool_category"], words.NONE):
            wanted = words.ASK
    if wanted > verdict.route:
        verdict.route = wanted
        verdict.reasons.append("runtime_recommended_stricter_route")
    if wanted == words.REFUSE:
        verdict.blockers.append("runtime_refusal")
    return _envelope(verdict, _SCORES[verdict.route], _ADVICE[verdict.route], list(arguments), [])


def gate_action(
    event: Any, *, now: datetime | None = None, evidence_mode: EvidenceMode = "quickstart"
) -> dict[str, Any]:
    """The same as `check_tool_call`, under the contract's second name."""
    return check_tool_call(event, now=now, evidence_mode=evidence_mode)


def should_execute_tool(result: Any) -> bool:
    """Whether a result envelope lets the tool run, by every line of the contract's execution rule."""
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


def _category(event: dict[str, Any], keys: list[str], lines: list[str], verdict: _Verdict) -> str:
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
    blocker = "public_read_identity_bound_misclassified"
    verdict.block(words.ACCEPT, blocker, "public_read_reclassified_as_identity_bound_private_read")
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
    """It names an act, by its words or written together (D6)."""
    identity_bound: bool
    exempt: bool
    high_risk: bool


def _read_name(name: str) -> _Name:
    """The facts of a name; those of usual length are kept, since tools are called again and again."""
    return _kept_name(name) if len(name) <= limits.AANA_NAME_CHARS else _fresh_name(name)


def _fresh_name(name: str) -> _Name:
    lowered = name.lower()
    spoken = _WORD.findall(_CAMEL.sub(" ", name).lower())
    parts, whole = words.DESTRUCTIVE_PARTS, words.DESTRUCTIVE_WORDS
    acts = [at for at, word in enumerate(spoken) if word in whole or any(part in word for part in parts)]
    if not acts:
        destructive = any(part in lowered for part in parts)
    elif words.READ_VERBS.isdisjoint(spoken[: acts[0]]) or not words.JOINING_WORDS.isdisjoint(spoken):
        destructive = True
    else:
        # After a reading verb an act is what is read (get_deploy_status), unless the name ends with it (fetch_delete).
        destructive = spoken[-1] in whole or spoken[-1].endswith(parts)
    return _Name(
        destructive,
        any(part in lowered for part in words.IDENTITY_NAMES),
        not words.EXEMPT_WORDS.isdisjoint(_WORD.findall(lowered)),
        any(part in lowered for part in words.HIGH_RISK_NAMES),
    )


_kept_name = functools.lru_cache(maxsize=1024)(_fresh_name)


def _is_identity_key(key: str) -> bool:
    return key.translate(_NOT_ALNUM).lower() in _IDENTITY


def _speaks_of_listing(event: dict[str, Any], lines: list[str]) -> bool:
    """Whether a word somewhere in the event would exempt the name in the documented SDK (D14)."""
    texts = [event["tool_name"], event.get("user_intent", ""), *lines]
    for ref in event["evidence_refs"]:
        texts += (ref,) if isinstance(ref, str) else (ref["source_id"], ref.get("summary", ""))
    return _LISTING.search("\n".join(texts).lower()) is not None


def _authorization(event: dict[str, Any], verdict: _Verdict) -> None:
    """The state that counts: what is declared, lowered to what the evidence supports."""
    findings = verdict.findings
    declared = words.STATE_RANK[event["authorization_state"]]
    supported = claimed = words.NONE
    for found in findings:
        supported = max(supported, found.supported)
        claimed = max(claimed, found.claimed)
    if declared == words.NONE:
        effective, plainly = supported, claimed
    elif declared >= words.AUTHENTICATED and findings:
        effective = min(declared, max(supported, words.USER_CLAIMED))
        plainly = min(declared, max(claimed, words.USER_CLAIMED))
    else:  # without any reference there is nothing to lower to: that defers anyway
        effective = plainly = declared
    if effective < declared:
        blocker = "authorization_state_not_supported_by_evidence"
        verdict.block(words.ACCEPT, blocker, "authorization_state_lowered_to_what_evidence_supports")
    if effective < plainly:
        for index, found in enumerate(findings):
            if found.claimed > supported:
                verdict.deviations.update(found.deviations)
                verdict.reasons += [
                    f"evidence_refs.{index}.{cause}: supports at most user_claimed (D5)" for cause in found.weak
                ]
    verdict.declared, verdict.supported, verdict.state = declared, supported, effective


def _private_read(verdict: _Verdict) -> None:
    if verdict.state >= words.AUTHENTICATED:
        verdict.reasons.append("private_read_has_authenticated_context")
    elif verdict.state == words.USER_CLAIMED:
        verdict.block(words.ASK, "private_read_not_authenticated", "private_read_needs_authentication")
    else:
        verdict.block(words.DEFER, "private_read_not_authenticated", "private_read_missing_authorization")


def _write(event: dict[str, Any], verdict: _Verdict) -> None:
    state = verdict.state
    if state == words.CONFIRMED:
        verdict.reasons.append("write_has_explicit_confirmation")
        return
    route = words.DEFER if state == words.NONE else words.ASK
    claimed = state in (words.USER_CLAIMED, words.AUTHENTICATED)
    if event["risk_domain"] in words.HIGH_RISK_DOMAINS or _read_name(event["tool_name"]).high_risk:
        blocker = "high_risk_write_missing_explicit_confirmation"
        verdict.block(route, blocker, "high_risk_write_requires_explicit_confirmation")
        verdict.blockers.append("write_missing_explicit_confirmation")
        if claimed:
            verdict.blockers.append("write_missing_validation_or_confirmation")
    elif state == words.VALIDATED:
        verdict.block(route, "write_missing_explicit_confirmation", "write_needs_explicit_confirmation")
    elif claimed:
        verdict.block(route, "write_missing_validation_or_confirmation", "write_needs_validation_and_confirmation")
    else:
        verdict.block(route, "write_missing_authorization", "write_missing_authorization_context")


def _evidence(event: dict[str, Any], lines: list[str], verdict: _Verdict) -> None:
    """What the references say against the call, and what leaks anywhere in the event."""
    defer, refuse, findings = words.DEFER, words.REFUSE, verdict.findings
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
        verdict.leaking = True  # from here on nothing of the event is repeated unmasked
        if leaks.evidence_secret or leaks.evidence_hidden:
            verdict.block(refuse, "evidence_secret_leak", "evidence_holds_a_secret")
        if leaks.evidence_personal:
            verdict.block(refuse, "evidence_pii_leak", "evidence_holds_personal_data")
        if leaks.arguments:
            verdict.block(refuse, "argument_secret_leak", "arguments_hold_a_secret")
        if leaks.elsewhere:
            verdict.block(refuse, "event_secret_leak", "event_holds_a_secret")
        if leaks.arguments or leaks.elsewhere or (leaks.evidence_hidden and not leaks.evidence_secret):
            verdict.deviations.add("D7")
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


def unrecorded() -> dict[str, Any]:
    """The envelope where a decision could not be written down: refuse, whatever the decision was."""
    problem = {"path": "", "message": "the decision could not be written down; do not execute"}
    blocker = "decision_not_recorded"
    verdict = _Verdict(None, route=words.REFUSE, own_route=words.REFUSE, blockers=[blocker], reasons=[blocker])
    return _envelope(verdict, 0.0, _ADVICE[-1], [], [problem])


def malformed(event: Any, problems: list[EventProblem]) -> dict[str, Any]:
    """The envelope for what is not a well-formed event: refuse, score 0."""
    deviations = {code for code in _FORM_DEVIATIONS if any(f"({code})" in item["message"] for item in problems)}
    verdict = _Verdict(event, route=words.REFUSE, own_route=words.REFUSE, leaking=True)
    verdict.blockers, verdict.reasons = ["contract_normalization_failed"], ["event_is_not_well_formed"]
    verdict.deviations = deviations or {"D1"}
    return _envelope(verdict, 0.0, "Fix the event: see validation_errors.", [], problems)


def _envelope(
    verdict: _Verdict, score: float, recovery: str, keys: list[str], problems: list[EventProblem]
) -> dict[str, Any]:
    """The envelope of a finished decision; `keys` are those of the arguments, `problems` those of the form."""
    source = verdict.event if isinstance(verdict.event, dict) else {}
    formed, blockers, route = not problems, verdict.blockers, words.ROUTES[verdict.route]
    passed = verdict.route == words.ACCEPT and not blockers
    name = source.get("tool_name")
    # Masking takes longer for longer texts, and a malformed event can be of any size.
    if not isinstance(name, str) or len(name) > limits.AANA_EVENT_BYTES:
        name = None
    elif verdict.leaking:
        name = masked(name)  # before it is cut
    sources = [item.source_id for item in verdict.findings]
    if verdict.leaking and sources:
        sources = masked_all(sources)
    sources = [source[: limits.AANA_NAME_CHARS] for source in sources]
    found = list(zip(sources, verdict.findings, strict=True))
    result: dict[str, Any] = {
        "contract_version": words.CONTRACT_VERSION,
        "route": route,
        "tool_name": None if name is None else name[: limits.AANA_NAME_CHARS],
        "tool_category": source["tool_category"] if formed else None,
        "effective_category": verdict.category,
        "risk_domain": source["risk_domain"] if formed else None,
        "gate_decision": "pass" if passed else "fail",
        "recommended_action": route,
        "candidate_gate": "pass" if verdict.own_route == words.ACCEPT and not blockers else "fail",
        "aana_route": words.ROUTES[verdict.own_route],
        "runtime_recommended_route": None if verdict.recommended is None else words.ROUTES[verdict.recommended],
        "execution_allowed": passed,
        "hard_blockers": blockers,
        "deviations": sorted(verdict.deviations, key=_number) if verdict.deviations else [],
        "aix": {
            "score": score,
            "components": {"P": score, "C": score, "F": 1.0 if route == "accept" else 0.75},
            "decision": route,
            "hard_blockers": list(blockers),
            "thresholds": {"accept": 0.85, "ask": 0.6, "defer": 0.3, "refuse": 0.0},
        },
        "architecture_decision": {
            "route": route,
            "gate_decision": "pass" if passed else "fail",
            "execution_allowed": passed,
            "hard_blockers": list(blockers),
            "aix_score": score,
            "authorization_state": words.STATES[verdict.state],
            "recovery": recovery,
        },
        "authorization": {
            "declared_state": words.STATES[verdict.declared],
            "evidence_supported_state": words.STATES[verdict.supported],
            "effective_state": words.STATES[verdict.state],
        },
        "validation_errors": problems,
        "reasons": verdict.reasons,
        "evidence_report": {
            "checked_ref_count": len(found),
            "used_source_ids": sources,
            "contradictory_source_ids": [ref for ref, item in found if item.contradicts],
            "missing_source_ids": [ref for ref, item in found if item.missing],
            "stale_source_ids": [ref for ref, item in found if item.stale],
            "warning_codes": list(dict.fromkeys([code for _, item in found for code in item.warnings])),
        },
    }
    result["audit_safe_log_event"] = _audit_safe(source, result, keys[: limits.AANA_LOG_KEYS])
    return result


def _number(deviation: str) -> int:
    return int(deviation[1:])


def _audit_safe(source: dict[str, Any], result: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    """The audit-safe event of a decision: ids, names, codes and argument `keys`, never values (docs/spec/3-aana.md)."""
    sources = result["evidence_report"]["used_source_ids"][: limits.AANA_LOG_KEYS]
    request_id, agent_id, tool_name, *rest = masked_names(
        [source.get("request_id"), source.get("agent_id"), result["tool_name"], *sources, *keys]
    )
    authorization = result["authorization"]
    return {
        "type": EVENT_TYPE,
        "request_id": request_id,
        "agent_id": agent_id,
        "tool_name": tool_name,
        "tool_category": result["tool_category"],
        "effective_category": result["effective_category"],
        "risk_domain": result["risk_domain"],
        "declared_state": authorization["declared_state"],
        "supported_state": authorization["evidence_supported_state"],
        "effective_state": authorization["effective_state"],
        "recommended_route": result["runtime_recommended_route"],
        "route": result["route"],
        "gate_decision": result["gate_decision"],
        "hard_blockers": list(result["hard_blockers"]),
        "deviations": list(result["deviations"]),
        "aix_score": result["aix"]["score"],
        "argument_keys": sorted((key or "")[: limits.AANA_LOG_KEY_CHARS] for key in rest[len(sources) :]),
        "evidence_source_ids": rest[: len(sources)],
    }
