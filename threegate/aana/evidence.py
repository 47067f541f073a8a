"""What one evidence reference supports, how old it is, and how it contradicts the call.

Invariant: support depends only on kind, tier, freshness and words; a reference's own claims never raise it
above what its kind and tier allow (D5, D13, D16), and negated words support nothing (D4). `Findings.claimed`
is the documented SDK's reading, so that every difference can be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import re2

from threegate.aana import vocabulary as words
from threegate.aana.named_action import is_about_another, is_named, is_spoken_of
from threegate.aana.negation import is_negated
from threegate.core import limits

_AHEAD: Final = timedelta(seconds=limits.AANA_AHEAD_SECONDS)
_MAX_AGE: Final = timedelta(hours=limits.AANA_MAX_AGE_HOURS)

_QUICKSTART: Final = ("other", "runtime", "redacted", "fresh")
_MISSING: Final[dict[str, Any]] = {}
_AUTHORIZATION: Final = r"auth(?:ori[sz]ation)?"
_GONE: Final = re2.compile(
    (
        r"(?:^|[^a-z])(?:missing|lacks|lacking|removes|removed|revokes|revoked|withdraws|withdrawn)"
        rf"(?:[^a-z]+[a-z]+){{0,3}}[^a-z]+{_AUTHORIZATION}(?:$|[^a-z])"
        rf"|(?:^|[^a-z]){_AUTHORIZATION}(?:[^a-z]+(?:context|state|is|are|was|were|has|have|been|now))*[^a-z]+"
        r"(?:missing|absent|lacking|removed|revoked|withdrawn|not[^a-z]+(?:available|found|given|granted|present))"
        rf"|(?:^|[^a-z])no(?:[^a-z]+[a-z]+){{0,3}}[^a-z]+{_AUTHORIZATION}(?:[^a-z]+[a-z]+){{0,2}}[^a-z]+"
        r"(?:available|found|given|granted|present)"
    ).encode()
)
"""Authorization that is missing or was taken away, in words or in an identifier: `[^a-z]+` takes `_` and `.` too."""


class EvidenceFindings(NamedTuple):
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
    gone: bool
    """It says that authorization is missing or was taken away."""
    gone_plainly: bool
    """The documented SDK sees that too; otherwise it is D16."""
    weak: tuple[str, ...]
    """The fields that let it support at most user_claimed, each with why (D5)."""
    warnings: tuple[str, ...]


_WARNING_FREE: Final[tuple[str, ...]] = ()


def examine(
    ref: dict[str, Any] | str, tool: str, arguments: Mapping[str, Any], now: datetime, *, warn: bool
) -> EvidenceFindings:
    """Read one well-formed reference of a call of `tool` with `arguments` at `now`. `warn` asks for the warnings of
    weak evidence.
    """
    fields = _MISSING if isinstance(ref, str) else ref
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
    own = supported = _own_claim(kind, tier, text)
    claimed = max(own, _claim_of_words(text))
    deviations: tuple[str, ...] = ("D8",) if stale and not stale_plain else ()
    weak: tuple[str, ...] = ()
    if claimed == words.CONFIRMED > own and _confirms(fields, kind, tier, text, tool, arguments):
        own = supported = words.CONFIRMED
    another = kind == "approval" and not _is_approval_of(fields, text, tool, arguments)
    if another:
        supported = words.AUTHENTICATED
    if claimed > own:
        supported = max(own, words.USER_CLAIMED)
        plain = kind in words.CLAIMING_KINDS or claimed < words.CONFIRMED
        deviations += ("D13",) if plain else ("D16",)
    if claimed > words.NONE:
        if is_negated(lowered, summary, kind, own if own > words.USER_CLAIMED else claimed):
            supported = words.NONE
            deviations += ("D4",)
        elif another:
            deviations += ("D16",)
        if claimed > words.USER_CLAIMED and (status != "fresh" or stale or tier in words.WEAK_TIERS):
            supported = min(supported, words.USER_CLAIMED)
            deviations += ("D5",)
            weak = _weak(fields, tier, status, stale=stale)
    missing = False
    if summary:
        missing = any(word in summary for word in words.MISSING_WORDS)
        contradicts = contradicts or any(word in summary for word in words.CONTRADICTION_WORDS)
    gone_plainly = source.startswith(words.AUTHORIZATION_GONE_SOURCE) or (
        kind == "system_state" and any(word in summary for word in words.AUTHORIZATION_GONE_WORDS)
    )
    gone = gone_plainly or ("auth" in text and _GONE.search(text.encode("utf-8", "replace")) is not None)
    return EvidenceFindings(
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
        gone_plainly,
        weak,
        _warnings(tier, redaction, status) if warn else _WARNING_FREE,
    )


def _own_claim(kind: str, tier: str, text: str) -> int:
    """The state that a reference of this kind may support by itself (docs/spec/3-aana.md)."""
    if kind == "approval":
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


def _claim_of_words(text: str) -> int:
    """The state that the documented SDK reads from words of any kind of evidence."""
    if any(word in text for word in words.CONFIRMATION_WORDS):
        return words.CONFIRMED
    if "authenticated" in text:
        return words.AUTHENTICATED
    return words.USER_CLAIMED if "user claimed" in text else words.NONE


def _confirms(ref: dict[str, Any], kind: str, tier: str, text: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether words of confirmation count without an approval: verified, and about this tool by its whole name
    (D16).
    """
    if tier != "verified" or kind in words.NEVER_CONFIRMING_KINDS:
        return False
    return is_named(ref, text, tool) and not is_about_another(ref, text, tool, arguments)


def _is_approval_of(ref: dict[str, Any], text: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an approval is one of this call, and not of another action (D16). Else it shows who agreed, and not to
    what: it authenticates.
    """
    return is_spoken_of(ref, text, tool) and not is_about_another(ref, text, tool, arguments)


def _weak(ref: dict[str, Any], tier: str, status: str, *, stale: bool) -> tuple[str, ...]:
    """The fields of a reference that D5 lowers it for: ``freshness is missing``, ``trust_tier is unverified``."""
    found = []
    if tier in words.WEAK_TIERS:
        found.append(f"trust_tier is {tier if 'trust_tier' in ref else 'missing'}")
    if "freshness" not in ref:
        found.append("freshness is missing")
    elif status != "fresh":
        found.append(f"freshness.status is {status if 'status' in ref['freshness'] else 'missing'}")
    elif stale:
        found.append("freshness is stale by its times")
    return tuple(found)


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
        read = datetime.fromisoformat(f"{moment[:-1]}+00:00" if moment[-1] == "Z" else moment)
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
