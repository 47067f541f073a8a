"""How an approved request flows, from the file in approved/ to its result: judge → claim → run → record.

Invariant: `launch` runs a job only with the Clearance that `judge` made for exactly it, after `claimed` is on
disk and the file is in running/; every exit from it ends in one event, one result and one final folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from threegate.approval.facts import VOID, VOID_TEXT, VerifiedApproval
from threegate.core import durable, limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.errors import Refused
from threegate.judgement.judge import Clearance, Cleared, Judgement, NotCleared, judge
from threegate.launch.approved_file import Approved, Ended, Waiting, facts_of_approved, is_there
from threegate.launch.completion import CHANGED, finish, refuse, refuse_held
from threegate.launch.context import Context
from threegate.launch.launch_problem import launch_problem
from threegate.launch.results.released import StagedOutputs, stage_released
from threegate.launch.results.result_facts import ResultFacts, write_record
from threegate.launch.results.space import reserve_result
from threegate.launch.status_file import RunningStatus
from threegate.request.job import Job
from threegate.runners.interface import Control, Evidence, Outcome, Runner, nothing_known
from threegate.trail import moves, payloads
from threegate.trail.history import UNKNOWN_EVENT, RequestHistory, unknown_event_text
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import advance_head

_ENDS: Final[Mapping[str, type[payloads.End]]] = {
    "cancelled": payloads.Cancelled,
    "interrupted": payloads.Interrupted,
    "unavailable": payloads.Interrupted,
}
"""The events of statuses whose requests go to refused/; every other status belongs to a finished run."""

UNSIGNED_NOTE = "Put into approved/ by hand, without a signature: it counts as validated, never as confirmed."


def judge_now(context: Context, approved: Approved) -> tuple[Judgement, datetime]:
    """Judge a request, and change nothing; return the judgement, and its time by the trail's clock. Raises
    TrailError, Unavailable, OSError.
    """
    request, job = approved.request, approved.job
    with context.trail.locked() as held:  # one read of the trail: everything that judging needs
        facts = facts_of_approved(context, held, approved)
        decision = context.contracts.decide(held, context.policy, request, job, facts.now)
    judgement = judge(
        facts,
        request,
        job,
        context.policy,
        decision,
        side_effect_above_read=context.contracts.write_class(context.policy, request),
    )
    return judgement, facts.now


def launch(context: Context, approved: Approved, control: Control) -> Ended | Waiting:
    """Judge, claim, run and record. Raises TrailError and Unavailable (launches must stop), OSError."""
    request, job = approved.request, approved.job
    judgement, now = judge_now(context, approved)
    context.decided(judgement, now)
    if isinstance(judgement, NotCleared):
        if judgement.verdict == "wait":
            return Waiting(judgement.code, judgement.message, judgement)
        return refuse(context, approved, judgement)
    clearance, approval = judgement.clearance, judgement.approval
    claimed = claim(context, approved, judgement)
    if isinstance(claimed, Ended | Waiting):
        return claimed
    if context.runners[job.backend].starts_late:
        _hand_evidence(context, approved, control)
    status = RunningStatus(approved.requester_folders(context.workspace), claimed.name, judgement)
    control.lasting = status.write
    control.owner = approved.owner
    control.run_ended = lambda: _run_ended(context, approved.owner)
    outcome, attempts = _attempts(context, approved, clearance, control)
    # From here to `finish` a crash still means `interrupted`: the record is synced before the event that
    # names its digest, so an event never promises a result that recovery could not recreate.
    control.ran()
    status.close()
    result = ResultFacts(
        request_id=request.request_id,
        status=outcome.status,
        created_utc=datetime.now(UTC),
        trail_seq=0,
        backend=job.backend,
        request_sha256=request.sha256,
        approved_by=clearance.approved_by,
        countersigned_by=tuple(signer.name for signer in approval.signers if signer.name != approval.approved_by),
        approval_sha256=clearance.approval_sha256,
        policy_sha256=context.policy.digest,
        inputs=tuple((item.name, item.sha256) for item in job.inputs),
        notes=_notes(approval),
    ).with_outcome(outcome)
    _remove_unrecorded(control.run_folder / "out", outcome)
    released = _stage_released(context, control.run_folder, request.request_id, outcome)
    with disk_reserve(context.workspace.reserve):  # of a cancelled run too: its end is recorded on a full disk
        record_sha256 = write_record(control.run_folder, result, () if released is None else released.files)
    reached, blocked = (
        tuple(f"{item.host}:{item.port}" for item in outcome.destinations if item.allowed is allowed)
        for allowed in (True, False)
    )
    ended = _ENDS.get(outcome.status, payloads.Finished)(
        status=outcome.status,
        exit_code=outcome.exit_code,
        wall_ms=outcome.wall_ms,
        record_sha256=record_sha256,
        outputs={item.path: item.sha256 for item in outcome.artifacts[: limits.TRAIL_OUTPUTS]},
        outputs_unlisted=max(0, len(outcome.artifacts) - limits.TRAIL_OUTPUTS) or None,
        stdout_sha256=outcome.stdout.sha256,
        stderr_sha256=outcome.stderr.sha256,
        image=outcome.image,
        reached=reached,
        blocked=blocked,
        attempts=attempts if attempts > 1 else None,
        released_sha256=None if released is None else released.sha256,
    )
    if isinstance(ended, payloads.Cancelled):
        ended = replace(ended, approval_sha256=clearance.approval_sha256, nonce=clearance.nonce)
    done = finish(context, approved, claimed, result, ended, control.run_folder, judgement)
    control.recorded()
    return done


def _run_ended(context: Context, owner: Owner | None) -> bool:
    if not isinstance(owner, str):
        return False  # accounts do not end
    with context.trail.locked() as held:
        run = held.index.run(owner)
    return run is not None and run.ended


def _hand_evidence(context: Context, approved: Approved, control: Control) -> None:
    """Give a runner that starts late the recording of `started`, and its progress information."""
    request, job = approved.request, approved.job

    def started(where: Mapping[str, Any]) -> None:
        begun = payloads.Started.from_data({"backend": job.backend, **where})
        context.trail.announce(begun, request_id=request.request_id, actor="daemon")

    with context.trail.locked() as held:
        epoch, run = held.index.epoch, held.index.run(approved.owner)
    control.started = started
    control.evidence = Evidence(
        file_name=approved.path.name,
        request=approved.data,
        signature=approved.signature,
        countersignatures=approved.countersignatures,
        epoch=epoch,
        owner=approved.owner,
        requester=None if run is None else run.requester,
        policy_sha256=context.policy.digest,
        write_class=context.contracts.write_class(context.policy, request),
        time_cap_sec=context.contracts.time_cap_sec(context.policy, request),
        platform=context.policy.platform,
    )


def _attempts(context: Context, approved: Approved, clearance: Clearance, control: Control) -> tuple[Outcome, int]:
    """The outcome, and how many attempts it took.

    One attempt, except if the contracts of a read allow repeating one that never started (`unavailable`: not
    one instruction ran). All attempts happen within the one claim, so nothing ever returns from running/.
    """
    request, job = approved.request, approved.job
    notes: list[str] = []
    for attempt in range(1, limits.CONTRACT_ATTEMPTS + 1):
        outcome = _run(context.runners[job.backend], clearance, job, control)
        if (
            outcome.status != "unavailable"
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


def _run(runner: Runner, clearance: Clearance, job: Job, control: Control) -> Outcome:
    """Run the job. An internal failure of a runner yields an end like any other, and the daemon continues."""
    try:
        return runner.run(clearance, job, control)
    except Exception as error:  # noqa: BLE001 - whatever a runner raises, the request must get its end
        return nothing_known(f"the runner failed ({type(error).__name__}); it is not known how far the request got")


def _stage_released(context: Context, run_folder: Path, request_id: str, outcome: Outcome) -> StagedOutputs | None:
    """Outputs that the policy returns. If the disk has no space for a copy, the run still ends: then none is
    returned.
    """
    if context.policy.settings.results.release == "never":
        return None
    try:
        return stage_released(context.workspace, run_folder, request_id, outcome.artifacts)
    except OSError:
        return None


def _remove_unrecorded(out: Path, outcome: Outcome) -> None:
    """Remove what a failed collection left: the record names none of it, so nothing would vouch for it."""
    if not outcome.artifacts and out.is_dir() and any(out.iterdir()):
        removal.remove_tree(out)


def claim(context: Context, approved: Approved, judgement: Cleared) -> Path | Ended | Waiting:
    """Under the lock: check again what may have changed, record, move the file to running/. Then make the run's
    folder.

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
        if not is_there(approved):
            return CHANGED
        if history is not None and history.unknown is not None:
            return Waiting(UNKNOWN_EVENT, unknown_event_text(history.unknown), judgement)
        if index.is_void(clearance.nonce, clearance.approval_sha256, request.sha256):
            return refuse_held(context, held, approved, VOID, VOID_TEXT, judgement)
        if index.nonce_used(clearance.nonce) or (history is not None and (history.claimed or history.end)):
            return refuse_held(context, held, approved, "replayed", "this approval was used before", judgement)
        if approval.operators is not None and approval.operators != index.operators:
            return Waiting("operators_changed", "the operators changed while it was judged", judgement)
        if held.now >= approval.expires_utc:
            return refuse_held(
                context,
                held,
                approved,
                "expired",
                "the approval ended while it was judged; retry it",
                judgement,
            )
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
            then=() if context.runners[job.backend].starts_late else (payloads.Started(backend=job.backend),),
            signatures=_signatures(approved, history),
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


def _signatures(approved: Approved, history: RequestHistory | None) -> set[str]:
    """What follows the file's name in the names of its signatures: those that were read, and those that came since,
    each of which the trail has announced.
    """
    events = history.countersigned if history is not None else []
    since = [payload.files or {} for event in events if (payload := payloads.Countersigned.of(event)) is not None]
    return {suffix for files in (approved.digests, *since) for suffix in files if suffix}


def _notes(approval: VerifiedApproval) -> tuple[str, ...]:
    """The result's note on how it was allowed, if no operator signed this very request."""
    if approval.approval_sha256 is None:
        return (UNSIGNED_NOTE,)
    under = approval.under
    return () if under is None else (f"ran {payloads.under_grant(under.grant, approval.approved_by)}",)
