"""Changes of projects that a crash interrupted: a change is kept if the trail says that it succeeded,
otherwise reverted completely.

Invariant: the trail decides. A change stands exactly if its `finished` says so; until that is on disk, the
whole change is reverted here, before its request is called `interrupted`. Doing it twice changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.daemon.plugin_work import Recovered, Work
from threegate.launch.context import Context
from threegate.plugins.changes.apply.apply_journal import STAGE, read_journal
from threegate.plugins.changes.apply.branch_delivery import BRANCH_LEFT
from threegate.plugins.changes.apply.runner import JOURNAL, forget_stage, take_back_change
from threegate.plugins.changes.kinds import Undone, UndoStarted
from threegate.trail import moves
from threegate.trail.history import RequestHistory
from threegate.trail.payloads import Finished


class ChangesWork(Work):
    """Nothing in turns: a change is made by its runner."""

    def recover(self, context: Context) -> Recovered:
        """Changes first, then undos of changes that stood."""
        changes, undos = recover_changes(context), recover_undos(context)
        changes.said += [*undos.stuck.items(), *undos.taken_back.items()]
        return changes


def recover_changes(context: Context) -> Recovered:
    """Complete or revert every interrupted change. Raises TrailError.

    A project that cannot be reached now keeps its stage folder: while that exists, no other change is made in it.
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
        else:
            _take_back_later(journal.parent, history, found)
    return found


def _take_back_later(folder: Path, history: RequestHistory, found: Recovered) -> None:
    """Revert a change that the trail calls failed or cancelled, if its project's owner prevented that before."""
    try:
        done = take_back_change(folder, pending=True)
    except (Refused, OSError):
        return  # the project cannot be reached, or has no stage folder
    if done.status == "succeeded" and done.message == "":
        found.said.append((history.request_id, "its change, which was interrupted, was reverted"))


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
            f"changed since ({names}){_originals(done.left)}"
        )
    elif done.status != "succeeded":
        found.stuck[history.request_id] = f"its change cannot be reverted now: {done.message}"
    else:
        found.taken_back[history.request_id] = "the daemon ended while the change was made; all of it was reverted"


def _originals(left: tuple[str, ...]) -> str:
    """Where the originals of what stays are; a branch has none."""
    return "" if all(name.startswith(BRANCH_LEFT) for name in left) else f"; their originals are in {STAGE}/"


_UNDO = re.compile(r"open-changes-undo-([A-Za-z0-9][A-Za-z0-9._-]{2,127})\.json")


def undo_journal(workspace: Workspace, request_id: str) -> Path:
    """Where the journal of an undo is while it is in progress: in control/, which no event names. By its name no daemon
    starts without the plugin (`refuse_open`).
    """
    return workspace.control / f"open-changes-undo-{request_id}.json"


def lock_undo(path: Path) -> int | None:
    """An open descriptor of an undo's journal, whose holder alone may make or revert that undo; None if another process
    is at it, or it has ended. Called under the trail's lock, under which an undo also makes its journal. The child that
    works in the project inherits the descriptor: as long as it lives, nobody else has the lock.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def recover_undos(context: Context) -> Recovered:
    """Complete or revert every interrupted undo. Raises TrailError.

    The trail's lock is not held meanwhile: the project's owner, whose account this needs, could hold it up.
    """
    found = Recovered()
    for path in sorted(context.workspace.control.glob("open-changes-undo-*.json")):
        match = _UNDO.fullmatch(path.name)
        if match is None:
            continue
        try:
            with context.trail.locked() as held:
                lock = lock_undo(path)
                history = held.index.history(match[1])
        except OSError as error:
            found.stuck[match[1]] = f"its undo was interrupted and cannot be reverted now: {error}"
            continue
        if lock is not None:
            try:
                _recover_undo(context, history, path, match[1], found)
            finally:
                os.close(lock)
    return found


def _recover_undo(
    context: Context, history: RequestHistory | None, path: Path, request_id: str, found: Recovered
) -> None:
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
            with context.trail.locked() as held:
                moves.announce(held, taken_back, request_id=request_id, actor="daemon")
            found.taken_back[request_id] = f"its undo: {message}"
        durable.unlink(path)
    except (Refused, OSError, ValueError) as error:
        found.stuck[request_id] = f"its undo was interrupted and cannot be reverted now: {error}"
