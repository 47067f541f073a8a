"""How a result gets into results/: its disk space, reserved before the event that promises it, and its delivery.

Invariant: before an end with a result is recorded, or a request that must have one is claimed, the blocks are
reserved; the result is written into exactly these blocks, so that a full disk cannot keep CORE from learning
how its request ended. A result is never replaced.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core import access_lists, durable, limits
from threegate.core.errors import DiskFull, Unavailable, is_disk_full
from threegate.core.workspace import AgentRun, RequesterFolders, Workspace
from threegate.launch.results.render import render_result
from threegate.launch.results.result_facts import ResultFacts
from threegate.trail.event import trail_text
from threegate.trail.moves import numbered

PREFIX = ".reserved-"
OPERATORS_COPY: Final = 0o400
"""Mode of the result of an agent's run in results/: the run has its own, and no other requester is shown this one."""


def reserved_place(workspace: Workspace, request_id: str) -> Path:
    """Where the blocks of a request's result are reserved: next to the results, so that a rename completes it."""
    # With the id as the trail spells it: recovery has no other.
    return workspace.results / f"{PREFIX}{hashlib.sha256(trail_text(request_id).encode()).hexdigest()[:32]}"


def reserve_result(workspace: Workspace, request_id: str) -> None:
    """Take the space of one result; nothing when it is taken already. Called under the trail's lock. Raises
    DiskFull, Unavailable.
    """
    path = reserved_place(workspace, request_id)
    if os.path.lexists(path):
        return
    try:
        durable.make_reserved(path, limits.RESULT_RESERVED_BYTES)
    except OSError as error:
        full = is_disk_full(error)
        raise (DiskFull if full else Unavailable)(
            f"{workspace.results}: {'the disk is full' if full else error.strerror or error}; nothing new is started "
            "until there is space for its result"
        ) from error


def deliver_result(
    workspace: Workspace,
    facts: ResultFacts,
    rendered: bytes | None = None,
    *,
    requester_folders: RequesterFolders | None = None,
    settled: bool = True,
) -> Path:
    """Write the result without replacing anything; the same bytes exist only once. Raises OSError.

    `requester_folders`: the requester's. An agent's run gets its own copy, before the workspace has the
    result, which then only the operator can read: no other agent sees it.

    `rendered` is the output of `render_result` for the facts, for a caller that has it. With `settled` false,
    its name is not durable before `moves.settle`, when the lock is released.

    Called under the trail's lock, after the event that `trail_seq` names is on disk. A second call with the
    same facts (recovery) finds the written file and returns its path.
    """
    data = render_result(facts) if rendered is None else rendered
    mode = access_lists.file_mode(workspace.results)
    if isinstance(requester_folders, AgentRun):
        mode = OPERATORS_COPY
        if requester_folders.results.is_dir():  # otherwise the run's folder was removed, and there is no reader
            _put(
                requester_folders.results / facts.file_name,
                data,
                lambda path: durable.deliver(path, data, 0o644),
            )
    path, new = _put(
        workspace.results / facts.file_name,
        data,
        lambda path: _deliver_reserved(workspace, facts.request_id, path, data, mode, settled=settled),
    )
    if not new:
        give_back(workspace, facts.request_id)
    return path


def _put(target: Path, data: bytes, deliver: Callable[[Path], None]) -> tuple[Path, bool]:
    """Deliver under the first free number, unless the same bytes are there; where they are, and whether that is new.

    Where they are there, a crash may have come before the folder was synced.
    """
    number = 1
    while True:
        path = numbered(target, number)
        try:
            deliver(path)
        except FileExistsError:
            if _same(path, data):
                durable.sync_folder(path.parent)
                return path, False
            number += 1
        else:
            return path, True


def _same(path: Path, data: bytes) -> bool:
    try:
        return durable.read_regular(path, max_bytes=len(data)) == data
    except OSError:
        return False


def _deliver_reserved(
    workspace: Workspace, request_id: str, path: Path, data: bytes, mode: int, *, settled: bool = True
) -> None:
    """Make `path` appear whole and durable, from the reserved blocks where there are any. Raises FileExistsError,
    OSError.

    With `settled` false the bytes are durable and their name not yet.
    """
    reserved = reserved_place(workspace, request_id)
    if os.path.lexists(reserved):
        durable.deliver_into(reserved, path, data, mode, settled=settled)
    else:
        durable.deliver(path, data, mode)


def give_back(workspace: Workspace, request_id: str) -> None:
    """Give the space back: the result was there already. Raises OSError."""
    with suppress(FileNotFoundError):
        durable.unlink(reserved_place(workspace, request_id))
