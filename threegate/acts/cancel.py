"""Cancel a request in whatever state it is.

Invariant: a waiting request is cancelled here, under the trail's lock, so no daemon can claim it afterwards; for a
claimed one, the daemon is asked to stop it, and only the daemon writes `cancelled`, once the process is really gone.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Literal

from threegate.acts.reject import refuse_unknown
from threegate.acts.signed_acts import OperatorDecision
from threegate.core import durable
from threegate.core.durable import disk_reserve
from threegate.core.errors import Refused
from threegate.launch.completion import close_from_trail, with_result
from threegate.launch.context import Context
from threegate.launch.results.space import reserve_result
from threegate.trail import moves, payloads
from threegate.trail.event import trail_text
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Approved, CancelRequested
from threegate.trail.trail import LockedTrail

CANCEL = "threegate-cancel/1"
_POLL_SECONDS = 0.05
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`cancelled`: it will not run, or its process is gone. `interrupted`: it ended, such as a call of a tool in
    progress, and what it did is unknown. `requested`: the daemon was asked and has not answered. `ended`: it had ended
    by itself.
    """

    request_id: str
    outcome: Literal["cancelled", "interrupted", "requested", "ended"]
    last_event: str
    ran_ms: int | None = None
    """How long it had run when it was stopped; None if it never ran."""
    was: Literal["waiting", "claimed"] = "claimed"
    """Its state when the cancellation was requested."""
    waited_seconds: int | None = None
    """For a waiting request: seconds since its approval."""

    def __str__(self) -> str:
        """The result, in one line."""
        if self.outcome == "cancelled" and self.was == "waiting":
            since = "" if self.waited_seconds is None else f" for {self.waited_seconds} s"
            return f"cancelled {self.request_id}: it was waiting{since} and did not run"
        if self.outcome == "cancelled" and self.ran_ms is None:
            return f"cancelled {self.request_id}: it was about to start and did not run"
        if self.outcome == "cancelled":
            return (
                f"cancelled {self.request_id}: it was running and was killed after {self.ran_ms} ms; what it did until "
                f"then is not undone, see: threegate show {self.request_id}"
            )
        if self.outcome == "interrupted":
            return (
                f"{self.request_id} was interrupted: it may have done its work, which is not known, and it is not "
                f"repeated; see: threegate show {self.request_id}"
            )
        if self.outcome == "ended":
            return f"{self.request_id} had already ended: {self.last_event}"
        return f"asked the daemon to end {self.request_id}; it has not answered yet (is one running?)"


def cancel_request(
    context: Context, request_id: str, *, by: OperatorDecision, reason: str = "", wait_seconds: float = 5.0
) -> Cancelled:
    """Cancel a waiting request, or ask the daemon to stop a running one and wait for its answer. A full disk does not
    prevent it.

    Raises Refused (unknown_request, already_ended, not_approved, an invalid signature of `by`), TrailError,
    Unavailable, OSError.
    """
    if not _REQUEST_ID.fullmatch(request_id):
        raise refuse_unknown(request_id)
    with disk_reserve(context.workspace.reserve), context.trail.locked() as held:
        history = held.index.history(request_id)
        if history is None:
            raise refuse_unknown(request_id)
        if history.end is not None:
            raise Refused("already_ended", f"{request_id}: has already ended ({history.end.type}); nothing to cancel")
        # Under the lock that a claim needs: no daemon can start the request between this check and its end.
        if history.claimed is None:
            waited = None if history.approved is None else (held.now - history.approved.when).total_seconds()
            _end_waiting(context, held, history, by, reason)
            seconds = None if waited is None else max(0, int(waited))
            return Cancelled(request_id, "cancelled", "cancelled", was="waiting", waited_seconds=seconds)
        actor, signed = by.checked(context, held, CANCEL, cancel_about(request_id, reason))
        asked = CancelRequested(message=reason, signed=signed)
        moves.announce(held, asked, request_id=request_id, actor=actor)
        # A crash before this loses nothing: the next daemon interrupts every claimed request.
        durable.overwrite(context.workspace.control / f"cancel-{request_id}", b"")
    return _await(context, request_id, wait_seconds)


def cancel_about(request_id: str, reason: str) -> dict[str, Any]:
    """What a signed cancellation states."""
    return {"request_id": request_id, "reason": trail_text(reason)}


def _end_waiting(
    context: Context, held: LockedTrail, history: RequestHistory, by: OperatorDecision, reason: str
) -> None:
    source = moves.find_file(context.workspace, history)
    if source is None or source.parent != context.workspace.approved:
        raise Refused("not_approved", f"{history.request_id}: is a draft; reject it with: threegate reject FILE")
    actor, signed = by.checked(context, held, CANCEL, cancel_about(history.request_id, reason))
    approved = Approved.of(history.approved) or Approved()
    target = moves.free_name(context.workspace.refused / source.name)
    reserve_result(context.workspace, history.request_id)
    cancelled = payloads.Cancelled(
        request_sha256=approved.request_sha256,
        approval_sha256=approved.approval_sha256,
        nonce=approved.nonce,
        policy_sha256=approved.policy_sha256,
        approved_by=approved.approved_by,
        inputs=approved.inputs or {},
        reason="cancelled",
        message=reason or "cancelled by the operator before it ran",
        state=target.parent.name,
        file=target.name,
        signed=signed,
    )
    cancelled = with_result(held, history.request_id, cancelled)
    end = moves.announce(held, cancelled, request_id=history.request_id, actor=actor)
    # It is a copy, which does not know the event that was just appended.
    history.add(end)
    close_from_trail(context, held, history, end)


def _await(context: Context, request_id: str, seconds: float) -> Cancelled:
    """The daemon's answer, waiting only while one can still come."""
    until = time.monotonic() + seconds
    while True:
        with context.trail.locked() as held:
            history = held.index.history(request_id)
            end = history.end if history else None
        if end is not None:
            stopped = payloads.Cancelled.of(end)
            if stopped is None:
                unknown = payloads.Interrupted.of(end) is not None
                return Cancelled(request_id, "interrupted" if unknown else "ended", end.type)
            began = history is not None and history.started is not None
            return Cancelled(request_id, "cancelled", end.type, stopped.wall_ms or (0 if began else None))
        if time.monotonic() >= until:
            return Cancelled(request_id, "requested", "cancel_requested")
        time.sleep(_POLL_SECONDS)
