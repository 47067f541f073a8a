"""How a request ends: the event first, then the result, then the final folder; after a crash, the same again.

The event comes first because recovery completes what an event recorded and never invents an end: after the
event, `close_from_trail` writes the same result, from the event and the record that it names, and moves the
file. The result comes before the rename: while the file is in running/, the end is known to be incomplete,
and once the file is in its final folder, its result exists too (docs/spec/7-trail-and-results.md, "Launch
order"; docs/adr/0004-event-before-rename.md).

Invariant: every end has exactly one event, one result file with the same bytes however often it is written,
and one final folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from threegate.approval.facts import VOID
from threegate.core import canonical, durable, limits, removal
from threegate.core.durable import disk_reserve
from threegate.core.workspace import AgentRun, RequesterFolders, Workspace
from threegate.judgement.judge import Cleared, Judgement, NotCleared
from threegate.launch.approved_file import Approved, Ended, Unrunnable, Waiting, is_there
from threegate.launch.context import Context
from threegate.launch.launch_facts import draft_owner
from threegate.launch.results.released import deliver_released, released_there, stage_released
from threegate.launch.results.render import render_result, show_streams
from threegate.launch.results.result_facts import ResultFacts, read_record, write_record
from threegate.launch.results.space import deliver_result, reserve_result
from threegate.launch.results.verdict import write_status
from threegate.request.backend import DEFAULT_BACKEND
from threegate.runners.interface import Outcome
from threegate.trail import moves, payloads
from threegate.trail.event import Event, trail_text, trail_value
from threegate.trail.history import RequestHistory
from threegate.trail.trail import LockedTrail

_ENDS: Final[Mapping[str, type[payloads.End]]] = {
    "cancelled": payloads.Cancelled,
    "interrupted": payloads.Interrupted,
    "unavailable": payloads.Interrupted,
}
"""The events of statuses whose requests go to refused/; every other status belongs to a finished run."""

UNSIGNED_NOTE = "Put into approved/ by hand, without a signature: it counts as validated, never as confirmed."

CHANGED: Final = Waiting("request_changed", "the file changed while it was judged; reading it again")


def finish(
    context: Context,
    approved: Approved,
    judgement: Cleared,
    path: Path,
    run_folder: Path,
    outcome: Outcome,
    attempts: int,
) -> Ended:
    """Record the end of a run: the record, the event, the result, then the file from `path` in running/ to its folder.

    A crash before the event still means `interrupted`: the record is synced before the event that names its digest, so
    an event never promises a result that recovery could not recreate. Raises TrailError, Unavailable, OSError.
    """
    request, clearance, approval = approved.request, judgement.clearance, judgement.approval
    workspace, folders = context.workspace, context.workspace.requester_folders(approved.owner)
    if clearance.approval_sha256 is None:
        notes: tuple[str, ...] = (UNSIGNED_NOTE,)
    else:
        under = approval.under
        notes = () if under is None else (f"ran {payloads.under_grant(under.grant, approval.approved_by)}",)
    ran = ResultFacts(
        request_id=request.request_id,
        status=outcome.status,
        created_utc=datetime.now(UTC),
        trail_seq=0,
        backend=approved.job.backend,
        request_sha256=request.sha256,
        approved_by=clearance.approved_by,
        countersigned_by=tuple(signer.name for signer in approval.signers if signer.name != approval.approved_by),
        approval_sha256=clearance.approval_sha256,
        policy_sha256=context.policy.digest,
        inputs=tuple((item.name, item.sha256) for item in approved.job.inputs),
        notes=notes,
    ).with_outcome(outcome, request)
    out = run_folder / "out"
    if not outcome.artifacts and out.is_dir() and any(out.iterdir()):
        # What a failed collection left: the record names none of it, so nothing would vouch for it.
        removal.remove_tree(out)
    released = None
    if context.policy.settings.results.release != "never":
        with suppress(OSError):  # no space for a copy of the outputs: the run still ends, and none is returned
            released = stage_released(workspace, run_folder, request.request_id, outcome.artifacts)
    with disk_reserve(workspace.reserve):  # of a cancelled run too: its end is recorded on a full disk
        record_sha256 = write_record(run_folder, ran, () if released is None else released.files)
    reached, blocked = (
        tuple(f"{item.host}:{item.port}" for item in found)
        for found in (
            [item for item in outcome.destinations if item.reached],
            [item for item in outcome.destinations if not item.allowed],
        )
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
        run=folders.run_id if isinstance(folders, AgentRun) else None,
    )
    if isinstance(ended, payloads.Cancelled):
        ended = replace(ended, approval_sha256=clearance.approval_sha256, nonce=clearance.nonce)
    state = _state(ended)
    shown = show_streams(ran)  # the costly part of the result, before the lock is taken
    with disk_reserve(workspace.reserve), context.trail.locked() as held:
        moved = context.contracts.commit(held, context.policy, request, ran.status, run_folder)
        target = moves.free_name(workspace.state_folder(state) / path.name)
        # The result names its event and the event the result's digest, so number and time are reserved first.
        seq, when = held.next_event()
        facts = replace(ran, created_utc=when, trail_seq=seq)
        rendered = render_result(facts, shown)
        result_sha256 = canonical.sha256_hex(rendered)
        placed = replace(ended, contract=moved, result_sha256=result_sha256, state=state, file=target.name)
        moves.announce(held, placed, request_id=request.request_id, actor="daemon")
        _end_with_it(workspace, held, moved)
        if released is not None:
            deliver_released(folders, run_folder, request.request_id)
        result = deliver_result(workspace, facts, rendered, requester_folders=folders, settled=False)
        moves.relocate(path, target, settled=False)
    # Without the lock, so that others need not wait for these folders. Recovery completes this after a power cut.
    durable.sync_folder(result.parent)
    moves.settle(path, target)
    with disk_reserve(workspace.reserve):
        write_status(folders, target.name, state, ran.status, judgement)
    context.on_end(request.request_id, ran.status)
    return Ended(ended.kind, ran.status, result)


def write_waiting(context: Context, approved: Approved, answer: Waiting) -> None:
    """Record in trail and status file why a request waits; nothing if it is gone meanwhile (cancelled, replaced)."""
    name = approved.path.name
    with context.trail.locked() as held:
        if not is_there(approved):
            return
        waits = payloads.Waiting(reason=answer.code, file=name)
        moves.announce(held, waits, request_id=approved.request_id, actor="daemon")
    folders = context.workspace.requester_folders(approved.owner)
    write_status(folders, name, "waiting", answer.code, answer.judgement)


def refuse(context: Context, approved: Approved, judgement: NotCleared) -> Ended | Waiting:
    """A gate refused for good: event, result, refused/. Waiting if the file is gone or changed meanwhile."""
    with context.trail.locked() as held:
        if not is_there(approved):
            return CHANGED
        return refuse_held(context, held, approved, judgement.code, judgement.message, judgement)


def refuse_unrunnable(context: Context, unrunnable: Unrunnable) -> Ended | Waiting:
    """Refuse a file in approved/ that is not a runnable request. Waiting as in `refuse`."""
    with context.trail.locked() as held:
        if not is_there(unrunnable):
            return CHANGED
        if unrunnable.drill:
            # Event and move, and nothing that an agent could read: no result, no status, no id in the trail's event.
            aside = payloads.Quarantined(
                reason=unrunnable.code,
                message=unrunnable.message,
                policy_sha256=context.policy.digest,
                files=unrunnable.digests,
            )
            target = context.workspace.refused / unrunnable.path.name
            path = moves.move(held, unrunnable.path, target, aside, request_id=None, actor="daemon")
            return Ended("quarantined", unrunnable.code, path)
        return refuse_held(context, held, unrunnable, unrunnable.code, unrunnable.message)


def refuse_held(
    context: Context,
    held: LockedTrail,
    file: Approved | Unrunnable,
    code: str,
    message: str,
    judgement: Judgement | None = None,
) -> Ended:
    """Event, result and move of a refusal, under the lock under which the caller checked the file."""
    history = held.index.history(file.request_id)
    known = history is not None and (
        history.claimed is not None or history.end is not None or _is_copy(history, file.path)
    )
    approval = judgement.approval if judgement else None
    void = code == VOID
    # A void approval has left its id free: a file that comes back is put aside, and ends nothing.
    aside = known or void or (history is not None and history.abandoned)
    reason = "replayed" if known or void else code
    # What an operator approved under this name, even if a gate does not accept the file that is there now.
    given = (payloads.Approved.of(history.approved) if history and not aside else None) or payloads.Approved()
    target = moves.free_name(context.workspace.refused / file.path.name)
    stopped: payloads.Stopped = (payloads.Quarantined if aside else payloads.Refused)(
        reason=reason,
        message=message,
        backend=DEFAULT_BACKEND,  # an unrunnable file is not trusted; the event has the usual keys
        approved_by=approval.approved_by if approval else None,
        approval_sha256=approval.approval_sha256 if approval else given.approval_sha256,
        nonce=approval.nonce if approval else given.nonce,
        policy_sha256=context.policy.digest,
        inputs={},
        state="refused",
        file=target.name,
    )
    if isinstance(file, Approved):
        stopped = replace(
            stopped,
            backend=file.request.backend,
            request_sha256=file.request.sha256,
            inputs={item.name: item.sha256 for item in file.job.inputs[:64]},
            contract=context.contracts.blocked(held, context.policy, file.request, file.job, code),
        )
    # Reserve space first: on a full disk the request stays where it is, and does not end without a result.
    reserve_result(context.workspace, file.request_id)
    stopped = with_result(held, file.request_id, replace(stopped, files=file.digests))
    event = moves.announce(held, stopped, request_id=file.request_id, actor="daemon")
    _end_with_it(context.workspace, held, stopped.contract)
    requester_folders = _requester_folders(context.workspace, history)
    result = deliver_result(context.workspace, _refusal_facts(event), requester_folders=requester_folders)
    moves.relocate(file.path, target)
    write_status(requester_folders, target.name, "refused", reason, judgement)
    context.on_end(file.request_id, "refused")
    return Ended("refused", reason, result, message)


def _end_with_it(workspace: Workspace, held: LockedTrail, moved: payloads.ContractMove | None) -> None:
    """Ask the daemon to stop requests that run in sessions which just ended with their parent.

    A crash before this loses nothing: the next start interrupts those requests.
    """
    for request_id in (moved.ends if moved else None) or ():
        asked = payloads.CancelRequested(message="the parent session was ended by its circuit breaker")
        moves.announce(held, asked, request_id=request_id, actor="daemon")
        durable.overwrite(workspace.control / f"cancel-{request_id}", b"")


def _is_copy(history: RequestHistory, path: Path) -> bool:
    """Whether the trail approved this request under another file name, and that file is still waiting:
    refusing the copy must not end the request itself.
    """
    approved = payloads.Approved.of(history.approved)
    name = approved.file if approved else None
    return name is not None and name != path.name and not durable.is_gone(path.parent / name)


def _refusal_facts(event: Event) -> ResultFacts:
    """The facts of a request that ended without a run record: what its event says, as in the trail."""
    stopped = payloads.Stopped.of(event) or payloads.Refused()
    return _facts_of(stopped, event.request_id or "", event.when, event.seq)


_S = TypeVar("_S", bound=payloads.Stopped)


def with_result(held: LockedTrail, request_id: str, stopped: _S) -> _S:
    """The facts of an end without a run, with the digest of the resulting result file.

    The result names the event's number and time, so the event must be the next one appended.
    """
    as_read = type(stopped).from_data(trail_value(stopped.to_data()))
    seq, when = held.next_event()
    rendered = render_result(_facts_of(as_read, trail_text(request_id), when, seq))
    return replace(stopped, result_sha256=canonical.sha256_hex(rendered))


def _facts_of(stopped: payloads.Stopped, request_id: str, when: datetime, seq: int) -> ResultFacts:
    return ResultFacts(
        request_id=request_id,
        status=stopped.result_status if isinstance(stopped, payloads.End) else "refused",
        created_utc=when,
        trail_seq=seq,
        backend=stopped.backend or "",
        reason=stopped.reason or "",
        detail=stopped.message or "",
        request_sha256=stopped.request_sha256,
        approved_by=stopped.approved_by,
        approval_sha256=stopped.approval_sha256,
        policy_sha256=stopped.policy_sha256,
        inputs=tuple(sorted((stopped.inputs or {}).items())),
    )


def interrupt(context: Context, history: RequestHistory, claimed: payloads.Claimed, known: str | None = None) -> None:
    """Close a request that was claimed and never finished: it never runs again. `known` is one line about how
    far it got, if known.
    """
    workspace = context.workspace
    with disk_reserve(workspace.reserve), context.trail.locked() as held:
        source = moves.find_file(workspace, history)
        name = source.name if source else str(history.file or f"{history.request_id}.md")
        target = moves.free_name(workspace.refused / name)
        approved = payloads.Approved.of(history.approved)
        interrupted = payloads.Interrupted(
            request_sha256=claimed.request_sha256,
            approval_sha256=claimed.approval_sha256,
            policy_sha256=claimed.policy_sha256,
            contract=context.contracts.lost(claimed),
            reason="interrupted",
            message=known or "the daemon ended while this request ran; it may have run in part and is never run again",
            approved_by=approved.approved_by if approved else None,
            state="refused",
            file=target.name,
        )
        interrupted = with_result(held, history.request_id, interrupted)
        event = moves.announce(held, interrupted, request_id=history.request_id, actor="daemon")
        # Before the result: while that is missing, the next start gets here again.
        _remove_unrecorded(workspace, history.request_id)
        requester_folders = _requester_folders(workspace, history)
        deliver_result(workspace, _refusal_facts(event), requester_folders=requester_folders)
        if source is not None:
            moves.relocate(source, target)
    with disk_reserve(workspace.reserve):
        write_status(requester_folders, target.name, "refused", "interrupted")
    context.on_end(history.request_id, "interrupted")


def close_from_trail(context: Context, held: LockedTrail, history: RequestHistory, event: Event) -> None:
    """Complete an end that was recorded and interrupted by a crash: the result (the same bytes), then the move."""
    workspace, ended = context.workspace, payloads.End.of(event)
    requester_folders = _requester_folders(workspace, history)
    if ended is not None and ended.record_sha256 is not None:
        folder = workspace.run_folder(history.request_id)
        facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=ended.record_sha256)
        if ended.released_sha256 is not None and not released_there(requester_folders, history.request_id):
            staged = stage_released(workspace, folder, history.request_id, facts.artifacts)
            # The run's folder may have been changed since: only what the event names is given back.
            if staged is not None and staged.sha256 == ended.released_sha256:
                durable.sync_together(staged.files, {path.parent for path in staged.files})
                deliver_released(requester_folders, folder, history.request_id)
    else:
        facts = _refusal_facts(event)
        if isinstance(ended, payloads.Interrupted) and ended.result_sha256 is not None:
            _remove_unrecorded(workspace, history.request_id)
    deliver_result(workspace, facts, requester_folders=requester_folders)
    source = moves.find_file(workspace, history)
    if source is not None and history.state and history.file:
        target = workspace.state_folder(history.state) / history.file
        # Nothing is ever replaced, and a link that leads nowhere is something.
        if source != target and not os.path.lexists(target):
            moves.relocate(source, target)
    elif isinstance(ended, payloads.Rejected):
        _complete_rejection(workspace, ended, requester_folders)
    said = ended.told if isinstance(ended, payloads.Rejected) else facts.status
    write_status(requester_folders, str(history.file), _state(ended), said)


def _complete_rejection(workspace: Workspace, ended: payloads.Rejected, requester_folders: RequesterFolders) -> None:
    """Put the copy of an ended draft into refused/ if a crash came before it. Its bytes are those of the draft, which
    is only taken away after that. Raises OSError for refused/, never for the requester's folder.
    """
    name = str(ended.file)
    folder = workspace.drafts if ended.from_ == workspace.drafts.name else requester_folders.inbox
    try:
        with workspace.hold(folder) as drafts:
            data, _ = drafts.read(name, max_bytes=limits.REQUEST_BYTES)
    except OSError:
        return
    # What the requester has put there since is not what the event names; and nothing is ever replaced.
    target = workspace.refused / name
    if canonical.sha256_hex(data) == (ended.files or {}).get("") and not os.path.lexists(target):
        durable.deliver(target, data)
        with suppress(OSError), workspace.hold(folder) as drafts:
            drafts.unlink(name)


def _requester_folders(workspace: Workspace, history: RequestHistory | None) -> RequesterFolders:
    """The folders for answers to the requester of a request."""
    return workspace.requester_folders(draft_owner(history))


def _remove_unrecorded(workspace: Workspace, request_id: str) -> None:
    """Remove what an interrupted run left: no record vouches for it, so later additions could not be told apart.

    Before the result is written: while that is missing, the next start gets here again.
    """
    folder = workspace.run_folder(request_id)
    if folder.is_dir() and not folder.is_symlink():
        removal.remove_tree(folder)


def _state(ended: payloads.End | None) -> Literal["finished", "refused"]:
    """The final folder of the request's file."""
    return "finished" if isinstance(ended, payloads.Finished) else "refused"
