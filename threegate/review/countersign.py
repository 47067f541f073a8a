"""A request in approved/ as a further operator sees it: its bytes, its approval, and everything about it.

Invariant: what is shown comes from the bytes that the first operator signed and from the pinned inputs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from threegate.approval.facts import Check, LaunchFacts, requester_of
from threegate.approval.further_signatures import check_countersignature
from threegate.approval.launch import launch_checks
from threegate.approval.shown.time_read import Reading
from threegate.approval.signature import KeySource, sign_statement
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import Countersignature, SignedApproval, format_utc, render_signed
from threegate.core import durable
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Refused, ThreeGateError, TrailError
from threegate.launch.approved_file import Approved, Unrunnable, facts_of_approved, read_approved
from threegate.launch.context import Context
from threegate.launch.launch_facts import batch_place
from threegate.request.model import InputFile
from threegate.review.compare import differs_from_last
from threegate.review.fitness import fitness, machine_facts
from threegate.review.group_screen import Group, why_alone
from threegate.review.input_copies import InputCopy
from threegate.review.novelty import novelty_of, past_of
from threegate.review.readiness import daemon_line
from threegate.review.reviewed_draft import Draft, ReviewedDraft, assess_on_trial, refuse_bad_clock
from threegate.trail import moves, payloads

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Countersigned:
    """A stored countersignature; `missing` says whether more operators are needed."""

    path: Path
    name: str
    fingerprint: str
    missing: bool


def read_waiting(context: Context, path: Path) -> Approved:
    """Read a file of approved/ and its signatures, once. Raises InvalidInput."""
    path = path.absolute()
    try:
        approved = read_approved(context, path)
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file; threegate status lists the waiting requests") from None
    if isinstance(approved, Unrunnable):
        raise InvalidInput(f"{path}: {approved.code}: {approved.message}")
    return approved


def facts_now(context: Context, approved: Approved) -> LaunchFacts:
    """The facts that a launch of it would check now. Raises TrailError."""
    with context.trail.locked() as held:
        return facts_of_approved(context, held, approved)


def verify_approval(context: Context, path: Path) -> list[Check]:
    """Every check of a launch, with its result, for a file in approved/. Raises InvalidInput, Unavailable."""
    return launch_checks(facts_now(context, read_waiting(context, path)))


def open_waiting(context: Context, path: Path) -> tuple[Approved, ReviewedDraft]:
    """A waiting request with everything known about it, for the screen that its first approver saw.

    Raises InvalidInput, Refused. Nothing is copied, because the pinned inputs are copies. They are hashed here, and
    again when they are staged.
    """
    approved = read_waiting(context, path)
    if approved.path.parent != context.workspace.approved:
        raise InvalidInput(f"{approved.path}: not waiting; only a request in approved/ can be countersigned")
    reviewed = review_waiting(context, approved)
    for copy in reviewed.inputs:
        if copy.digest_now() != copy.sha256:
            raise Refused("input_changed", f"the pinned bytes of {copy.name} differ from those that were signed")
    return approved, reviewed


def waiting_group(context: Context, path: Path, name: str) -> tuple[list[Approved], Group]:
    """The waiting requests of the batch of `path`, which comes first, for `name` to sign, and for a group's screen.

    Raises InvalidInput if there is no other one, whatever `open_waiting` raises for the first, TrailError.
    """
    first, reviewed = open_waiting(context, path)
    waiting, members, left_out = [first], [reviewed], []
    place = batch_place(payloads.Approved.of(first.history.approved if first.history else None))
    with context.trail.locked() as held:
        files = [
            (other.batch_index or 0, other.file)
            for history in held.index.unended_histories()
            if history.claimed is None
            and (other := payloads.Approved.of(history.approved)) is not None
            and (place is not None and other.batch_sha256 == place.batch_sha256)
            and other.file is not None
            and other.file != first.path.name
        ]
    for _, file in sorted(files):
        try:
            approved, member = open_waiting(context, context.workspace.approved / file)
            why = why_alone(reviewed, member)
            if name in approved.countersignatures:
                why = f"{name} has already signed it"
        except TrailError:
            raise
        except ThreeGateError as error:
            why = f"{error}"
        if why:
            left_out.append((file, why))
        else:
            waiting.append(approved)
            members.append(member)
    if len(members) == 1:
        raise InvalidInput(
            f"{first.path.name}: no other request of its batch is waiting for {name}; countersign it alone"
        )
    return waiting, Group(tuple(members), tuple(left_out))


def review_waiting(context: Context, approved: Approved) -> ReviewedDraft:
    """What is known about a waiting request that `read_waiting` read. Its pinned inputs are not hashed here."""
    request, job = approved.request, approved.job
    copies = tuple(
        InputCopy(item.name, item.sha256, item.size, context.workspace.inputs / item.sha256) for item in job.inputs
    )
    history = approved.history
    event = history.approved if history else None
    given = payloads.Approved.of(event)
    owner = given.owner if given else None
    with context.trail.locked() as held:
        now, run = held.now, held.index.run(owner)
        decision, _ = context.contracts.decide(held, context.policy, request, job, now)
        past = past_of(held.index)
    report = context.read(approved.data, approved.path.name, "approved", now)
    facts = machine_facts(context.workspace, context.policy.settings, request, owner=owner, risk=job.effective_risk)
    opened = {copy.name: copy for copy in copies}
    settings = context.policy.settings

    def open_input(item: InputFile) -> BinaryIO:
        return opened[item.name].open()

    return ReviewedDraft(
        draft=Draft(approved.path, approved.data, approved.identity, owner),
        report=report,
        request=request,
        job=job,
        inputs=copies,
        assessment=assess_on_trial(context, request, job, decision, now, approved_utc=request.approved_utc),
        run=run,
        now=now,
        differs=differs_from_last(context.workspace, request),
        bound=approved.bound,
        unfit=approved.bound.why_unfit(),
        novelty=novelty_of(request, job, open_input, past, owner=owner, run=run, settings=settings),
        fit=fitness(request, facts, open_input),
        daemon=daemon_line(context.workspace),
    )


def countersign(
    context: Context, approved: Approved, name: str, key: KeySource, *, reading: Reading | None = None
) -> Countersigned:
    """Sign the approval as a further operator and store the signature next to it. Raises Refused if the approval or
    this signature would not count, InvalidInput, TrailError.
    """
    (done,) = countersign_all(context, [approved], name, key, reading=reading)
    return done


def countersign_all(
    context: Context, waiting: Sequence[Approved], name: str, key: KeySource, *, reading: Reading | None = None
) -> Iterator[Countersigned]:
    """Sign all these approvals with one signature, and store it next to each in turn. Raises as `countersign`."""
    approvals = [_approval(context, approved, name) for approved in waiting]
    first, *others = (approval.approval_sha256 for approval in approvals)
    now = max(_now(context, approval) for approval in approvals)
    word = Countersignature(first, name, now, secrets.token_hex(16), tuple(others))
    data = word.to_bytes()
    signed = render_signed(data, sign_statement(data, key, NAMESPACE_APPROVAL))
    for approved, approval in zip(waiting, approvals, strict=True):
        yield _add(context, approved, approval, word, signed, reading)


def _approval(context: Context, approved: Approved, name: str) -> SignedApproval:
    """The approval that `name` is about to countersign. Raises Refused if it is not valid, or `name` signed already."""
    if approved.signature is None:
        raise Refused("signature_missing", f"{approved.path.name}: no approval to countersign")
    for check in launch_checks(facts_now(context, approved)):
        if check.ok is False and check.code != "quorum_missing":
            raise Refused(check.code, check.detail)
    try:
        approval = SignedApproval.parse(approved.signature, approved.request_id)
    except MalformedError:
        message = f"{approved.path.name}: runs under a grant; there is no approval to countersign"
        raise Refused("signature_missing", message) from None
    if name == approval.statement.approved_by or name in approved.countersignatures:
        raise Refused("replayed", f"{name} has already signed; another operator must sign")
    return approval


def _add(
    context: Context,
    approved: Approved,
    approval: SignedApproval,
    word: Countersignature,
    signed: bytes,
    reading: Reading | None,
) -> Countersigned:
    """Check the signature under the trail's lock, record it in the trail, and store it next to the approval."""
    name = word.countersigned_by
    with context.trail.locked() as held:
        refuse_bad_clock(held)
        index = held.index
        history = index.history(approved.request.request_id)
        # The daemon may have claimed it, or an operator rejected it, while this one was reading.
        if history is not None and (history.claimed or history.end):
            raise Refused("replayed", f"{approved.path.name}: no longer waiting")
        facts = facts_of_approved(context, held, approved, {name: signed})
        signer = check_countersignature(
            approval,
            signed,
            name=name,
            operators=facts.operators,
            requester=requester_of(facts.request, facts.requesters, facts.owner),
            nonce_used=facts.nonce_used,
            now=facts.now,
        )
        target = approved.path.with_name(f"{approved.path.name}.sig.{name}")
        moves.announce(
            held,
            payloads.Countersigned(
                approval_sha256=approval.approval_sha256,
                countersigned_by=name,
                countersigned_utc=format_utc(word.countersigned_utc),
                key=signer.fingerprint,
                nonce=word.nonce,
                read_seconds=reading.seconds if reading else None,
                read_whole=reading.whole if reading else None,
                files={f".sig.{name}": sha256_hex(signed)},
            ),
            request_id=approved.request.request_id,
            actor=f"operator:{name}",
        )
        # After its event (ADR 4): a crash leaves an announced signature
        # that is missing, never a file that the trail does not know.
        durable.deliver(target, signed, _MODE)
        missing = any(check.code == "quorum_missing" for check in launch_checks(facts))
    return Countersigned(target, name, signer.fingerprint, missing)


def _now(context: Context, approval: SignedApproval) -> datetime:
    """Now, to the second, but not earlier than an approval of this same second."""
    with context.trail.locked() as held:
        now = max(datetime.now(UTC), held.now).replace(microsecond=0)
    return max(now, approval.statement.approved_utc)
