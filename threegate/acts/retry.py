"""A new draft of an earlier request, with a new id, for a new approval.

Invariant: the draft has the same meaning as the earlier request except for id and time; it is a draft like
any other and carries no approval.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from threegate.acts.draft import keep_input
from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.file_names import slug_of
from threegate.core.workspace import STATES, RequesterFolders
from threegate.launch.context import Context
from threegate.launch.launch_facts import draft_owner
from threegate.request.model import InputFile, Request, Stage
from threegate.request.render_draft import file_name, render_request
from threegate.review.input_copies import digest_now
from threegate.trail.trail import LockedTrail

_RETRY = re.compile(r"\.r[0-9]{1,6}")
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Retried:
    """The new draft, and the input files that were put back into inbox/files/."""

    path: Path
    request_id: str
    of: str
    restored: tuple[str, ...]


def retry_request(context: Context, source: Path, *, now: datetime | None = None) -> Retried:
    """Write a new draft of the request in `source` (a file in approved/, finished/ or refused/).

    Raises InvalidInput if it is not a request that could be drafted again, Unavailable if an input is gone, OSError.
    """
    if source.parent.name not in STATES:
        raise InvalidInput(f"{source}: is still a draft; approve or reject it instead")
    moment = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    request = _read(context, source, moment)
    slug = slug_of(source.name) or "retry"
    with context.trail.locked() as held:
        request_id = free_request_id(held, request.request_id)
        requester_folders = context.workspace.requester_folders(draft_owner(held.index.history(request.request_id)))
        name = free_file_name(held, requester_folders.inbox, moment, slug)
    if not requester_folders.inbox.is_dir():
        raise Unavailable(f"{requester_folders.inbox}: the run that asked for this was removed; write a new draft")
    fresh = request.drafted_again(name, request_id, moment)
    data = render_request(fresh)
    report = context.read(data, name, "draft", moment)
    # Read again: the draft must be the request that was asked for, and not what rendering made of it.
    if report.request is None or replace(report.request, data=fresh.data, sha256=fresh.sha256) != fresh:
        raise InvalidInput(f"{source}: cannot be drafted again as the same request; write a new draft")
    restored = tuple(item.name for item in request.inputs if _restore(context, requester_folders, item))
    path = requester_folders.inbox / name
    with context.workspace.hold(requester_folders.inbox) as inbox:
        inbox.deliver(name, data, 0o644)
    return Retried(path, request_id, request.request_id, restored)


def _read(context: Context, source: Path, now: datetime) -> Request:
    data = durable.read_named(source, max_bytes=limits.REQUEST_BYTES)
    # In refused/ there are drafts too, which have no approval in them.
    for stage in get_args(Stage)[::-1]:
        report = context.read(data, source.name, stage, now)
        if report.request is not None:
            return report.request
    first = report.first_error
    raise InvalidInput(f"{source}:{first.line}: {first.rule}: {first.message}; write a new draft")


def free_request_id(held: LockedTrail, request_id: str) -> str:
    """An id with the same stem that is not in the trail. Raises Unavailable."""
    stem = _RETRY.sub("", request_id) if _RETRY.search(request_id[-8:]) else request_id
    stem = stem[: limits.REQUEST_ID_CHARS - 8]
    for number in range(2, _MOST):
        candidate = f"{stem}.r{number}"
        # Not its own either: of a draft that no daemon has seen yet the trail knows nothing.
        if candidate != request_id and held.index.history(candidate) is None:
            return candidate
    raise Unavailable(f"{request_id}: has already been retried {_MOST} times; write a new draft")


def free_file_name(held: LockedTrail, inbox: Path, moment: datetime, slug: str) -> str:
    """A name of this moment and slug that is neither in the trail nor in the inbox: what is asked for again within a
    second has another one. Raises Unavailable.
    """
    for number in range(1, _MOST):
        name = file_name(moment, slug if number == 1 else f"{slug[:58].strip('-')}-{number}")
        if not held.index.name_used(name) and not os.path.lexists(inbox / name):
            return name
    raise Unavailable(f"{slug}: {_MOST} drafts of one second; try again")


def _restore(context: Context, requester_folders: RequesterFolders, item: InputFile) -> bool:
    """Put an input back next to the drafts, named by its sha256; return whether that was needed.

    The bytes are those that were pinned when the earlier request was approved. A request that was never approved pinned
    nothing: then its own file must still exist.
    """
    workspace = context.workspace
    place = workspace.input_place(requester_folders.inbox, item.name, item.sha256)
    found = digest_now(workspace, place)
    if found == item.sha256 == place.name:
        return False
    try:
        data = durable.read_regular(workspace.inputs / item.sha256, max_bytes=limits.INPUT_FILE_BYTES)
    except OSError:
        data = b""
    if sha256_hex(data) != item.sha256:
        if found == item.sha256:
            return False
        what = "is gone" if found is None else "is now a different file"
        raise Unavailable(f"{place}: {what}, and nothing is pinned; put the file back, then retry")
    return keep_input(workspace, requester_folders, item, data)
