"""The launch checks that apply to a grant instead of an approval.

Invariant: the terms of the grant are valid now, and the trail has it, not revoked, with a use left.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from threegate.approval.facts import LaunchFacts, VerifiedApproval
from threegate.approval.grant import Grant, covers, refuse_write
from threegate.approval.quorum import Signer
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.sshsig import NAMESPACE_ACT
from threegate.core import limits
from threegate.core.errors import Refused


def read_grant(data: bytes) -> Grant:
    """Raises Refused (signature_file_malformed)."""
    try:
        return Grant.parse(data)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the grant {error}; give a new one") from None


def check_grant_signature(facts: LaunchFacts, grant: Grant) -> Signer:
    """Who gave it; the signature was valid then and is valid now. Raises Refused, Unavailable."""
    act = grant.act
    fingerprint = verify_signer(
        grant.signed.statement,
        grant.signed.signature,
        act.acted_by,
        NAMESPACE_ACT,
        facts.operators,
        at=(act.acted_utc, facts.now),
    )
    return Signer(act.acted_by, fingerprint)


def check_grant_terms(facts: LaunchFacts, grant: Grant) -> str:
    """Everything that the grant is bound to except the job. Raises Refused."""
    act = grant.act
    if not facts.grants:
        raise Refused("grants_off", "approval.grants is not on in threegate.toml")
    uses = facts.grant_uses(grant.id)
    if uses is None:
        raise Refused("grant_missing", "the trail knows no such grant, or it was revoked")
    if uses >= grant.max_uses:
        raise Refused("grant_used_up", f"the grant was used {uses} times; approve this one by hand")
    if (act.workspace_id, act.epoch) != (facts.workspace_id, facts.epoch):
        raise Refused("workspace_mismatch", "the grant was given in another workspace, or before its adoption")
    if grant.policy_sha256 != facts.policy_sha256:
        raise Refused("policy_changed", "settings, contracts, images or versions changed since the grant")
    refuse_write(facts.job, allowed=facts.grants_write)
    if grant.owner != facts.owner:
        raise Refused("grant_mismatch", "the draft is of another owner than the grant is for")
    needed: int = getattr(facts.quorum, facts.job.effective_risk)
    if needed > 1:
        raise Refused("quorum_missing", f"{needed} operators must sign this; a grant has one")
    return f"use {uses + 1} of {grant.max_uses}"


def check_grant_time(facts: LaunchFacts, grant: Grant) -> str:
    """Given before it is used, used before it expires, and the draft promoted in between. Raises Refused."""
    given = grant.act.acted_utc
    ahead = timedelta(seconds=limits.APPROVED_AHEAD_SECONDS)
    promoted = _promoted_utc(facts, grant)
    if given > facts.now + ahead or promoted > facts.now + ahead or promoted < given:
        raise Refused("not_yet_valid", "the grant, or the promotion under it, lies ahead")
    if promoted < facts.request.created_utc:
        raise Refused("not_yet_valid", "promoted before it was created")
    if facts.now >= grant.expires_utc or facts.now >= promoted + timedelta(seconds=facts.ttl_sec):
        raise Refused("expired", "the grant, or the promotion under it, has ended")
    return f"until {grant.expires_utc:%Y-%m-%dT%H:%M:%SZ}"


def _promoted_utc(facts: LaunchFacts, grant: Grant) -> datetime:
    """When the draft was promoted under the grant, by its approval lines. Raises Refused."""
    promoted = facts.request.approved_utc
    if promoted is None or facts.request.approved_by != grant.act.acted_by:
        raise Refused("statement_mismatch", "the request does not name the grant's operator and a time")
    return promoted


def check_grant_job(facts: LaunchFacts, grant: Grant) -> str:
    """The job matches the grant's in every field. Raises Refused."""
    if not covers(grant, facts.job):
        raise Refused("grant_mismatch", "the job is not the one that the grant is for")
    widened = ", ".join(map(str, grant.widened))
    return "the same in every field" + (f" but {widened}" if widened else "")


def grant_nonce(grant: Grant, request_id: str) -> str:
    """One use of a grant: by this request, once."""
    return hashlib.sha256(f"{grant.id} {request_id}".encode()).hexdigest()[:32]


def verified_by_grant(facts: LaunchFacts, grant: Grant, signer: Signer) -> VerifiedApproval:
    """The result with which a launch under a grant continues."""
    return VerifiedApproval(
        approved_by=signer.name,
        approved_utc=_promoted_utc(facts, grant),
        expires_utc=grant.expires_utc,
        nonce=grant_nonce(grant, facts.request.request_id),
        approval_sha256=grant.id,
        signers=(signer,),
        grant=grant.id,
        grant_max_uses=grant.max_uses,
        grant_writes=facts.grants_write and facts.job.action.own_tool,
        operators=facts.operators.digests,
    )
