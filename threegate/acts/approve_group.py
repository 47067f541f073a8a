"""Approve a group of drafts with one decision: one signature over a batch of complete statements.

Invariant: a group is one full draft and others that differ from it only in what its table shows in full; a
draft that cannot be shown that way, or could not run, is left out and named. Each member is promoted
separately, like any approval. After a crash between two members the rest are still drafts, and their
statements cannot be used, because a launch requires the member's own event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from threegate.acts.approve import Promoted, Sealed, moment_for, promote, seal
from threegate.approval.shown.time_read import Reading
from threegate.approval.signature import KeySource, sign_statement
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL
from threegate.approval.statement import Batch, BatchPlace, render_signed
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError
from threegate.launch.context import Context
from threegate.request.job import RISKS
from threegate.review.draft_sources import drafts_of
from threegate.review.group_screen import Group, why_alone
from threegate.review.group_shape import shape_of
from threegate.review.reviewed_draft import (
    Draft,
    ReviewedDraft,
    open_reviewed_draft,
    read_draft,
    refuse_judged,
)


@dataclass(frozen=True, slots=True)
class SealedGroup:
    """The statements about a group's members, in order, and their batch; not yet signed."""

    sealed: tuple[Sealed, ...]
    batch: Batch


def group_paths(context: Context, lead: Draft) -> list[Path]:
    """The drafts of the lead's shape, the lead first. Raises InvalidInput if it is in no group."""
    shape = _shape(context, lead)
    if shape is None:
        raise InvalidInput(
            f"{lead.path.name}: not valid, or not eligible for a group; see: threegate approve {lead.path.name}"
        )
    found = [lead.path]
    for path in drafts_of(context.workspace):
        if path == lead.path:
            continue
        try:
            if _shape(context, read_draft(context.workspace, path)) == shape:
                found.append(path)
        except InvalidInput:
            continue  # moved on, or cannot be read
    return found


@contextmanager
def open_group(context: Context, lead: Draft) -> Iterator[Group]:
    """Open the drafts of the lead's shape; the copies of their inputs exist until the block ends.

    Raises what opening the lead raises, InvalidInput if its group has no other draft, TrailError.
    """
    paths = group_paths(context, lead)
    with ExitStack() as held:
        first = held.enter_context(open_reviewed_draft(context, lead))
        refuse_judged(first)
        members, left_out = [first], []
        room = limits.SIGNATURE_FILE_BYTES - limits.BATCH_ARMOR_BYTES - _size(first)
        for path in paths[1:]:
            try:
                draft = read_draft(context.workspace, path)
                with ExitStack() as own:
                    member = own.enter_context(open_reviewed_draft(context, draft, compared=False))
                    why = why_alone(first, member)
                    if member.request.request_id in {one.request.request_id for one in members}:
                        why = "another draft of the group has the same request_id"
                    if not why and (len(members) == limits.BATCH_MEMBERS or _size(member) > room):
                        why = "the batch is full; approve the rest in another one"
                    if why:
                        left_out.append((path.name, why))
                        continue
                    # The copies of a member that is left out are removed at once, those of the others when the group
                    # is.
                    held.enter_context(own.pop_all())
                    members.append(member)
                    room -= _size(member)
            except TrailError:
                raise
            except ThreeGateError as error:
                left_out.append((path.name, f"{error}"))
        if len(members) == 1:
            raise InvalidInput(
                f"{lead.path.name}: no other draft can be decided on together with it"
                + "".join(f" ({name}: {why})" for name, why in left_out[:1])
                + f"; approve it alone: threegate approve {lead.path.name}"
            )
        yield Group(tuple(members), tuple(left_out))


def seal_group(context: Context, group: Group, approved_by: str) -> SealedGroup:
    """A statement about each member, all with the same time. Raises Refused like `seal`."""
    moment = max(map(moment_for, group.members))
    sealed = tuple(seal(context, member, approved_by, approved_utc=moment) for member in group.members)
    risk = max((one.job.effective_risk for one in sealed), key=RISKS.index)
    return SealedGroup(sealed, Batch(risk, tuple(one.statement for one in sealed)))


def sign_group(group: SealedGroup, key: KeySource) -> bytes:
    """The signature file of every member. ssh-keygen asks once. Raises InvalidInput, Unavailable."""
    data = group.batch.to_bytes()
    return render_signed(data, sign_statement(data, key, NAMESPACE_APPROVAL))


def deliver_group(
    context: Context,
    group: Group,
    sealed: SealedGroup,
    signature: bytes,
    *,
    actor: str,
    reason: str = "",
    reading: Reading | None = None,
) -> Iterator[Promoted]:
    """Promote the members one by one, like `promote`; those before a failure stay approved. Raises the same
    as `promote`.
    """
    digest = sha256_hex(sealed.batch.to_bytes())
    for index, (member, one) in enumerate(zip(group.members, sealed.sealed, strict=True)):
        yield promote(
            context,
            member,
            one,
            signature,
            actor=actor,
            reason=reason,
            reading=reading,
            batch=BatchPlace(digest, index),
        )


def _shape(context: Context, draft: Draft) -> str | None:
    """The draft's shape; None if it is not valid, was made from a proposal, or is not eligible for a group."""
    if draft.path.parent == context.workspace.drafts:
        return None
    report = context.read(draft.data, draft.path.name, "draft")
    return shape_of(report.request, draft.owner) if report.request is not None else None


def _size(member: ReviewedDraft) -> int:
    """An upper bound on a member's share of the signature file."""
    return limits.BATCH_STATEMENT_BYTES + limits.BATCH_INPUT_BYTES * len(member.inputs)
