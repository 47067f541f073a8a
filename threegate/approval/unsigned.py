"""`approval.signature = "optional"`: the requirements for a hand-promoted request without a signature
(docs/spec/2-approval.md).

Invariant: a guarded folder replaces a signature only for small, low-risk requests; everything else needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from threegate.approval.facts import LaunchFacts
from threegate.approval.way import Step, Way, approved_utc_of
from threegate.core import limits
from threegate.core.errors import Refused


class ByHand(Way):
    """By whoever put the file into approved/, without a signature."""

    def checks(self) -> Iterator[Step]:
        yield "unsigned promotion", lambda: check_unsigned(self.facts)
        yield "time", lambda: check_unsigned_time(self.facts)

    @property
    def approver(self) -> str | None:
        return self.facts.request.approved_by

    @property
    def approved_utc(self) -> datetime:
        return approved_utc_of(self.facts.request)

    @property
    def expires_utc(self) -> datetime:
        return self.approved_utc + timedelta(seconds=self.facts.ttl_sec)

    @property
    def nonce(self) -> str:
        return self.facts.request.sha256[:32]


def check_began(facts: LaunchFacts, approved: datetime) -> None:
    """created_utc <= approved_utc, and not more than a minute ahead. Raises Refused (not_yet_valid)."""
    if approved < facts.request.created_utc:
        raise Refused("not_yet_valid", "approved before it was created")
    if approved > facts.now + timedelta(seconds=limits.APPROVED_AHEAD_SECONDS):
        raise Refused("not_yet_valid", f"approved_utc lies ahead of now ({facts.now:%Y-%m-%dT%H:%M:%SZ})")


def check_unsigned(facts: LaunchFacts) -> str:
    """`signature = "optional"`: only for requests so limited that a guarded folder is enough."""
    needed: int = getattr(facts.quorum, facts.job.effective_risk)
    reasons = (
        (facts.request.signature_needed, "what it does stays done"),
        (needed > 1, "more than one operator must sign it"),
        (facts.job.effective_risk != "low", "its effective risk is not low"),
        (bool(facts.job.network), "it asks for network"),
        (facts.was_approved, "it was approved with a signature before"),
        (bool(facts.countersignatures), "countersignatures exist for it"),
        (not facts.request.approved_by or facts.request.approved_utc is None, "it names no approver"),
    )
    for wrong, reason in reasons:
        if wrong:
            raise Refused("signature_missing", f"there is no signature, and it needs one: {reason}")
    return "no signature; this workspace lets it run unsigned"


def check_unsigned_time(facts: LaunchFacts) -> str:
    """Within approval.ttl of the time that the file names. Raises Refused (not_yet_valid, expired)."""
    approved = approved_utc_of(facts.request)
    check_began(facts, approved)
    if facts.now >= approved + timedelta(seconds=facts.ttl_sec):
        raise Refused("expired", "approved longer ago than approval.ttl allows")
    return "within approval.ttl"
