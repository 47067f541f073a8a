"""Approve: what was shown is signed, recorded in the trail, and moved to approved/.

Invariant: a request is promoted only if `check_launch` would let it pass (except for the quorum, for which it
waits); the trail's `approved` is on disk before a file appears in approved/.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from threegate.acts.pinning import check_pinned, pin, texts_to_pin, to_be_pinned
from threegate.approval.facts import LaunchFacts, statement_inputs
from threegate.approval.launch import launch_checks
from threegate.approval.operators import Operators
from threegate.approval.shown.request_sections import job_exposure, shown_request, signed_text
from threegate.approval.shown.time_read import Reading
from threegate.approval.signature import KeySource, sign_statement
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import BatchPlace, SignedApproval, Statement, format_utc, render_signed
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.context import Context
from threegate.launch.launch_facts import DraftFacts, facts_for_launch
from threegate.launch.launch_problem import read_operators
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.request.backend import BACKENDS
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.review.reviewed_draft import (
    ReviewedDraft,
    refuse_bad_clock,
    refuse_judged,
    refuse_used,
    take_draft_away,
)
from threegate.trail import moves
from threegate.trail.payloads import Approved
from threegate.trail.payloads.payload import Owner, owner_fields
from threegate.trail.trail import LockedTrail

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Sealed:
    """The bytes to approve and the statement about them, not yet signed."""

    data: bytes
    request: Request
    job: Job
    statement: Statement
    shown: bytes
    """The text that, according to the statement, was shown."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """A completed approval."""

    path: Path
    approval_sha256: str
    expires_utc: datetime
    fingerprint: str
    waits_for_quorum: bool
    draft_removed: bool


def seal(
    context: Context,
    reviewed: ReviewedDraft,
    approved_by: str,
    *,
    approved_utc: datetime | None = None,
    nonce: str = "",
) -> Sealed:
    """Write the lines, read the result with the same reader, and make the statement about it.

    Raises Refused if the result would differ in meaning from what was shown, or if the judgement on trial is
    neither a yes nor a contract checkpoint: such a request could never run.
    """
    if (placed := reviewed.draft.placed) is not None:
        raise Refused(placed.kind, f"{reviewed.draft.path.name}: is a {placed.kind}; {placed.kind}s are never signed")
    refuse_judged(reviewed)
    moment = approved_utc or moment_for(reviewed)
    data = insert_approval(reviewed.draft.data, approved_by, moment, reviewed.request.deliver)
    with context.trail.locked() as held:
        epoch = held.index.epoch
    # Read with the same reader as the draft: front matter that the insertion misread shows up as a difference.
    report = context.read(data, reviewed.draft.path.name, "approved", max(reviewed.now, moment))
    request = report.request
    if request is None or _as_draft(request, reviewed.request) != reviewed.request:
        raise Refused(
            "request_changed",
            f"{reviewed.draft.path.name}: adding approved_by and approved_utc would change the request;"
            " ask for a draft whose front matter has each key on one line",
        )
    if (request.approved_by, request.approved_utc) != (approved_by, moment):
        raise Refused("request_changed", f"{reviewed.draft.path.name}: the approval lines do not read back as written")
    settings = context.policy.settings
    view = shown_request(request, reviewed.job, settings, operator=approved_by, owner=reviewed.owner, run=reviewed.run)
    shown = signed_text(view)
    statement = Statement(
        workspace_id=settings.workspace.id,
        epoch=epoch,
        request_id=request.request_id,
        request_sha256=request.sha256,
        job_sha256=reviewed.job.digest,
        inputs=statement_inputs(request),
        approved_by=approved_by,
        approved_utc=moment,
        expires_utc=moment + timedelta(seconds=settings.approval.ttl),
        policy_sha256=context.policy.digest,
        nonce=nonce or secrets.token_hex(16),
        shown_sha256=sha256_hex(shown),
    )
    return Sealed(data, request, reviewed.job, statement, shown)


def insert_approval(data: bytes, approved_by: str, approved_utc: datetime, deliver: str | None = None) -> bytes:
    """The draft's bytes with `approved_by` and `approved_utc` in its front matter, and `deliver` where it is given.

    Exactly these lines are inserted or replaced, and no other byte changes: front matter that is misread here is
    refused, not mangled, because `seal` reads the result again and compares. Raises Refused if it is not closed.
    """
    values = {b"approved_by": approved_by, b"approved_utc": format_utc(approved_utc)}
    if deliver is not None:
        values[b"deliver"] = deliver
    lines = data.split(b"\n")
    ending = b"\r" if lines[0].endswith(b"\r") else b""
    fence = b"---" + ending
    if lines[0] != fence or fence not in lines[1:]:
        raise Refused("request_changed", "the file has no closed front matter")
    close = lines.index(fence, 1)
    for key, value in values.items():
        line = key + b": " + json.dumps(value).encode() + ending
        places = [number for number in range(1, close) if lines[number].startswith(key + b":")]
        if places:
            lines[places[0]] = line
        else:
            lines.insert(close, line)
            close += 1
    return b"\n".join(lines)


def seal_as(context: Context, reviewed: ReviewedDraft, statement: Statement) -> Sealed:
    """The same bytes as when `statement` was printed, for a signature made elsewhere.

    Raises Refused if the statement is not about this draft in its current form.
    """
    approver, moment = statement.approved_by, statement.approved_utc
    sealed = seal(context, reviewed, approver, approved_utc=moment, nonce=statement.nonce)
    if (again := sealed.statement) != statement:
        fields = Statement.__dataclass_fields__
        names = [name for name in fields if getattr(again, name) != getattr(statement, name)]
        raise Refused("statement_mismatch", f"the statement differs in {', '.join(names)}; print it again")
    return sealed


def sign(sealed: Sealed, key: KeySource) -> bytes:
    """The signature file. ssh-keygen may ask on the terminal. Raises InvalidInput, Unavailable."""
    statement = sealed.statement.to_bytes()
    return render_signed(statement, sign_statement(statement, key, NAMESPACE_APPROVAL))


def promote(
    context: Context,
    reviewed: ReviewedDraft,
    sealed: Sealed,
    signature: bytes,
    *,
    actor: str,
    reason: str = "",
    reading: Reading | None = None,
    batch: BatchPlace | None = None,
) -> Promoted:
    """Pin, check as at launch, record in the trail, promote, remove the draft.

    `reading`: how the operator read it, if they were asked; `batch`: the position of its statement in a
    batch. Raises Refused with the reason code that a launch would give, TrailError, Unavailable, OSError.
    """
    name = reviewed.draft.path.name
    # Before the lock is taken, because it reads whole files.
    check_pinned(context.workspace, reviewed.inputs)
    # The texts are written under the lock too, because a daemon that starts removes temporary files under it.
    with (
        context.trail.locked() as held,
        texts_to_pin(context.workspace, sealed.shown, context.policy.kept()) as texts,
    ):
        check_pinned(context.workspace, texts)
        copies = (*reviewed.inputs, *texts)
        refuse_bad_clock(held)
        # The second of a check before the review: two operators may approve one draft at once.
        refuse_used(held, sealed.request)
        BACKENDS[sealed.job.backend].refuse_other_state(context.workspace, reviewed.owner, sealed.job.action)
        facts = facts_of_draft(context, held, reviewed, sealed, signature, batch)
        failed = [check for check in launch_checks(facts) if check.ok is False]
        for check in failed:
            if check.code != "quorum_missing":  # for the other operators it waits in approved/
                raise Refused(check.code, check.detail)
        approval = SignedApproval.parse(signature, sealed.request.request_id)
        fingerprint = approval.signed.signature.key.fingerprint
        target = context.workspace.approved / name
        paths = moves.deliver(
            held,
            [(target.with_name(f"{name}.sig"), signature, _MODE), (target, sealed.data, _MODE)],
            _payload(reviewed, sealed, approval, fingerprint, reason, reading, texts[1].sha256),
            request_id=sealed.request.request_id,
            actor=actor,
            prepare=lambda: pin(context.workspace, copies),
        )
        # Still under the lock: anyone who finds the id used also finds the draft gone.
        removed = take_draft_away(context.workspace, reviewed.draft)
        # And before a daemon can judge it: what that writes about it must stay.
        write_approved_status(context, reviewed.owner, paths[-1].name, sealed)
    return Promoted(
        path=paths[-1],
        approval_sha256=approval.approval_sha256,
        expires_utc=sealed.statement.expires_utc,
        fingerprint=fingerprint,
        waits_for_quorum=bool(failed),
        draft_removed=removed,
    )


def known_operators(context: Context) -> Operators:
    """The operators, as the trail recorded them. Raises Refused (operators_changed)."""
    operators = read_operators(context.workspace)
    with context.trail.locked() as held:
        recorded = held.index.operators
    if operators.problem is not None or operators.digests != recorded:
        raise Refused(
            "operators_changed",
            f"{context.workspace.operators_file}: {operators.problem or 'not what the trail last recorded'};"
            " check it, then: threegate operator record --yes",
        )
    return operators


def read_signature(path: Path) -> tuple[Statement, bytes]:
    """A signature made elsewhere: a complete signature file, or plain armor next to the statement that it signs.

    ``statement.json.sig`` as ssh-keygen writes it needs ``statement.json`` next to it. Returns the statement and the
    complete signature file. Raises InvalidInput.
    """
    try:
        data = durable.read_regular(path, max_bytes=limits.SIGNATURE_FILE_BYTES)
        if data.startswith(b"-----BEGIN"):
            beside = path.with_suffix("")
            data = render_signed(durable.read_regular(beside, max_bytes=limits.SIGNATURE_FILE_BYTES), data)
        return SignedApproval.parse(data).statement, data
    except MalformedError as error:
        raise InvalidInput(f"{path}: {error}; sign exactly the printed bytes with ssh-keygen -Y sign") from None
    except OSError as error:
        raise InvalidInput(
            f"{error.filename or path}: cannot be read ({error.strerror or error}); keep the statement next to its .sig"
        ) from None


def moment_for(reviewed: ReviewedDraft) -> datetime:
    """Now, to the second, but not before a created_utc with a fraction of this same second."""
    moment = max(datetime.now(UTC), reviewed.now).replace(microsecond=0)
    if moment < reviewed.request.created_utc:
        moment += timedelta(seconds=1)
    return moment


def _as_draft(request: Request, draft: Request) -> Request:
    return replace(
        request,
        approved_by=draft.approved_by,
        approved_utc=draft.approved_utc,
        data=draft.data,
        sha256=draft.sha256,
        stage=draft.stage,
    )


def facts_of_draft(
    context: Context,
    held: LockedTrail,
    reviewed: ReviewedDraft,
    sealed: Sealed,
    signature: bytes,
    batch: BatchPlace | None = None,
) -> LaunchFacts:
    """The facts that a launch would see once this is promoted. Raises TrailError, OSError."""
    return facts_for_launch(
        context.workspace,
        held,
        context.policy,
        sealed.request,
        sealed.job,
        signature=signature,
        countersignatures={},
        draft=DraftFacts(reviewed.owner, to_be_pinned(reviewed.inputs), batch),
    )


def _payload(
    reviewed: ReviewedDraft,
    sealed: Sealed,
    approval: SignedApproval,
    fingerprint: str,
    reason: str,
    reading: Reading | None,
    kept_policy_sha256: str,
) -> Approved:
    statement = sealed.statement
    return Approved(
        request_sha256=statement.request_sha256,
        job_sha256=statement.job_sha256,
        approval_sha256=approval.approval_sha256,
        batch_sha256=approval.place.batch_sha256 if approval.place else None,
        batch_index=approval.place.index if approval.place else None,
        policy_sha256=statement.policy_sha256,
        inputs={item.name: item.sha256 for item in statement.inputs},
        approved_by=statement.approved_by,
        approved_utc=format_utc(statement.approved_utc),
        expires_utc=format_utc(statement.expires_utc),
        key=fingerprint,
        nonce=statement.nonce,
        shown_sha256=statement.shown_sha256,
        kept_policy_sha256=kept_policy_sha256,
        asked=reading is not None,
        read_seconds=reading.seconds if reading else None,
        read_whole=reading.whole if reading else None,
        **owner_fields(reviewed.owner),
        draft_sha256=reviewed.request.sha256,
        from_=reviewed.draft.path.parent.name,
        proposal_sha256=reviewed.job.proposal_sha256,
        platform=reviewed.job.platform.to_json(),
        risk=sealed.job.effective_risk,
        uses=reviewed.novelty.kept,
        reason=reason,
    )


def write_approved_status(context: Context, owner: Owner | None, name: str, sealed: Sealed) -> None:
    """Write the status file of a request that has just been approved. Raises OSError."""
    write_verdict(
        context.workspace.requester_folders(owner),
        Verdict(
            file=name,
            sha256=sealed.request.sha256,
            request_id=sealed.request.request_id,
            stage="approved",
            valid=True,
            state="approved",
            exposure=job_exposure(sealed.request, sealed.job),
        ),
    )
