"""The way of a grant: what is checked of it at a launch, instead of a statement about the request.

Invariant: the terms of the grant are valid now, and the trail has it, not revoked, with a use left. The signature over
it is checked by the core (approval/launch.py), like every other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from threegate.approval.facts import Check, LaunchFacts, Under
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.way import Given, Way, changed_since, tried
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.plugins.grants.grant import Grant, covers, is_grant, refuse_write
from threegate.plugins.grants.section import GrantSettings


def read_grant(facts: LaunchFacts, data: bytes) -> Given:
    """A standing grant that covers the request."""
    try:
        grant = Grant.parse(data)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the grant {error}; give a new one") from None
    writes = _settings(facts).allow_write and facts.job.action.own_tool
    return Given(
        says=f"grant {grant.id}",
        approver=grant.act.acted_by,
        # A request without the time of its promotion fails the check of the time, so this one is never used.
        approved_utc=facts.request.approved_utc or grant.act.acted_utc,
        expires_utc=grant.expires_utc,
        nonce=grant_nonce(grant, facts.request.request_id),
        marks=(facts.request.sha256,),
        checks=_checks(facts, grant),
        signed=grant.signed,
        signed_utc=grant.act.acted_utc,
        approval_sha256=grant.signed.sha256,
        under=Under(grant.id, grant.max_uses, confirms=writes),
    )


def _checks(facts: LaunchFacts, grant: Grant) -> Iterator[Check]:
    yield tried("grant terms", lambda: check_grant_terms(facts, grant))
    yield tried("job", lambda: check_grant_job(facts, grant))
    yield tried("time", lambda: check_grant_time(facts, grant))


WAY: Final = Way(
    read_grant,
    ("grant terms", "job", "time"),
    is_mine=is_grant,
    file_check="grant file",
    signature_check="grant signature",
)
"""By a standing grant that covers the request."""


def check_grant_terms(facts: LaunchFacts, grant: Grant) -> str:
    """Everything that the grant is bound to except the job. Raises Refused."""
    act, settings = grant.act, _settings(facts)
    if not settings.allow:
        raise Refused("grants_off", "grants.allow is not on in threegate.toml")
    uses = facts.grant_uses(grant.id)
    if uses is None:
        raise Refused("grant_missing", "the trail knows no such grant, or it was revoked")
    if uses >= grant.max_uses:
        raise Refused("grant_used_up", f"the grant was used {uses} times; approve this one by hand")
    if (act.workspace_id, act.epoch) != (facts.workspace_id, facts.epoch):
        raise Refused("workspace_mismatch", "the grant was given in another workspace, or before its adoption")
    if grant.policy_sha256 != facts.standing_sha256:
        given = f"the grant {grant.id[:16]} was given"
        changed = facts.changed_standing(grant.policy_sha256)
        raise Refused("policy_changed", changed_since(facts, changed, when=given))
    refuse_write(facts.job, allowed=settings.allow_write)
    if grant.owner != facts.owner:
        raise Refused("grant_mismatch", "the draft has another owner than the grant names")
    if (needed := facts.signers_needed(facts.job.effective_risk)) > 1:
        raise Refused("quorum_missing", f"{needed} operators must sign this; a grant has one")
    return f"use {uses + 1} of {grant.max_uses}"


def check_grant_time(facts: LaunchFacts, grant: Grant) -> str:
    """Given before it is used, used before it expires, and the draft promoted in between. Raises Refused."""
    given = grant.act.acted_utc
    ahead = timedelta(seconds=limits.APPROVED_AHEAD_SECONDS)
    promoted = _promoted_utc(facts, grant)
    if given > facts.now + ahead or promoted > facts.now + ahead or promoted < given:
        raise Refused("not_yet_valid", "the grant, or the promotion under it, is dated in the future")
    if promoted < facts.request.created_utc:
        raise Refused("not_yet_valid", "promoted before it was created")
    if facts.now >= grant.expires_utc or facts.now >= promoted + facts.ttl:
        raise Refused("expired", "the grant, or the promotion under it, has ended")
    return f"until {grant.expires_utc:%Y-%m-%dT%H:%M:%SZ}"


def check_grant_job(facts: LaunchFacts, grant: Grant) -> str:
    """The job matches the grant's in every field. Raises Refused."""
    if facts.elsewhere is not None:
        raise Refused(*facts.elsewhere)
    if not covers(grant, facts.job):
        raise Refused("grant_mismatch", "the job is not the one that the grant is for")
    widened = ", ".join(map(str, grant.widened))
    return "the same in every field" + (f" but {widened}" if widened else "")


def grant_nonce(grant: Grant, request_id: str) -> str:
    """One use of a grant: by this request, once."""
    return hashlib.sha256(f"{grant.id} {request_id}".encode()).hexdigest()[:32]


def _settings(facts: LaunchFacts) -> GrantSettings:
    return facts.settings.section(GrantSettings)


def _promoted_utc(facts: LaunchFacts, grant: Grant) -> datetime:
    """When the draft was promoted under the grant, by its approval lines. Raises Refused."""
    promoted = facts.request.approved_utc
    if promoted is None or facts.request.approved_by != grant.act.acted_by:
        raise Refused("statement_mismatch", "the request does not name the grant's operator and a time")
    return promoted
