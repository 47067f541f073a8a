"""End a draft for good, because the operator refused it or it was left undecided too long, and send CORE the reason.

Invariant: the trail's `rejected` is on disk before our copy appears in refused/; a draft that merely claims the id of
another request cannot end that one. Who asks for changes or takes a part of a draft ends it the same way, under the
same lock in which they put the words or the new draft in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from threegate.acts.signed_acts import OperatorDecision
from threegate.approval.shown.time_read import Reading
from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve
from threegate.core.errors import InvalidInput, Refused
from threegate.launch.completion import close_from_trail, with_result
from threegate.launch.context import Context
from threegate.launch.results.space import reserve_result
from threegate.launch.results.verdict import Verdict, write_verdict
from threegate.request.report import Report
from threegate.review.reviewed_draft import DRAFT_EXPIRED, Draft, read_draft, refuse_used, take_draft_away
from threegate.trail import moves, payloads
from threegate.trail.event import trail_text
from threegate.trail.payloads.payload import Owner, owner_fields
from threegate.trail.trail import LockedTrail

REJECT = "threegate-reject/1"
_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Rejected:
    """The result of a rejection."""

    path: Path
    request_id: str | None
    draft_removed: bool


def reject_draft(
    context: Context,
    which: Path | Draft,
    *,
    reason: str,
    by: OperatorDecision,
    reading: Reading | None = None,
) -> Rejected:
    """Reject one draft, by its file or as it was read. A full disk does not prevent it.

    Raises InvalidInput, Refused (an invalid signature of `by`), TrailError, Unavailable, OSError.
    """
    draft = which if isinstance(which, Draft) else read_draft(context.workspace, which)
    refuse_placed(draft)
    with disk_reserve(context.workspace.reserve):
        with context.trail.locked() as held:
            report = context.read(draft.data, draft.path.name, "draft", held.now)
            request_id = _own_id(context, held, report, draft)
            if request_id is not None:
                reserve_result(context.workspace, request_id)
            actor, signed = by.checked(context, held, REJECT, reject_about(draft, reason))
            message = reason or "the operator rejected it"
            rejected = replace(_payload(draft, report, request_id, "rejected", message, reading), signed=signed)
            done = _deliver(context, held, draft, rejected, request_id, actor)
            drill = isinstance(report.request_id, str) and held.index.is_spent(report.request_id)
        # A verdict would tell an agent that the id is a drill's.
        if not drill:
            _write_status(context, draft, report, rejected.told)
    return done


def end_draft(
    context: Context,
    draft: Draft,
    ended: payloads.Rejected,
    *,
    by: OperatorDecision,
    kind: str,
    about: Mapping[str, Any],
    prepare: Callable[[LockedTrail, Owner | None], None],
    reading: Reading | None = None,
) -> Rejected:
    """End a draft with `ended.reason`, `ended.message` and what else `ended` says; `prepare` puts in place what its
    requester gets in its stead, after the last check and right before the event, under the same lock. It is called
    with who asks, as far as that is known.

    Unlike a rejection it needs a draft that an operator could decide on: valid, with an id of its own that is not
    decided. Raises InvalidInput, Refused (what `refuse_used` gives for one that was decided meanwhile, an invalid
    signature of `by`), TrailError, Unavailable, OSError.
    """
    refuse_placed(draft)
    with context.trail.locked() as held:
        report = context.read(draft.data, draft.path.name, "draft", held.now)
        if report.request is None:
            first = report.first_error
            raise InvalidInput(f"{draft.path.name}:{first.line}: {first.rule}: {first.message}; reject it instead")
        refuse_used(held, report.request)
        request_id = _own_id(context, held, report, draft)
        if request_id is None:
            raise Refused("replayed", f"{draft.path.name}: its request_id is another request's; reject it instead")
        reserve_result(context.workspace, request_id)
        actor, signed = by.checked(context, held, kind, about)
        said = _payload(draft, report, request_id, ended.reason or "", ended.message or "", reading)
        said = replace(said, words_sha256=ended.words_sha256, part=ended.part, signed=signed)
        history = held.index.history(request_id)
        prepare(held, draft.owner if history is None or history.owner is None else history.owner)
        done = _deliver(context, held, draft, said, request_id, actor)
    _write_status(context, draft, report, said.told)
    return done


def refuse_placed(draft: Draft) -> None:
    """Raises Refused for what is listed as a draft and is none."""
    if draft.placed is not None:
        raise Refused(draft.placed.kind, f"{draft.path.name}: is a {draft.placed.kind}; no agent sees it")


def expire_draft(context: Context, draft: Draft) -> Rejected | None:
    """Refuse a draft that no operator decided on within `approval.draft_ttl`. None if it has not waited that long, if
    there is nothing to decide (gate 1 refuses it, its id is another's), or if it has just been decided.

    Like an approval, the decision is made under the trail's lock: one of the two comes first, and the other is refused.
    Raises TrailError, Unavailable, OSError.
    """
    ttl = context.policy.settings.approval.draft_ttl
    with context.trail.locked() as held:
        # The second of the daemon's check of the file's time: by the trail's clock, under its lock.
        if not ttl or held.clock_behind_seconds > limits.CLOCK_BEHIND_SECONDS or held.now < draft.expires_utc(ttl):
            return None
        report = context.read(draft.data, draft.path.name, "draft", held.now)
        request_id = _own_id(context, held, report, draft) if report.request is not None else None
        if request_id is None:
            return None
        reserve_result(context.workspace, request_id)
        late = f"no operator decided on it within {ttl} s (approval.draft_ttl)"
        expired = _payload(draft, report, request_id, DRAFT_EXPIRED, late, None)
        done = _deliver(context, held, draft, expired, request_id, "daemon")
    _write_status(context, draft, report, expired.told)
    context.on_end(request_id, "refused")
    return done


def reject_about(draft: Draft, reason: str) -> dict[str, Any]:
    """What a signed rejection states."""
    name = moves.told_name(draft.path.name)
    return {"file": name, "draft_sha256": sha256_hex(draft.data), "reason": trail_text(reason)}


def refuse_unknown(request_id: str) -> Refused:
    """The error for an unknown id."""
    return Refused("unknown_request", f"{request_id}: no such request here; threegate status lists them")


def _deliver(
    context: Context,
    held: LockedTrail,
    draft: Draft,
    rejected: payloads.Rejected,
    request_id: str | None,
    actor: str,
) -> Rejected:
    """Record the rejection, put our copy into refused/, write the result of a request that had the id, and remove the
    draft.
    """
    (copy,) = moves.deliver(
        held,
        [(context.workspace.refused / moves.told_name(draft.path.name), draft.data, _MODE)],
        rejected if request_id is None else with_result(held, request_id, rejected),
        request_id=request_id,
        actor=actor,
    )
    history = held.index.history(request_id) if request_id is not None else None
    if history is not None and history.end is not None:
        close_from_trail(context, held, history, history.end)
    # Still under the lock: anyone who finds the id used also finds the draft gone.
    return Rejected(copy, request_id, take_draft_away(context.workspace, draft))


def _own_id(context: Context, held: LockedTrail, report: Report, draft: Draft) -> str | None:
    """The draft's id, unless it belongs to another request."""
    request_id = report.request_id
    if not isinstance(request_id, str) or not 0 < len(request_id) <= limits.REQUEST_ID_CHARS:
        return None
    if trail_text(request_id) != request_id:
        return None  # the trail could not name it, so it could never be requested again
    if held.index.is_spent(request_id):
        return None  # a copy of a drill by someone else; it gets no result
    history = held.index.history(request_id)
    if history is None:
        return request_id
    taken = history.approved or history.claimed or history.end
    by_daemon = draft.path.parent == context.workspace.drafts  # made from a proposal: the daemon owns its file
    anothers = not by_daemon and history.owner not in (None, draft.owner)
    return None if taken or anothers else request_id


def _payload(
    draft: Draft, report: Report, request_id: str | None, reason: str, message: str, reading: Reading | None
) -> payloads.Rejected:
    return payloads.Rejected(
        reason=reason,
        message=message,
        request_sha256=report.sha256,
        **owner_fields(draft.owner),
        from_=draft.path.parent.name,
        claims_id=None if request_id else report.request_id,
        backend=report.request.backend if report.request else None,
        read_seconds=reading.seconds if reading else None,
        read_whole=reading.whole if reading else None,
    )


def _write_status(context: Context, draft: Draft, report: Report, reason: str) -> None:
    write_verdict(
        context.workspace.requester_folders(draft.owner),
        Verdict(
            file=draft.path.name,
            sha256=report.sha256,
            request_id=report.request_id,
            stage="draft",
            valid=report.valid,
            state="refused",
            reason=reason,
            findings=tuple(finding.to_json() for finding in report.findings),
            exposure=report.exposure,
        ),
    )
