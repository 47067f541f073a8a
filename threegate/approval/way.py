"""The ways to an approval: what a request is approved by, and what is checked of that.

The core has two: a signature over exactly this request, and a guarded folder, which replaces a signature only for
small, low-risk requests where `approval.signature = "optional"` (docs/spec/2-approval.md). A plugin can add one
(`WAYS`): an act that an operator signed, and that covers requests which nobody signed one by one.

Invariant: a way adds checks and replaces none. What holds for each approval, the operator's signature first of all, is
checked by approval/launch.py, whatever the way. Nothing is known of a file before it was read completely. An act that
no way judges, because its plugin is off or absent, approves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from threegate.approval.facts import Check, LaunchFacts, Under
from threegate.approval.ssh_wire import NAMESPACE_ACT
from threegate.approval.statement import SignedApproval, SignedBytes, is_act
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.core.plugins import Place

NOT_JUDGED: Final = "approval_not_judged"
"""The code of a request that was approved by an act which no plugin that is on can judge."""
POLICY_PARTS: Final = "settings, contracts or versions"
"""What changed of a policy of which nothing was kept."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was read of an approval, completely. Nothing of it is known to be true before its checks are made."""

    says: str
    """What it is, for whoever looks at the check."""
    approver: str
    approved_utc: datetime
    expires_utc: datetime
    """Until when the request may be claimed."""
    nonce: str
    """What is used up by running the request."""
    marks: tuple[str, ...]
    """What the trail calls void of such an approval (`payloads.Approved.marks`)."""
    checks: Iterator[Check]
    """Those that belong to this way, after the signature. Each is made when the iterator is asked for it."""
    signed: SignedBytes | None = None
    """What an operator signed; None for a guarded folder."""
    signed_utc: datetime | None = None
    statement: SignedApproval | None = None
    """The statement about this very request, if that is what was signed."""
    approval_sha256: str | None = None
    under: Under | None = None
    """What it runs under, if that covers other requests too."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way by a file that an operator signed. A plugin brings one for its own acts."""

    read: Callable[[LaunchFacts, bytes], Given]
    """Reads the signature file completely. Raises Refused."""
    check_names: tuple[str, ...]
    """The names of `Given.checks`, for a file that cannot be read."""
    is_mine: Callable[[bytes], bool] = is_act
    """Whether a signature file claims to be such an act; this only decides which checks are made."""
    namespace: str = NAMESPACE_ACT
    """Of the signature."""
    file_check: str = "signature file"
    signature_check: str = "signature"
    """The names of the two checks."""


WAYS: Final = Place[Way]("way")


def passed(name: str, found: str, *problems: tuple[bool, str, str]) -> Check:
    """One check: what it found, or the first of its problems that exists (whether it does, reason code, message)."""
    for exists, code, message in problems:
        if exists:
            return Check(name, False, code, message)
    return Check(name, True, "", found)


def tried(name: str, check: Callable[[], str]) -> Check:
    """One check by a function that returns what it found, and raises Refused otherwise."""
    try:
        return Check(name, True, "", check())
    except Refused as refusal:
        return Check(name, False, refusal.code, str(refusal))


def refuse_unjudged(facts: LaunchFacts) -> None:
    """Raises Refused for an act that could be one of a plugin that is off or absent: the request waits, as long as
    `approval.ttl` allows, since only an operator can say whether the plugin comes back.
    """
    why = WAYS.why_unused(facts.settings.plugins.off)
    if why is None or not is_act(facts.signature or b""):
        return
    approved = facts.request.approved_utc
    if approved is None:
        raise Refused("signature_missing", "there is no signature, and the request names no time of approval")
    if facts.now >= approved + facts.ttl:
        raise Refused("expired", "approved longer ago than approval.ttl allows")
    raise Refused(
        NOT_JUDGED,
        f"nobody signed this request itself, and nothing judges what covers it: {why}; it waits for that plugin, or: "
        f"threegate cancel {facts.request.request_id}, then threegate draft --again {facts.request.request_id}, and "
        "approve the new draft",
    )


def changed_since(
    facts: LaunchFacts, changed: Sequence[str], unknown: str = POLICY_PARTS, when: str = "it was approved"
) -> str:
    """One line: what changed since, `unknown` where nothing kept names it, and what to type."""
    what = ", ".join(changed) or unknown
    return f"{what} changed since {when}; draft it again: threegate draft --again {facts.request.request_id}"


def by_hand(facts: LaunchFacts) -> Given:
    """By whoever put the file into approved/, without a signature."""
    request = facts.request
    # A request without a time fails the first check of this way, so this one is never used.
    approved = request.approved_utc or facts.now
    return Given(
        says="no signature",
        approver=request.approved_by or "",
        approved_utc=approved,
        expires_utc=approved + facts.ttl,
        # Nobody chose a nonce, so the bytes themselves are what is used once.
        nonce=request.sha256[:32],
        marks=(request.sha256,),
        checks=_checks_by_hand(facts),
    )


def _checks_by_hand(facts: LaunchFacts) -> Iterator[Check]:
    """Only requests so limited that a guarded folder is enough, within approval.ttl of the time that the file names."""
    request, risk, approved = facts.request, facts.job.effective_risk, facts.request.approved_utc
    needed = facts.signers_needed(risk)
    reasons = (
        (request.signature_needed, "what it does stays done"),
        (needed > 1, "more than one operator must sign it"),
        (risk != "low", "its effective risk is not low"),
        (bool(facts.job.network), "it asks for network"),
        # Otherwise whoever deletes a signature would get around everything that depends on it.
        (facts.was_approved, "it was approved with a signature before"),
        (bool(facts.countersignatures), "countersignatures exist for it"),
        (not request.approved_by or approved is None, "it names no approver"),
    )
    yield passed(
        "unsigned promotion",
        "no signature; this workspace lets it run unsigned",
        *(
            (exists, "signature_missing", f"there is no signature, and it needs one: {reason}")
            for exists, reason in reasons
        ),
    )
    if approved is None:
        untimed = "there is no signature, and the request names no time of approval"
        yield Check("time", False, "signature_missing", untimed)
        return
    yield passed(
        "time",
        "within approval.ttl",
        *early(facts, approved),
        (
            facts.now >= approved + facts.ttl,
            "expired",
            "approved longer ago than approval.ttl allows",
        ),
    )


def early(facts: LaunchFacts, approved: datetime) -> tuple[tuple[bool, str, str], ...]:
    """The problems of an approval that was given before its request was created, or more than a minute ahead of now."""
    ahead = approved > facts.now + timedelta(seconds=limits.APPROVED_AHEAD_SECONDS)
    return (
        (approved < facts.request.created_utc, "not_yet_valid", "approved before it was created"),
        (ahead, "not_yet_valid", f"approved_utc is in the future (now is {facts.now:%Y-%m-%dT%H:%M:%SZ})"),
    )
