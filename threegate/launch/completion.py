"""How a request ends: the event first, then the result, then the final folder; and the same again after a crash.

Invariant: every end has exactly one event, one result file with the same bytes however often it is delivered, and
one final folder.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from threegate.core import canonical, durable
from threegate.core.workspace import STATES, Workspace
from threegate.judgement.judge import Judgement
from threegate.launch.approved_file import Ended, Prepared, Waiting
from threegate.launch.context import Context
from threegate.launch.status_file import is_there, tell_state
from threegate.request.model import Request
from threegate.results import (
    ResultFacts,
    ResultText,
    deliver_result,
    read_record,
    reserve_result,
    result_name,
)
from threegate.results.verdict import State
from threegate.trail import Event, LockedTrail, RequestHistory, moves
from threegate.trail.payloads import (
    Approved,
    CancelRequested,
    Claimed,
    ContractMove,
    End,
    Finished,
    Interrupted,
    Placed,
    Quarantined,
    Refused,
    Stopped,
)

CHANGED = Waiting("request_changed", "the file changed while it was judged; it is read again")


def finish(
    context: Context,
    path: Path,
    request: Request,
    ran: ResultFacts,
    ended: End,
    run_folder: Path,
    judgement: Judgement,
) -> Ended:
    """Announce the end, deliver the result, move the file.

    `ran` are the facts that were just recorded in `run_folder`, `ended` what the event says of them; moment and number come
    from the event. After a crash the
    record gives the same facts, and so the same result.
    """
    folder = context.workspace.finished if isinstance(ended, Finished) else context.workspace.refused
    text = ResultText(ran)
    with context.trail.locked() as held:
        moved = context.contracts.commit(held, context.policy, request, ran.status, run_folder)
        target = moves.free_name(folder / path.name)
        seq, when = held.next_event()
        facts = replace(ran, created_utc=when, trail_seq=seq)
        rendered = text.at(facts)
        announced = replace(
            ended,
            contract=moved,
            result_sha256=canonical.sha256_hex(rendered),
            state=folder.name,
            file=target.name,
        )
        moves.announce(held, announced, request_id=request.request_id, actor="daemon")
        _end_with_it(context.workspace, held, moved)
        result = deliver_result(context.workspace, facts, rendered, settled=False)
        moves.relocate(path, target, settled=False)
    moves.settle(result, result)
    moves.settle(path, target)
    tell_state(context.workspace, target.name, _state(ended), ran.status, judgement)
    context.on_end(request.request_id, ran.status)
    return Ended(ended.kind, ran.status, result)


def refuse(
    context: Context,
    prepared: Prepared,
    code: str,
    message: str,
    judgement: Judgement | None,
) -> Ended | Waiting:
    """A gate said no for good: event, result, refused/. Waiting when the file went away or changed meanwhile."""
    with context.trail.locked() as held:
        if not is_there(prepared):
            return CHANGED
        return refuse_held(context, held, prepared, code, message, judgement)


def refuse_broken(context: Context, prepared: Prepared) -> Ended | Waiting:
    """Refuse a file of approved/ that is no runnable request."""
    return refuse(context, prepared, prepared.code, prepared.message, None)


def refuse_held(
    context: Context,
    held: LockedTrail,
    prepared: Prepared,
    code: str,
    message: str,
    judgement: Judgement | None,
) -> Ended:
    request = prepared.request
    history = held.index.history(prepared.request_id)
    known = history is not None and (
        history.claimed is not None or history.end is not None or _is_copy(history, prepared.path)
    )
    approval = judgement.approval if judgement else None
    reason = "replayed" if known else code
    moved = context.contracts.blocked(held, context.policy, prepared.request, prepared.job, code)
    target = moves.free_name(context.workspace.refused / prepared.path.name)
    reserve_result(context.workspace, prepared.request_id or "")
    stopped = (Quarantined if known else Refused)(
        reason=reason,
        message=message,
        backend=prepared.backend,
        request_sha256=request.sha256 if request else None,
        approved_by=approval.approved_by if approval else None,
        approval_sha256=approval.approval_sha256 if approval else None,
        policy_sha256=context.policy.digest,
        inputs={item.name: item.sha256 for item in prepared.job.inputs[:64]} if prepared.job else {},
        contract=moved,
        state="refused",
        file=target.name,
    )
    event = moves.announce(held, stopped, request_id=prepared.request_id, actor="daemon")
    _end_with_it(context.workspace, held, moved)
    result = deliver_result(context.workspace, _refusal_facts(event))
    moves.relocate(prepared.path, target)
    tell_state(context.workspace, target.name, "refused", reason, judgement)
    context.on_end(prepared.request_id, "refused")
    return Ended("refused", reason, result)


def _end_with_it(workspace: Workspace, held: LockedTrail, moved: ContractMove | None) -> None:
    """Ask the daemon to end the requests that run in sessions which ended with their parent just now.

    A crash before this loses nothing: what ran then is interrupted by the next start.
    """
    for request_id in (moved.ends if moved else None) or ():
        asked = CancelRequested(message="the parent session was ended by its circuit breaker")
        moves.announce(held, asked, request_id=request_id, actor="daemon")
        durable.overwrite(workspace.control / f"cancel-{request_id}", b"")


def _is_copy(history: RequestHistory, path: Path) -> bool:
    """Whether the trail approved this request under another file name, and that file still waits: refusing the
    copy must not end the request itself."""
    approved = Approved.of(history.approved)
    name = approved.file if approved else None
    return name is not None and name != path.name and (path.parent / name).exists()


def _refusal_facts(event: Event) -> ResultFacts:
    """The facts of a request that ended without a record of a run: what its event says, as the trail keeps it."""
    stopped = Stopped.of(event) or Refused()
    return ResultFacts(
        request_id=event.request_id or "",
        status=stopped.result_status if isinstance(stopped, End) else "refused",
        created_utc=event.when,
        trail_seq=event.seq,
        backend=stopped.backend or "",
        reason=stopped.reason or "",
        detail=stopped.message or "",
        request_sha256=stopped.request_sha256,
        approved_by=stopped.approved_by,
        approval_sha256=stopped.approval_sha256,
        policy_sha256=stopped.policy_sha256,
        inputs=tuple(sorted((stopped.inputs or {}).items())),
    )


def interrupt(context: Context, history: RequestHistory) -> None:
    """Close a request that was claimed and never finished: nobody knows how far it came, so it never runs again."""
    workspace = context.workspace
    with context.trail.locked() as held:
        source = find_file(workspace, history)
        name = source.name if source else str(history.file or f"{history.request_id}.md")
        target = moves.free_name(workspace.refused / name)
        claimed = Claimed.of(history.claimed) or Claimed()
        approved = Approved.of(history.approved)
        interrupted = Interrupted(
            request_sha256=claimed.request_sha256,
            approval_sha256=claimed.approval_sha256,
            policy_sha256=claimed.policy_sha256,
            contract=context.contracts.lost(claimed),
            reason="interrupted",
            message="the daemon ended while this request ran; it may have run in part and is never run again",
            approved_by=approved.approved_by if approved else None,
            state="refused",
            file=target.name,
        )
        event = moves.announce(held, interrupted, request_id=history.request_id, actor="daemon")
        deliver_result(workspace, _refusal_facts(event))
        if source is not None:
            moves.relocate(source, target)
    tell_state(workspace, target.name, "refused", "interrupted")
    context.on_end(history.request_id, "interrupted")


def close_from_trail(context: Context, held: LockedTrail, history: RequestHistory) -> None:
    """Do what an end's event announced and a crash left undone: the result (the same bytes), then the move."""
    workspace, event, ended = context.workspace, history.end, End.of(history.end)
    if event is None or ended is None:
        return
    if ended.record_sha256 is not None:
        folder = workspace.run_folder(history.request_id)
        facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=ended.record_sha256)
    else:
        facts = _refusal_facts(event)
    deliver_result(workspace, facts)
    source = find_file(workspace, history)
    if source is not None and history.state and history.file:
        target = workspace.state_folder(history.state) / history.file
        if source != target and not target.exists():
            moves.relocate(source, target)
    tell_state(workspace, str(history.file), _state(ended), facts.status)


def _state(ended: End) -> State:
    return "finished" if isinstance(ended, Finished) else "refused"


def find_file(workspace: Workspace, history: RequestHistory) -> Path | None:
    """Where a request's file is now, by its name in the trail; where it belongs comes first."""
    order = [history.state, *STATES] if history.state in STATES else list(STATES)
    places = map(Placed.of, (history.claimed, history.approved, history.end))
    names = {place.file for place in places if place is not None and place.file is not None}
    if history.file:
        names.add(history.file)
    for state in order:
        for name in sorted(names):
            path = workspace.state_folder(str(state)) / name
            if path.is_file() and not path.is_symlink():
                return path
    return None


def unsettled(workspace: Workspace, history: RequestHistory) -> bool:
    """Whether a request is not where the trail says, or lacks its result. Cheap: names only."""
    if history.abandoned or (history.approved is None and history.promoted is None and history.end is None):
        return False
    if history.end is None:
        if history.claimed is not None:
            return True
        return history.file is not None and not (workspace.approved / history.file).exists()
    if history.state is None or history.file is None:
        return False
    there = (workspace.state_folder(history.state) / history.file).exists()
    return not there or not (workspace.results / result_name(history.end.when, history.request_id)).exists()


def still_open(workspace: Workspace, history: RequestHistory) -> bool:
    """Whether something has still to become of a request: it waits, it runs, or it is `unsettled`."""
    waits = history.end is None and (history.approved or history.promoted or history.claimed)
    return bool(waits) or unsettled(workspace, history)
