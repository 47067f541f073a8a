"""A request as it goes on: looked at again and again until it has ended.

Invariant: this only reads. Where the request is says its folder; that it ends at all is the daemon's word, so without a
daemon a request that runs is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from threegate.core import limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.workspace import STATES, Workspace
from threegate.review.show import Shown
from threegate.review.status import Line, RequestEntry, folder_name, line_of

_LOST_SECONDS = 5.0


def follow(workspace: Workspace, request: Shown, *, every: float = limits.LIVE_SECONDS) -> Iterator[Line]:
    """Its line now and every `every` seconds until it has ended, which is the last one.

    Raises InvalidInput when the file is gone, Unavailable when it runs and no daemon is there to end it.
    """
    if request.path is None:
        raise InvalidInput(
            f"{request.request_id}: its file is in no folder any more; see: threegate audit show"
        )
    name, draft = request.path.name, request.path.parent
    seen = time.monotonic()
    while True:
        alive = workspace.daemon_lock_held()  # before the look: a daemon moves the file first and ends then
        line = _line(workspace, name, draft)
        if line is not None:
            seen = time.monotonic()
            yield line
            if line.next == "ended":
                return
            if line.entry.folder == "running" and not alive:
                raise Unavailable(
                    f"{name}: no daemon runs, so nothing of it does; end it with: threegate run"
                )
        elif time.monotonic() - seen >= _LOST_SECONDS:
            raise InvalidInput(f"{name}: is in no folder any more; see: threegate audit show")
        time.sleep(every)


def _line(workspace: Workspace, name: str, draft: Path) -> Line | None:
    """Its line, or None while it is between two folders. Later folders first: none goes back."""
    for folder in (*map(workspace.state_folder, reversed(STATES)), draft):
        try:
            return line_of(workspace, RequestEntry.of(folder_name(workspace, folder), folder / name))
        except FileNotFoundError:
            continue
    return None
