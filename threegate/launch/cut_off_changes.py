"""Changes of projects that a crash interrupted: a change is kept if the trail says that it succeeded,
otherwise reverted completely.

Invariant: the trail decides. A change stands exactly if its `finished` says so; until that is on disk, the
whole change is reverted here, before its request is called `interrupted`. Doing it twice changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.runners.apply.apply_journal import STAGE, read_journal
from threegate.runners.apply.runner import JOURNAL, forget_stage, take_back_change
from threegate.trail import LockedTrail, RequestHistory, moves
from threegate.trail.payloads import Finished, Undone, UndoStarted


@dataclass(slots=True)
class Recovered:
    """The outcomes of interrupted changes, by request id, in one line for the trail."""

    taken_back: dict[str, str] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    """Those that cannot be reverted now: their requests stay unchanged until the next start."""


def recover_changes(context: Context) -> Recovered:
    """Complete or revert every interrupted change. Raises TrailError.

    A project that cannot be reached now keeps its stage folder: while that exists, no other change is made in
    it.
    """
    found = Recovered()
    with context.trail.locked() as held:
        index = held.index
        journals = sorted(context.workspace.runs.glob(f"*/{JOURNAL}"))
        histories = [index.history(journal.parent.name) for journal in journals]
    for journal, history in zip(journals, histories, strict=True):
        if history is None:
            continue
        finished = Finished.of(history.end)
        if history.end is None:
            _take_back(journal.parent, history, found)
        elif finished is not None and finished.status == "succeeded":
            forget_stage(journal.parent)
    return found


def _take_back(folder: Path, history: RequestHistory, found: Recovered) -> None:
    try:
        done = take_back_change(folder)
    except (Refused, OSError) as error:
        found.stuck[history.request_id] = f"its change cannot be reverted now: {error}"
        return
    if done.left:
        names = ", ".join(done.left[:3])
        found.taken_back[history.request_id] = (
            f"the daemon ended while the change was made; it was reverted, except {len(done.left)} paths that were "
            f"changed since ({names}); their originals are in {STAGE}/"
        )
    elif done.status != "succeeded":
        found.stuck[history.request_id] = f"its change cannot be reverted now: {done.message}"
    else:
        found.taken_back[history.request_id] = "the daemon ended while the change was made; all of it was reverted"


_UNDO = re.compile(r"undo-([A-Za-z0-9][A-Za-z0-9._-]{2,127})\.json")


def undo_journal(workspace: Workspace, request_id: str) -> Path:
    """Where the journal of an undo is while it is in progress: in control/, which no event names."""
    return workspace.control / f"undo-{request_id}.json"


def recover_undos(context: Context, held: LockedTrail) -> Recovered:
    """Complete or revert every interrupted undo, under the trail's lock, which an undo holds. Raises
    TrailError.
    """
    found = Recovered()
    for path in sorted(context.workspace.control.glob("undo-*.json")):
        match = _UNDO.fullmatch(path.name)
        if match is not None:
            _recover_undo(context, held, path, match[1], found)
    return found


def _recover_undo(context: Context, held: LockedTrail, path: Path, request_id: str, found: Recovered) -> None:
    history = held.index.history(request_id)
    event = history.applied if history is not None else None
    started, undone = UndoStarted.of(event), Undone.of(event)
    try:
        token = read_journal(durable.read_regular(path, max_bytes=limits.APPLY_JOURNAL_BYTES)).token
        if undone is not None and undone.token == token:
            if undone.status == "succeeded":
                forget_stage(path.parent, path.name)
        elif started is not None and started.token == token:
            done = take_back_change(path.parent, path.name)
            if done.status != "succeeded" and not done.left:
                raise OSError(done.message)
            message = "the undo was interrupted and reverted: the change is still in place"
            if done.left:
                message += f", except for {len(done.left)} paths that were changed since"
            taken_back = Undone(status="interrupted", message=message, token=token)
            moves.announce(held, taken_back, request_id=request_id, actor="daemon")
            found.taken_back[request_id] = f"its undo: {message}"
        durable.unlink(path)
    except (Refused, OSError, ValueError) as error:
        found.stuck[request_id] = f"its undo was interrupted and cannot be reverted now: {error}"
