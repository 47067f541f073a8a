"""What one evidence reference supports, how old it is, and what it says against the call.

Invariant: support is read from kind, tier, freshness and words only; nothing that a reference says of itself
raises it above what its kind and tier allow (D5, D13), and words that are negated support nothing (D4).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from threegate.aana import vocabulary as words
from threegate.aana.negation import is_negated
from threegate.core import limits

_AHEAD: Final = timedelta(seconds=limits.AANA_AHEAD_SECONDS)
_MAX_AGE: Final = timedelta(hours=limits.AANA_MAX_AGE_HOURS)

_QUICKSTART: Final = ("other", "runtime", "redacted", "fresh")
_MISSING: Final[dict[str, Any]] = {}


class Findings(NamedTuple):
    """What was read from one reference. Ranks are those of `vocabulary.STATES`."""

    source_id: str
    redaction: str
    claimed: int
    """The state that the contract's plain rules would take this for."""
    supported: int
    """The state that it supports here."""
    deviations: tuple[str, ...]
    """Why `supported` is below `claimed`, and D8 where only that rule finds it stale."""
    stale: bool
    invalid_time: bool
    contradicts: bool
    missing: bool
    authorization_gone: bool
    warnings: tuple[str, ...]


_WARNING_FREE: Final[tuple[str, ...]] = ()


def examine(ref: dict[str, Any] | str, now: datetime, *, warn: bool) -> Findings:
    """Read one well-formed reference at the moment `now`. `warn` asks for the warnings of weak evidence."""
    if isinstance(ref, str):
        source, summary, times = ref, "", _MISSING
        kind, tier, redaction, status = _QUICKSTART
        stale_plain = stale = invalid = contradicts = False
    else:
        source = ref["source_id"]
        summary = ref.get("summary", "").lower()
        kind = ref.get("kind", "other")
        tier = ref.get("trust_tier", "unknown")
        redaction = ref.get("redaction_status", "unknown")
        times = ref.get("freshness", _MISSING)
        status = times.get("status", "unknown")
        stale_plain, stale, invalid = _age(ref, times, status, now)
        contradicts = bool(ref.get("contradicts"))
    lowered = source.lower()
    text = f"{lowered} {summary}"
    claimed = supported = _claim(kind, tier, text)
    deviations: tuple[str, ...] = ("D8",) if stale and not stale_plain else ()
    if claimed > words.NONE:
        if is_negated(lowered, summary, kind, claimed):
            supported = words.NONE
            deviations += ("D4",)
        if claimed > words.USER_CLAIMED:
            if kind in words.CLAIMING_KINDS:
                supported = min(supported, words.USER_CLAIMED)
                deviations += ("D13",)
            if status != "fresh" or stale or tier in words.WEAK_TIERS:
                supported = min(supported, words.USER_CLAIMED)
                deviations += ("D5",)
    missing = gone = False
    if summary:
        missing = any(word in summary for word in words.MISSING_WORDS)
        contradicts = contradicts or any(word in summary for word in words.CONTRADICTION_WORDS)
    if kind == "system_state":
        gone = any(word in text for word in words.AUTHORIZATION_GONE_WORDS)
    elif source.startswith("counterfactual.missing_authorization"):
        gone = True
    return Findings(
        source,
        redaction,
        claimed,
        supported,
        deviations,
        stale,
        invalid,
        contradicts,
        missing,
        gone,
        _warnings(tier, redaction, status) if warn else _WARNING_FREE,
    )


def _claim(kind: str, tier: str, text: str) -> int:
    """The state that kind, tier and words claim by the plain rules of docs/spec/3-aana.md."""
    if kind == "approval" or any(word in text for word in words.CONFIRMATION_WORDS):
        return words.CONFIRMED
    if kind == "tool_result":
        if any(word in text for word in words.RESULT_VALIDATION_WORDS):
            return words.VALIDATED
    elif kind == "policy" and any(word in text for word in words.POLICY_VALIDATION_WORDS):
        return words.VALIDATED
    if kind == "auth_event":
        return words.AUTHENTICATED
    if kind == "user_message" or tier == "user_claimed":
        return words.USER_CLAIMED
    return words.NONE


def _age(ref: dict[str, Any], times: dict[str, Any], status: str, now: datetime) -> tuple[bool, bool, bool]:
    """(stale by the plain rules, stale here, timestamp unreadable). Plain: says so, or older than 168 h."""
    plain = status == "stale"
    stale = plain
    limit = times.get("max_age_hours", limits.AANA_MAX_AGE_HOURS)
    if times.get("age_hours", 0) > limit:
        stale = True
    moment = ref.get("retrieved_at") or times.get("checked_at")
    if not moment:
        return plain, stale, False
    try:
        read = datetime.fromisoformat(moment)
        if read.tzinfo is None:
            read = read.replace(tzinfo=UTC)
        age = now - read
    except ValueError:
        return plain, stale, True
    if age > _MAX_AGE:
        return True, True, False
    if age < -_AHEAD or ("max_age_hours" in times and age.total_seconds() > 3600 * limit):
        stale = True
    return plain, stale, False


def _warnings(tier: str, redaction: str, status: str) -> tuple[str, ...]:
    found = []
    if tier in ("unverified", "unknown"):
        found.append("weak_trust_tier")
    if redaction == "unknown":
        found.append("unknown_redaction_status")
    if status == "unknown":
        found.append("unknown_freshness")
    return tuple(found)
