"""What a daemon does first: every interrupted request is settled.

Invariant: after `recover` no request is in running/, none is between two folders, every ended request has its
result, and no claimed request can be claimed again. Doing it twice changes nothing
(docs/spec/7-trail-and-results.md, "Recovery").

Orphans are killed first: a container of the daemon that died may still be running the request that is about
to be called `interrupted`, and the result must not say that about a request that is still running. Then the
trail decides, not the folders: its event was on disk before each rename, so a file can lag behind it and
never lead. That is also why no claimed request goes back to approved/: anything may have happened between the
claim and the end (docs/adr/0005-at-most-once.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from threegate.approval.facts import VOID
from threegate.core import durable, file_locks, limits
from threegate.core.errors import InvalidInput, ThreeGateError, TrailError, Unavailable, place_of
from threegate.core.file_names import request_of_companion
from threegate.core.plugins import OFF, announced_folders, plugin_named
from threegate.core.settings import Settings
from threegate.core.user_state import UserState
from threegate.core.workspace import STATES, Workspace
from threegate.daemon.log import Log
from threegate.daemon.plugin_work import Work
from threegate.launch.approved_file import named_backend
from threegate.launch.completion import close_from_trail, interrupt
from threegate.launch.context import Context
from threegate.launch.launch_facts import draft_owner
from threegate.launch.results.verdict import read_verdict, write_status
from threegate.request.backend import BACKENDS, why_off
from threegate.runners.backend import backends
from threegate.trail import moves
from threegate.trail.history import RequestHistory, unsettled
from threegate.trail.payloads import ApprovalAbandoned, Approved, Claimed, Started
from threegate.trail.trail import Trail

DISK_WAS_FULL: Final = (
    "the disk was full while this request was started or recorded; it may have run in part and is never run again"
)
_OPEN: Final = re.compile(r"open-([a-z]+)-.+").fullmatch
"""A file in control/ by which a plugin marks what it has begun and not ended: ``open-PLUGIN-…``."""


def refuse_open(workspace: Workspace, trail: Trail, settings: Settings) -> None:
    """Raises Unavailable while something is open that nothing here can end, in one line.

    A claimed request is called `interrupted` only by a process that has the code of its backend, and knows every event
    of its history. Anyone else cannot tell what it left half done, and how to take that back.
    """
    with trail.locked() as held:
        for history in held.index.unended_histories():
            if history.claimed is not None and (why := _not_here(workspace, settings, history)) is not None:
                raise _unavailable(f"{history.request_id} is claimed and has not ended", why)
    for path in sorted(workspace.control.glob("open-*")) if workspace.control.is_dir() else ():
        match = _OPEN(path.name)
        if match is not None and (why := _gone(match[1], settings)) is not None:
            raise _unavailable(f"{path} is open", why)


def _unavailable(what: str, why: str) -> Unavailable:
    return Unavailable(f"{what}, and {why}; start the daemon with it once, which settles it: nothing is started before")


def _not_here(workspace: Workspace, settings: Settings, history: RequestHistory) -> str | None:
    """What of a claimed request is not here."""
    if history.unknown is not None:
        return f"nothing here knows the kind {history.unknown} of one of its events"
    started = Started.of(history.started)
    backend: str | None = started.backend if started is not None else None
    if backend is None and (path := moves.find_file(workspace, history)) is not None:
        backend = named_backend(path)
    if backend is None:
        return None
    return why_off(backend, settings) if backend in BACKENDS else f"its backend {backend} is not here"


def _gone(name: str, settings: Settings) -> str | None:
    """Why a plugin cannot end what it began; None if it can."""
    plugin = plugin_named(name)
    if plugin is None:
        return f"there is no plugin {name} here"
    if name in settings.plugins.off:
        return f"the plugin {name} {OFF}"
    return plugin.why_absent()


def recover(context: Context, log: Log, works: Iterable[Work], why: str | None = None) -> int:
    """Settle everything, while nothing runs; return how many requests were not where the trail says. `works` are those
    of all plugins that are there, on or off. `why` says what interrupted a claimed request, if not the daemon's end.
    Raises TrailError, Unavailable, OSError.
    """
    workspace = context.workspace
    settings = context.policy.settings.runners
    with context.trail.locked() as held:
        remove_temporary(workspace)
        ran = set(held.index.backends)
    # First, as the module says: a container may still be running what is about to be called interrupted.
    for backend in backends():
        if backend.name in ran or backend.sweeps_for_others:
            left = backend.remove_orphans(context.workspace_id, context.boot_nonce, settings, workspace.runs)
            for line in left:
                log.say("orphan", what=line)
    recovered = [work.recover(context) for work in works]
    stuck = {request_id: line for plugin in recovered for request_id, line in plugin.stuck.items()}
    taken_back = {request_id: line for plugin in recovered for request_id, line in plugin.taken_back.items()}
    said = [line for plugin in recovered for line in plugin.said]
    for request_id, line in (*stuck.items(), *taken_back.items(), *said):
        log.say("recovery", request=request_id, what=line)
    with context.trail.locked() as held:
        UserState.of(context.workspace_id).sweep()
        moves.settle_changes(workspace.memory, held.index.notes, max_bytes=limits.MEMORY_BYTES)
        for name in announced_folders():
            announced = held.index.files_in(name)
            moves.settle_changes(workspace.tool_exec / name, announced, max_bytes=limits.SINGLE_FILE_BYTES)
        histories = [
            history
            for history in held.index.open_histories()
            if unsettled(workspace, history) and history.request_id not in stuck
        ]
    settled = 0
    for history in histories:
        try:
            done = _settle(context, history, taken_back.get(history.request_id, why))
        # These concern the workspace, not one request: the daemon stops or tries again.
        except (TrailError, Unavailable, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - one request's failure never keeps the others from their end
            log.say(
                "recovery",
                request=history.request_id,
                what=f"internal error: {place_of(error)}; please report it",
            )
            continue
        if done:
            settled += 1
            log.say("recovered", request=history.request_id, what=done)
    # Last, because the requests are in their final folders now, so each signature can follow its own.
    settled += _move_lone_signatures(workspace, log)
    return settled


def remove_temporary(workspace: Workspace) -> None:
    """Remove temporary files that a crash left; nothing refers to them. Called under the trail's lock, so
    that files of a command at work are kept, as are those being read.
    """
    folders = [workspace.tool_exec, workspace.inputs, workspace.results, workspace.verdicts, workspace.audit]
    folders += [workspace.audit / "checkpoints", workspace.drafts, workspace.drafts / "files"]
    folders += [workspace.memory, workspace.contracts / ".state"]
    folders += [workspace.tool_exec / name for name in (*STATES, *announced_folders())]
    if workspace.runs.is_dir():
        folders += [path for path in workspace.runs.iterdir() if path.is_dir() and not path.is_symlink()]
    for folder in folders:
        if not folder.is_dir():
            continue
        for path in folder.iterdir():
            if durable.is_temporary(path.name) and not path.is_dir() and not file_locks.in_use(path):
                durable.unlink(path)


def _settle(context: Context, history: RequestHistory, why: str | None) -> str | None:
    """Settle one request according to the trail. Returns what was done."""
    if history.end is not None:
        with context.trail.locked() as held:
            close_from_trail(context, held, history, history.end)
        return f"completed what {history.end.type} had recorded"
    if (claimed := Claimed.of(history.claimed)) is not None:
        interrupt(context, history, claimed, why)
        return "was interrupted"
    return _make_void(context, history.request_id)


def _make_void(context: Context, request_id: str) -> str | None:
    """Record that an approval is void if its file is gone. Returns what was done."""
    workspace = context.workspace
    with context.trail.locked() as held:
        # Read again under the lock: a command may have ended the request since.
        history = held.index.history(request_id)
        if history is None or history.file is None or history.claimed or not unsettled(workspace, history):
            return None
        approved = Approved.of(history.approved) or Approved()
        void = ApprovalAbandoned(
            reason="the approved file is not in approved/",
            file=history.file,
            request_sha256=approved.request_sha256,
            approval_sha256=approved.approval_sha256,
            nonce=approved.nonce,
        )
        moves.announce(held, void, request_id=request_id, actor="daemon")
        for signature in moves.companions(workspace.approved / history.file):
            durable.unlink(signature)
        durable.sync_folder(workspace.approved)
        requester_folders = workspace.requester_folders(draft_owner(history))
    with suppress(InvalidInput):
        known = read_verdict(requester_folders, history.file)
        # A draft that is still there, as after a crash in the approval, keeps its status.
        if known is not None and known.state in ("approved", "waiting"):
            write_status(requester_folders, history.file, "refused", VOID)
    return "its approval is void: the approved file is gone; its id is free for a new approval"


def _move_lone_signatures(workspace: Workspace, log: Log) -> int:
    """Move each signature to its request's folder; return how many were moved."""
    moved = 0
    for folder in map(workspace.state_folder, STATES):
        for entry in sorted(os.listdir(folder)):
            of = request_of_companion(entry)
            if of is None or not durable.is_gone(folder / of[0]):
                continue
            homes = (home for home in map(workspace.state_folder, STATES) if os.path.lexists(home / of[0]))
            home = next(homes, None)
            if home is None:
                log.say("alone", file=entry, what="a signature without its request")
                continue
            try:
                durable.rename(folder / entry, home / entry)
                durable.sync_folder(home)
                moved += 1
            except (OSError, ThreeGateError) as error:
                log.say("alone", file=entry, what=str(error))
    return moved
