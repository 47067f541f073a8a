"""What a daemon does before anything else: every request that was left half-way is brought to its end.

Invariant: after `recover` no request is in running/, none is between two folders, every ended request has its
result, and nothing that was claimed can be claimed again. Doing it twice changes nothing (docs/spec/7-trail-and-results.md, "Recovery").

Orphans are killed first: a container of the daemon that died may still be running the request that is about to be called
`interrupted`, and its result must not say that of something which goes on. Then the trail decides, not the folders: its
event was on disk before each rename, so a file can lag behind it and never lead. That is also why nothing that has a
claim goes back to approved/: between the claim and the end anything may have happened (docs/adr/0005-at-most-once.md).
"""

from __future__ import annotations

import re
from pathlib import Path

from threegate.core import durable
from threegate.core.errors import ThreeGateError
from threegate.core.workspace import STATES, Workspace
from threegate.daemon.log import Log
from threegate.launch.completion import close_from_trail, find_file, interrupt, unsettled
from threegate.launch.context import Context
from threegate.runners.era.orphans import remove_orphans
from threegate.trail import RequestHistory, moves

_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{16}")


def recover(context: Context, log: Log, engine_url: str = "") -> int:
    """Bring everything to its end; returns how many were not where the trail says. Raises TrailError, Unavailable."""
    workspace = context.workspace
    for line in remove_orphans(
        context.workspace_id, context.boot_nonce, url=engine_url, runs_folder=workspace.runs
    ):
        log.say("orphan", what=line)
    remove_temporary(workspace)
    mended = 0
    with context.trail.locked() as held:
        histories = [history for history in held.index.open_histories() if unsettled(workspace, history)]
    for history in histories:
        done = _mend(context, history)
        if done:
            mended += 1
            log.say("recovered", request=history.request_id, what=done)
    # Last: the requests are where they belong now, so each signature can follow its own.
    mended += _move_lone_signatures(workspace, log)
    return mended


def remove_temporary(workspace: Workspace) -> None:
    """Take away temporary files that a crash left; nothing refers to them."""
    folders = [workspace.tool_exec, workspace.inputs, workspace.results, workspace.verdicts, workspace.audit]
    folders += [workspace.state_folder(state) for state in STATES]
    if workspace.runs.is_dir():
        folders += [path for path in workspace.runs.iterdir() if path.is_dir() and not path.is_symlink()]
    for folder in folders:
        if not folder.is_dir():
            continue
        for path in folder.iterdir():
            if _TEMPORARY.fullmatch(path.name) and not path.is_dir():
                durable.unlink(path)


def _mend(context: Context, history: RequestHistory) -> str | None:
    """One request, by what the trail says of it. Returns what was done."""
    workspace = context.workspace
    if history.end is not None:
        with context.trail.locked() as held:
            close_from_trail(context, held, history, history.end)
        return f"finished what {history.end.type} had announced"
    if history.claimed is not None:
        interrupt(context, history, history.claimed)
        return "was interrupted"
    if history.file is None or (path := workspace.approved / history.file).exists():
        return None
    elsewhere = find_file(workspace, history)
    if elsewhere is not None:
        with context.trail.locked():
            moves.relocate(elsewhere, path)
        return "was put back into approved/"
    with context.trail.locked() as held:
        moves.announce(
            held,
            "approval_abandoned",
            request_id=history.request_id,
            actor="daemon",
            data={"reason": "the approved file never reached approved/", "file": history.file},
        )
        _remove_lone(workspace.approved, history.file)
    return "approval was abandoned; the draft can be approved again"


def _remove_lone(folder: Path, file_name: str) -> None:
    for signature in moves.companions(folder / file_name):
        durable.unlink(signature)
    durable.sync_folder(folder)


def _move_lone_signatures(workspace: Workspace, log: Log) -> int:
    """A signature goes where its request went."""
    moved = 0
    for state in STATES:
        folder = workspace.state_folder(state)
        for signature in sorted(folder.glob("*.md.sig*")):
            name = signature.name.partition(".sig")[0]
            if (folder / name).exists():
                continue
            home = next((other for other in STATES if (workspace.state_folder(other) / name).exists()), None)
            if home is None:
                log.say("alone", file=signature.name, what="a signature without its request")
                continue
            try:
                durable.rename(signature, workspace.state_folder(home) / signature.name)
                durable.sync_folder(workspace.state_folder(home))
                moved += 1
            except (OSError, ThreeGateError) as error:
                log.say("alone", file=signature.name, what=str(error))
    return moved
