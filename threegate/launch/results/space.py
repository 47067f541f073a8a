"""Disk space for a result, reserved before the event that promises one.

Invariant: before an end with a result is recorded, or a request that must have one is claimed, the blocks are
reserved; the result is written into exactly these blocks, so that a full disk cannot keep CORE from learning
how its request ended.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import DiskFull, Unavailable, is_disk_full
from threegate.core.workspace import Workspace
from threegate.trail.event import trail_text

PREFIX = ".reserved-"


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


def deliver_reserved(
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
