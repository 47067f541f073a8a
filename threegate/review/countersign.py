"""A request in approved/ as a further operator sees it: its bytes, its approval, and everything about it.

Invariant: what is shown comes from the bytes that the first operator signed and from the pinned inputs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from threegate.approval import (
    NAMESPACE_APPROVAL,
    Check,
    Countersignature,
    LaunchFacts,
    MalformedError,
    SignedApproval,
    check_countersignature,
    format_utc,
    launch_checks,
    render_signed,
    requester_of,
    sign_statement,
)
from threegate.core import durable
from threegate.core.errors import InvalidInput, Refused
from threegate.judgement.judge import assess
from threegate.launch.approved_file import Prepared, prepare
from threegate.launch.context import Context
from threegate.launch.launch_facts import facts_for_launch
from threegate.request import read_request
from threegate.request.job import Job
from threegate.review.input_copies import InputCopy
from threegate.review.reviewed_draft import Dossier, Draft, refuse_bad_clock
from threegate.trail import moves, payloads
from threegate.trail.payloads import Approved

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Countersigned:
    """A countersignature that was delivered; `missing` says whether still more operators are needed."""

    path: Path
    name: str
    fingerprint: str
    missing: bool


def read_waiting(context: Context, path: Path) -> Prepared:
    """Read a file of approved/ and its signatures, once. Raises InvalidInput."""
    path = path.absolute() if path.is_file() else context.workspace.approved / path.name
    try:
        prepared = prepare(context, path)
    except FileNotFoundError:
        raise InvalidInput(f"{path}: there is no such file; threegate status lists what waits") from None
    if prepared.request is None or prepared.job is None:
        raise InvalidInput(f"{path}: {prepared.code}: {prepared.message}")
    return prepared


def facts_now(context: Context, prepared: Prepared) -> LaunchFacts:
    """The facts of a launch of it now. Raises TrailError."""
    assert prepared.request is not None and prepared.job is not None
    with context.trail.locked() as held:
        return facts_for_launch(
            context.workspace,
            held,
            context.policy,
            prepared.request,
            prepared.job,
            signature=prepared.signature,
            countersignatures=prepared.countersignatures,
        )


def verify_approval(context: Context, path: Path) -> list[Check]:
    """Every check of a launch, with its outcome, for a file of approved/. Raises InvalidInput, Unavailable."""
    return launch_checks(facts_now(context, read_waiting(context, path)))


@contextmanager
def open_waiting(context: Context, path: Path) -> Iterator[tuple[Prepared, Dossier]]:
    """A waiting request as a dossier, for the same screen that its first approver saw. Raises InvalidInput, Refused.

    Nothing is copied: the pinned inputs are the copies. They are hashed here, and again when they are staged.
    """
    prepared = read_waiting(context, path)
    if prepared.path.parent != context.workspace.approved:
        raise InvalidInput(
            f"{prepared.path}: does not wait; only a request in approved/ can be countersigned"
        )
    dossier = waiting_dossier(context, prepared)
    for copy in dossier.inputs:
        if copy.digest_now() != copy.sha256:
            raise Refused("input_changed", f"the pinned bytes of {copy.name} are not those that were signed")
    yield prepared, dossier


def waiting_dossier(context: Context, prepared: Prepared) -> Dossier:
    """What is known about a waiting request; its pinned inputs go by the digests that name them, not hashed here.

    `prepared` is one that `read_waiting` gave.
    """
    request, job = prepared.request, prepared.job
    assert request is not None and job is not None
    copies = tuple(
        InputCopy(item.name, item.sha256, item.size, context.workspace.inputs / item.sha256)
        for item in job.inputs
    )
    history = prepared.history
    event = history.approved if history else None
    approved = Approved.of(event)
    owner_uid = approved.owner_uid if approved and approved.owner_uid is not None else -1
    settings = context.policy.settings
    with context.trail.locked() as held:
        now = held.now
        decision = context.contracts.decide(held, context.policy, request, job, now)
    report = read_request(
        prepared.data, path=prepared.path.name, settings=settings.request, now=now, stage="approved"
    )
    return Dossier(
        draft=Draft(prepared.path, prepared.data, prepared.identity, owner_uid),
        report=report,
        request=request,
        job=job,
        inputs=copies,
        assessment=assess(
            request,
            job,
            context.policy,
            decision,
            authorization="confirmed",
            approval_sha256="0" * 64,
            approved_utc=request.approved_utc,
            side_effect_above_read=context.contracts.write_class(context.policy, request),
            proposal_needs_approval=job.proposal_sha256 is not None and job.effective_risk != "low",
            now=now,
        ),
        owner_uid=owner_uid,
        requester=requester_of(request, settings.requesters, owner_uid),
        named_by_text=str(owner_uid) not in settings.requesters,
        proposal_sha256=job.proposal_sha256,
        first_seen=event.time if event else None,
        now=now,
    )


def countersign(context: Context, prepared: Prepared, name: str, key: Path) -> Countersigned:
    """Sign the approval as a further operator and lay the signature beside it.

    Raises Refused with a reason code when the approval or this signature would not count, InvalidInput, TrailError.
    """
    if prepared.signature is None:
        raise Refused("signature_missing", f"{prepared.path.name}: there is no approval to countersign")
    for check in launch_checks(facts_now(context, prepared)):
        if check.ok is False and check.code != "quorum_missing":
            raise Refused(check.code, check.detail)
    try:
        approval = SignedApproval.parse(prepared.signature)
    except MalformedError:
        raise Refused(
            "signature_missing", f"{prepared.path.name}: runs under a grant; nobody signed it"
        ) from None
    if name == approval.statement.approved_by or name in prepared.countersignatures:
        raise Refused("replayed", f"{name} has signed already; another operator must")
    now = _now(context, approval)
    word = Countersignature(approval.approval_sha256, name, now, secrets.token_hex(16))
    data = word.to_bytes()
    signed = render_signed(data, sign_statement(data, key, NAMESPACE_APPROVAL))
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        index = held.index
        assert prepared.request is not None
        history = index.history(prepared.request.request_id)
        if history is not None and (history.claimed or history.end):
            raise Refused("replayed", f"{prepared.path.name}: does not wait any more")
        facts = facts_for_launch(
            context.workspace,
            held,
            context.policy,
            prepared.request,
            _job(prepared),
            signature=prepared.signature,
            countersignatures={**prepared.countersignatures, name: signed},
        )
        signer = check_countersignature(
            approval,
            signed,
            name=name,
            operators=facts.operators,
            requester=requester_of(facts.request, facts.requesters, facts.owner_uid),
            nonce_used=facts.nonce_used,
            now=facts.now,
        )
        target = prepared.path.with_name(f"{prepared.path.name}.sig.{name}")
        moves.announce(
            held,
            payloads.Countersigned(
                approval_sha256=approval.approval_sha256,
                countersigned_by=name,
                countersigned_utc=format_utc(word.countersigned_utc),
                key=signer.fingerprint,
                nonce=word.nonce,
            ),
            request_id=prepared.request.request_id,
            actor=f"operator:{name}",
        )
        durable.deliver(target, signed, _MODE)
        missing = any(check.code == "quorum_missing" for check in launch_checks(facts))
    return Countersigned(target, name, signer.fingerprint, missing)


def _job(prepared: Prepared) -> Job:
    assert prepared.job is not None
    return prepared.job


def _now(context: Context, approval: SignedApproval) -> datetime:
    """Now to the second, not before the approval of this very second."""
    with context.trail.locked() as held:
        now = max(datetime.now(UTC), held.now).replace(microsecond=0)
    return max(now, approval.statement.approved_utc)
