"""How a request ends: the event first, then the result, then the final folder; and the same again after a crash.

The event leads because recovery completes what an event announced and never explains what none did: after the event
`close_from_trail` writes the same result, from the event and the record that it names, and moves the file. The result
comes before the rename: while the file is in running/ the end is known to be incomplete, and whoever finds the file in its
final folder finds its result too (docs/spec/7-trail-and-results.md, "Launch order"; docs/adr/0004-event-before-rename.md).

Invariant: every end has exactly one event, one result file with the same bytes however often it is delivered, and
one final folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from threegate.core import canonical, durable
from threegate.core.workspace import STATES, Workspace
from threegate.judgement.judge import Cleared, Judgement, NotCleared
from threegate.launch.approved_file import Approved, Ended, Unrunnable, Waiting, is_there
from threegate.launch.context import Context
from threegate.launch.status_file import write_status
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

_ENDS = {"cancelled": "cancelled", "interrupted": "interrupted", "unavailable": "interrupted"}
"""Statuses whose event is not `finished`; their requests go to refused/."""


CHANGED = Waiting("request_changed", "the file changed while it was judged; it is read again")


def finish(
    context: Context,
    path: Path,
    request: Request,
    ran: ResultFacts,
    data: Mapping[str, Any],
    run_folder: Path,
    judgement: Cleared,
) -> Ended:
    """Announce the end, deliver the result, move the file.

    `ran` are the facts that were just recorded in `run_folder`; moment and number come from the event. After a crash the
    record gives the same facts, and so the same result.
    """
    event_type = _ENDS.get(ran.status, "finished")
    folder = context.workspace.finished if event_type == "finished" else context.workspace.refused
    text = ResultText(ran)
    with context.trail.locked() as held:
        moved = context.contracts.commit(held, context.policy, request, ran.status, run_folder)
        target = moves.free_name(folder / path.name)
        # The result names its event and the event the result's digest: so number and moment are taken beforehand.
        seq, when = held.next_event()
        facts = replace(ran, created_utc=when, trail_seq=seq)
        rendered = text.at(facts)
        moves.announce(
            held,
            event_type,
            request_id=request.request_id,
            actor="daemon",
            data={
                **data,
                **moved,
                "result_sha256": canonical.sha256_hex(rendered),
                "state": folder.name,
                "file": target.name,
            },
        )
        _end_with_it(context.workspace, held, moved)
        result = deliver_result(context.workspace, facts, rendered, settled=False)
        moves.relocate(path, target, settled=False)
    # Without the lock: others need not wait for these folders. A power cut before this is what recovery completes.
    moves.settle(result, result)
    moves.settle(path, target)
    write_status(context.workspace, target.name, _state(event_type), ran.status, judgement)
    context.on_end(request.request_id, ran.status)
    return Ended(event_type, ran.status, result)


def refuse(context: Context, approved: Approved, judgement: NotCleared) -> Ended | Waiting:
    """A gate said no for good: event, result, refused/. Waiting when the file went away or changed meanwhile."""
    with context.trail.locked() as held:
        if not is_there(approved):
            return CHANGED
        return refuse_held(context, held, approved, judgement.code, judgement.message, judgement)


def refuse_unrunnable(context: Context, unrunnable: Unrunnable) -> Ended | Waiting:
    """Refuse a file of approved/ that is no runnable request. Waiting as in `refuse`."""
    with context.trail.locked() as held:
        if not is_there(unrunnable):
            return CHANGED
        return refuse_held(context, held, unrunnable, unrunnable.code, unrunnable.message)


def refuse_held(
    context: Context,
    held: LockedTrail,
    file: Approved | Unrunnable,
    code: str,
    message: str,
    judgement: Judgement | None = None,
) -> Ended:
    """Event, result and move of a refusal, under the lock that the caller looked at the file under."""
    history = held.index.history(file.request_id)
    known = history is not None and (
        history.claimed is not None or history.end is not None or _is_copy(history, file.path)
    )
    approval = judgement.approval if judgement else None
    data: dict[str, Any] = {
        "reason": "replayed" if known else code,
        "message": message,
        "approved_by": approval.approved_by if approval else None,
        "approval_sha256": approval.approval_sha256 if approval else None,
        "policy_sha256": context.policy.digest,
    }
    moved: Mapping[str, Any] = {}
    if isinstance(file, Approved):
        data["backend"] = file.request.backend
        data["request_sha256"] = file.request.sha256
        data["inputs"] = {item.name: item.sha256 for item in file.job.inputs[:64]}
        moved = context.contracts.blocked(held, context.policy, file.request, file.job, code)
    else:
        data |= {"backend": "ERA", "request_sha256": None, "inputs": {}}
    data.update(moved)
    target = moves.free_name(context.workspace.refused / file.path.name)
    # Space first: on a full disk the request stays where it is, instead of ending without a result.
    reserve_result(context.workspace, file.request_id)
    event = moves.announce(
        held,
        "quarantined" if known else "refused",
        request_id=file.request_id,
        actor="daemon",
        data={**data, "state": "refused", "file": target.name},
    )
    _end_with_it(context.workspace, held, moved)
    result = deliver_result(
        context.workspace, _refusal_facts(event.request_id or "", event.data, event.when, event.seq)
    )
    moves.relocate(file.path, target)
    write_status(context.workspace, target.name, "refused", str(data["reason"]), judgement)
    context.on_end(file.request_id, "refused")
    return Ended("refused", str(data["reason"]), result)


def _end_with_it(workspace: Workspace, held: LockedTrail, moved: Mapping[str, Any]) -> None:
    """Ask the daemon to end the requests that run in sessions which ended with their parent just now.

    A crash before this loses nothing: what ran then is interrupted by the next start.
    """
    for request_id in moved.get("contract", {}).get("ends", ()):
        moves.announce(
            held,
            "cancel_requested",
            request_id=request_id,
            actor="daemon",
            data={"message": "the parent session was ended by its circuit breaker"},
        )
        durable.overwrite(workspace.control / f"cancel-{request_id}", b"")


def _is_copy(history: RequestHistory, path: Path) -> bool:
    """Whether the trail approved this request under another file name, and that file still waits: refusing the
    copy must not end the request itself."""
    name = history.approved.data.get("file") if history.approved else None
    return isinstance(name, str) and name != path.name and (path.parent / name).exists()


def _refusal_facts(
    request_id: str, data: Mapping[str, Any], when: datetime, seq: int, status: str = "refused"
) -> ResultFacts:
    return ResultFacts(
        request_id=request_id,
        status=status,
        created_utc=when,
        trail_seq=seq,
        backend=str(data.get("backend") or ""),
        reason=str(data.get("reason") or ""),
        detail=str(data.get("message") or ""),
        request_sha256=data.get("request_sha256"),
        approved_by=data.get("approved_by"),
        approval_sha256=data.get("approval_sha256"),
        policy_sha256=data.get("policy_sha256"),
        inputs=tuple(sorted((data.get("inputs") or {}).items())),
    )


def interrupt(context: Context, history: RequestHistory, claimed: Event) -> None:
    """Close a request that was claimed and never finished: nobody knows how far it came, so it never runs again."""
    workspace = context.workspace
    with context.trail.locked() as held:
        source = find_file(workspace, history)
        name = source.name if source else str(history.file or f"{history.request_id}.md")
        target = moves.free_name(workspace.refused / name)
        kept = {key: claimed.data.get(key) for key in ("request_sha256", "approval_sha256", "policy_sha256")}
        moved = context.contracts.lost(held, history)
        event = moves.announce(
            held,
            "interrupted",
            request_id=history.request_id,
            actor="daemon",
            data={
                **kept,
                **moved,
                "reason": "interrupted",
                "message": "the daemon ended while this request ran; it may have run in part and is never run again",
                "approved_by": history.approved.data.get("approved_by") if history.approved else None,
                "state": "refused",
                "file": target.name,
            },
        )
        facts = _refusal_facts(history.request_id, event.data, event.when, event.seq, "interrupted")
        deliver_result(workspace, facts)
        if source is not None:
            moves.relocate(source, target)
    write_status(workspace, target.name, "refused", "interrupted")
    context.on_end(history.request_id, "interrupted")


def close_from_trail(context: Context, held: LockedTrail, history: RequestHistory, event: Event) -> None:
    """Do what an end's event announced and a crash left undone: the result (the same bytes), then the move."""
    workspace = context.workspace
    record = event.data.get("record_sha256")
    if isinstance(record, str):
        folder = workspace.run_folder(history.request_id)
        facts = read_record(folder, created_utc=event.when, trail_seq=event.seq, sha256=record)
    else:
        status = event.type if event.type in ("cancelled", "interrupted") else "refused"
        facts = _refusal_facts(history.request_id, event.data, event.when, event.seq, status)
    deliver_result(workspace, facts)
    source = find_file(workspace, history)
    if source is not None and history.state and history.file:
        target = workspace.state_folder(history.state) / history.file
        if source != target and not target.exists():
            moves.relocate(source, target)
    write_status(workspace, str(history.file), _state(event.type), facts.status)


def _state(event_type: str) -> State:
    return "finished" if event_type == "finished" else "refused"


def find_file(workspace: Workspace, history: RequestHistory) -> Path | None:
    """Where a request's file is now, by its name in the trail; where it belongs comes first."""
    order = [history.state, *STATES] if history.state in STATES else list(STATES)
    names = {
        str(event.data["file"])
        for event in (history.claimed, history.approved, history.end)
        if event and "file" in event.data
    }
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
