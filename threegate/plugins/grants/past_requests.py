"""What `grant suggest` knows of the past: requests that an operator signed one by one, and that succeeded.

Invariant: a request counts only if the trail has an approval of it alone, its end, and the digest of its file; who
asked is the owner of the draft as the trail has it, never a name in the file. The newest SUGGESTION_REQUESTS files of
finished/ are read, by the time of their last move, which no requester chooses.
"""

from __future__ import annotations

import heapq
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from threegate.core import limits
from threegate.core.errors import ThreeGateError, TrailError
from threegate.core.file_names import is_request_name
from threegate.launch.approved_file import Unrunnable, read_approved
from threegate.launch.context import Context
from threegate.plugins.grants.promotion import declared_job
from threegate.request.backend import Binding
from threegate.request.job import Job
from threegate.review.draft_sources import drafts_of
from threegate.review.reviewed_draft import read_draft, validate_draft
from threegate.trail import payloads
from threegate.trail.history import RequestHistory
from threegate.trail.payloads.payload import Owner


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A request that was signed by itself and succeeded."""

    request_id: str
    owner: Owner
    job: Job
    """As it would mean today."""
    ended_utc: datetime
    asked: bool = True
    """False if its operator signed it with ``--yes``."""


def past_requests(context: Context) -> list[PastRequest]:
    """Those that can be read, in the order in which they ended. Raises TrailError."""
    names = _newest(context.workspace.finished)
    with context.trail.locked() as held:
        index = held.index
        known = {name: request_id for name in names if (request_id := index.request_of(name)) is not None}
        histories = {name: index.history(request_id) for name, request_id in known.items()}
    found = [
        past
        for name, history in histories.items()
        if history is not None and (past := _past(context, name, history)) is not None
    ]
    return sorted(found, key=lambda past: past.ended_utc)


def _newest(folder: Path) -> list[str]:
    """Names of the request files of a folder that came there last."""
    there: list[tuple[int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_request_name(entry.name):
                with suppress(FileNotFoundError):
                    there.append((entry.stat(follow_symlinks=False).st_ctime_ns, entry.name))
    return [name for _, name in heapq.nlargest(limits.SUGGESTION_REQUESTS, there)]


def _past(context: Context, name: str, history: RequestHistory) -> PastRequest | None:
    """None for what ran under a grant, in a batch or without a signature, what failed, and what cannot be read."""
    given, end = payloads.Approved.of(history.approved), payloads.Finished.of(history.end)
    if history.end is None or given is None or end is None or end.status != "succeeded" or end.exit_code:
        return None
    if given.approval_sha256 is None or given.grant is not None or given.batch_sha256 is not None:
        return None
    if given.owner is None or (history.state, history.file) != ("finished", name):
        return None
    try:
        approved = read_approved(context, context.workspace.finished / name)
    except TrailError:
        raise
    except (ThreeGateError, OSError):
        return None
    if isinstance(approved, Unrunnable) or approved.digests[""] != given.request_sha256:
        return None
    return PastRequest(history.request_id, given.owner, approved.job, history.end.when, given.asked is not False)


def waiting_jobs(context: Context) -> list[tuple[Owner, Job]]:
    """Who asks, and for what, in the newest drafts that wait and that have a Job as things are now. Raises
    TrailError.
    """
    found: list[tuple[Owner, Job]] = []
    for path in drafts_of(context.workspace)[-limits.SUGGESTION_DRAFTS :]:
        try:
            draft = read_draft(context.workspace, path)
            request = validate_draft(context, draft).request
            if not request.inputs:  # what is known here of the others depends on no input, or no grant covers them
                binding = Binding(
                    context.workspace, context.policy.settings, context.trail, request, _no_input, draft.owner
                )
                request = replace(request, action=binding.bound().action)
            if draft.owner is not None:
                found.append((draft.owner, declared_job(context, draft, request)))
        except TrailError:
            raise
        except (ThreeGateError, OSError):
            continue
    return found


def _no_input(item: object) -> Any:
    raise FileNotFoundError
