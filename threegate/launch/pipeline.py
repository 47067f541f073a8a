"""How an approved request flows, from the file in approved/ to its result: judge → claim → run → record.

Invariant: `launch` runs a job only with the Clearance that `judge` made for exactly it, after `claimed` is on
disk and the file is in running/; every exit after that ends in one event, one result and one final folder.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from threegate.approval.facts import VOID, VOID_TEXT
from threegate.core import durable, limits
from threegate.core.durable import disk_reserve
from threegate.core.errors import Refused, ThreeGateError
from threegate.core.workspace import RequesterFolders
from threegate.judgement.judge import Clearance, Cleared, Judgement, NotCleared, judge
from threegate.launch.approved_file import CALLER_ABSENT, Approved, Ended, Waiting, facts_of_approved, is_there
from threegate.launch.completion import CHANGED, finish, refuse, refuse_held
from threegate.launch.context import Context
from threegate.launch.launch_problem import launch_problem
from threegate.launch.results.space import reserve_result
from threegate.launch.results.verdict import write_status
from threegate.runners.backend import running
from threegate.runners.interface import Control, Evidence, Outcome, nothing_known
from threegate.trail import moves, payloads
from threegate.trail.history import UNKNOWN_EVENT, unknown_event_text
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import advance_head


def judge_now(context: Context, approved: Approved) -> tuple[Judgement, datetime]:
    """Judge a request, and change nothing; return the judgement, and its time by the trail's clock. Raises
    TrailError, Unavailable, OSError.
    """
    request = approved.request
    with context.trail.locked() as held:  # one read of the trail: everything that judging needs
        facts = facts_of_approved(context, held, approved)
        decision, _ = context.contracts.decide(held, context.policy, request, approved.job, facts.now)
    judgement = judge(
        facts,
        context.policy,
        decision,
        side_effect_above_read=context.contracts.write_class(context.policy, request),
    )
    return judgement, facts.now


def launch(context: Context, approved: Approved, control: Control) -> Ended | Waiting:
    """Judge, claim, run and record. Raises TrailError and Unavailable (launches must stop), OSError."""
    judgement, now = judge_now(context, approved)
    # Before anything follows from it: nothing runs on a decision that is not on record.
    context.decided(judgement, now)
    if isinstance(judgement, NotCleared):
        if judgement.verdict == "wait":
            return Waiting(judgement.code, judgement.message, judgement)
        return refuse(context, approved, judgement)
    # After the judgement: what may not run is refused now, whether or not anybody asks for it yet.
    asks = running(approved.job.backend).caller_asks(
        context.workspace, approved.owner, approved.request_id, approved.job.action
    )
    if asks is not None and not asks():
        return Waiting(CALLER_ABSENT, "the process that makes this call has not asked for it yet", judgement, asks)
    start = _Start(context, approved, judgement, control)
    control.owner = approved.owner
    control.run_ended = lambda: _run_ended(context, approved.owner)
    if context.runners[approved.job.backend].starts_late:
        control.started, control.evidence = start.late, _evidence(context, approved, judgement)
    elif (answer := start.claim({})) is not None:
        return answer
    outcome, attempts = _attempts(context, approved, judgement.clearance, control)
    if start.failed is not None:
        raise start.failed
    # No process of the run is left. The next request need not wait until this one is on disk.
    control.ran()
    if start.status is None:  # nothing was started: the approval is not used up, and the request waits
        return start.answer or Waiting(running(approved.job.backend).waits_for, outcome.detail, judgement)
    start.status.close()
    done = finish(context, approved, judgement, start.path, control.run_folder, outcome, attempts)
    # Only now may the runner remove what it kept to take the run back.
    control.recorded()
    return done


class _Start:
    """The one claim of a launch: before the run, or when a runner that `starts_late` is about to start it."""

    def __init__(self, context: Context, approved: Approved, judgement: Cleared, control: Control) -> None:
        self._context = context
        self._approved = approved
        self._judgement = judgement
        self._control = control
        self.path = approved.path
        """Where the request's file is."""
        self.status: RunningStatus | None = None
        """Once it is claimed."""
        self.answer: Ended | Waiting | None = None
        """Why it was not, once that was tried."""
        self.failed: Exception | None = None
        """What stopped a late claim halfway: the trail may have it, so recovery settles it."""

    def claim(self, where: Mapping[str, Any]) -> Ended | Waiting | None:
        """Claim, and record where it starts; None if that was done. From here on the nonce is used: whatever happens
        now, this approval never runs anything again.
        """
        context, approved = self._context, self._approved
        claimed = claim(context, approved, self._judgement, where)
        if isinstance(claimed, Ended | Waiting):
            self.answer = claimed
            return claimed
        self.path = claimed
        folders = context.workspace.requester_folders(approved.owner)
        self.status = RunningStatus(folders, claimed.name, self._judgement)
        self._control.lasting = self.status.write
        return None

    def late(self, where: Mapping[str, Any]) -> None:
        """See Control.started. It checks again what the lock of the claim does not show: the policy."""
        if self.status is not None or self.failed is not None:
            raise Refused("replayed", "this launch had its start")
        if self._control.outdated():
            self.answer = Waiting(
                "policy_changed", "the policy changed since it was judged, or nothing may start now", self._judgement
            )
        else:
            try:
                if self.claim(where) is None:
                    return
            except (ThreeGateError, OSError) as error:
                self.failed = error
                raise
        raise Refused("request_changed", "it may not start any more")


class RunningStatus:
    """The `running` status: written for a run that lasts, and never after the final status.

    A short run has its final status before anyone could have read that it was running.
    """

    def __init__(self, requester_folders: RequesterFolders, file_name: str, judgement: Judgement) -> None:
        self._written = requester_folders, file_name, judgement
        self._lock = threading.Lock()
        self._over = False

    def write(self) -> None:
        """Write it, unless the run is over. Raises OSError."""
        with self._lock:
            if not self._over:
                folders, name, judgement = self._written
                write_status(folders, name, "running", None, judgement)

    def close(self) -> None:
        """The run is over: when this returns, `write` no longer does anything."""
        with self._lock:
            self._over = True


def _run_ended(context: Context, owner: Owner | None) -> bool:
    if not isinstance(owner, str):
        return False  # accounts do not end
    with context.trail.locked() as held:
        run = held.index.run(owner)
    return run is not None and run.ended


def _evidence(context: Context, approved: Approved, judgement: Cleared) -> Evidence:
    """What a machine that judges again is shown."""
    request, policy = approved.request, context.policy
    with context.trail.locked() as held:
        epoch, run = held.index.epoch, held.index.run(approved.owner)
    return Evidence(
        file_name=approved.path.name,
        request=approved.data,
        signature=approved.signature,
        countersignatures=approved.countersignatures,
        epoch=epoch,
        owner=approved.owner,
        requester=None if run is None else run.requester,
        policy_sha256=policy.digest if judgement.approval.under is None else policy.standing,
        write_class=context.contracts.write_class(context.policy, request),
        time_cap_sec=context.contracts.time_cap_sec(context.policy, request),
        platform=approved.platform,
    )


def _attempts(context: Context, approved: Approved, clearance: Clearance, control: Control) -> tuple[Outcome, int]:
    """The outcome, and how many attempts it took.

    One attempt, except if the contracts of a read allow repeating one that never started (`unavailable`: not
    one instruction ran). All attempts happen within the one claim, so nothing ever returns from running/. A runner that
    starts late has one: what it did not start is not claimed.
    """
    request, job = approved.request, approved.job
    once = context.runners[job.backend].starts_late
    notes: list[str] = []
    for attempt in range(1, limits.CONTRACT_ATTEMPTS + 1):
        try:
            outcome = context.runners[job.backend].run(clearance, job, control)
        except Exception as error:  # noqa: BLE001 - whatever a runner raises, the request must get its end
            why = f"the runner failed ({type(error).__name__}); it is not known how far the request got"
            outcome = nothing_known(why)
        if (
            outcome.status != "unavailable"
            or once
            or attempt == limits.CONTRACT_ATTEMPTS
            or not context.contracts.may_retry(context.policy, request, outcome.status, attempt)
        ):
            break
        notes.append(f"attempt {attempt} never started: {outcome.detail}")
        if control.cancelled.wait(limits.CONTRACT_ATTEMPT_PAUSE_SECONDS):
            outcome = replace(outcome, status="cancelled", detail="Cancelled between two attempts; nothing ran.")
            break
        if control.interrupted.is_set():
            break
    return replace(outcome, notes=(*notes, *outcome.notes)), attempt


def claim(
    context: Context, approved: Approved, judgement: Cleared, where: Mapping[str, Any] = MappingProxyType({})
) -> Path | Ended | Waiting:
    """Under the lock: check again what may have changed, record, move the file to running/. Then make the run's
    folder. `where` is what `started` says of a run on another machine.

    The order, and the state after a crash (docs/spec/7-trail-and-results.md, "Launch order" and "Recovery"):

    1. Before `claimed` is synced nothing has happened: the file is in approved/ and is judged again.
    2. From `claimed` on the nonce is used: whether the crash falls before the rename or in the run, recovery
       finds a claim without an end and interrupts it. It cannot know how far the request got, so it never
       runs it again.

    After the lock is released, before this returns and so before the run, what the lock does not protect
    becomes durable: the move (its event already is, and names the file's place), the run's folder, and the head
    outside, so that a restored backup from before the claim cannot pass for the present. The folder is made before
    the first of these syncs, so that one commit of the disk has all three.
    """
    request, job = approved.request, approved.job
    clearance, approval, assessment = judgement.clearance, judgement.approval, judgement.assessment
    with context.trail.locked() as held:
        # The judgement was made without the lock. Check again what may have changed since, from what applies
        # to the whole workspace (then the request waits, it is not at fault) to what is specific to this
        # request.
        problem = launch_problem(context.workspace, context.workspace_id, held)
        if problem is not None:
            return Waiting(*problem, judgement)
        index = held.index
        history = index.history(request.request_id)
        # The second look at the file: it may have been cancelled or replaced while it was judged.
        if not is_there(approved):
            return CHANGED
        if history is not None and history.unknown is not None:
            return Waiting(UNKNOWN_EVENT, unknown_event_text(history.unknown), judgement)
        # The second of the launch checks "not void" and "used once": only here, under the lock, do they exclude that
        # two requests with one approval are both claimed.
        if index.is_void(clearance.nonce, clearance.approval_sha256, request.sha256):
            return refuse_held(context, held, approved, VOID, VOID_TEXT, judgement)
        if index.nonce_used(clearance.nonce) or (history is not None and (history.claimed or history.end)):
            return refuse_held(context, held, approved, "replayed", "this approval was used before", judgement)
        if approval.operators is not None and approval.operators != index.operators:
            return Waiting("operators_changed", "the operators changed while it was judged", judgement)
        # The second of the launch check "time": judging can take long where ssh-keygen verifies.
        if held.now >= approval.expires_utc:
            ended = f"the approval ended while it was judged; use: threegate draft --again {clearance.request_id}"
            return refuse_held(context, held, approved, "expired", ended, judgement)
        under = approval.under
        uses = None if under is None else index.grant_uses(under.grant)  # None: it was revoked
        if under is not None and (uses is None or uses >= under.max_uses):
            return refuse_held(context, held, approved, "grant_used_up", "no use of the grant is left", judgement)
        # Last, what only a call that really starts may take: its place under the session's limits, and the
        # disk space for its result. The space is reserved before the event, so that each claimed request can
        # be given its end.
        reservation = context.contracts.reserve(held, context.policy, request, job)
        if isinstance(reservation, Refused):
            return Waiting(reservation.code, str(reservation), judgement)
        reserve_result(context.workspace, request.request_id)
        # The signatures that were read, and those that came since, each of which the trail has announced.
        since = [payloads.Countersigned.of(event) for event in (history.countersigned if history else ())]
        known = (approved.digests, *(payload.files or {} for payload in since if payload is not None))
        signatures = {suffix for files in known for suffix in files if suffix}
        decided: dict[str, Any] = {
            "request_sha256": request.sha256,
            "job_sha256": clearance.job_sha256,
            "approval_sha256": clearance.approval_sha256,
            "policy_sha256": context.policy.digest,
        }
        cleared = payloads.Cleared.from_data({**decided, **assessment.to_json(), "would_block": assessment.would_block})
        held.append(cleared, request_id=request.request_id, actor="daemon")
        # One sync for all: `cleared` says why it may run, `claimed` that it does, `started` where.
        claimed = moves.move(
            held,
            approved.path,
            context.workspace.running / approved.path.name,
            payloads.Claimed(
                **decided,
                nonce=clearance.nonce,
                grant=clearance.grant,
                contract=reservation,
                files=None if history is not None and history.approved else approved.digests,
            ),
            request_id=request.request_id,
            actor="daemon",
            then=(payloads.Started.from_data({"backend": job.backend, **where}),),
            signatures=signatures,
            settled=False,
        )
        head = held.head
    run_folder = context.workspace.run_folder(request.request_id)
    with disk_reserve(context.workspace.reserve):  # it is claimed, and would be interrupted
        durable.make_folder(run_folder, 0o700, settled=False)
        advance_head(head)
    moves.settle(approved.path, claimed)
    durable.sync_folder(run_folder.parent)
    return claimed
