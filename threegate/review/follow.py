"""Follow a request until it has ended.

Invariant: this only reads. The folder says where the request is; only the daemon can finish it, so without a
daemon a running request is not waited for.
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
# How long a file that has ended is asked how: the daemon writes its verdict just after it has moved the file.
_END_SECONDS = 2.0


def follow(workspace: Workspace, request: Shown, *, every: float = limits.LIVE_SECONDS) -> Iterator[Line]:
    """Yield its line now and every `every` seconds until it has ended; the last line is final.

    Raises InvalidInput if the file is gone, Unavailable if it is running and there is no daemon to finish it.
    """
    if request.path is None:
        raise InvalidInput(f"{request.request_id}: its file is gone from every folder; see: threegate audit show")
    name, draft = request.path.name, request.path.parent
    seen = time.monotonic()
    ended: float | None = None
    while True:
        alive = workspace.daemon_lock_held()  # checked first: a daemon that exits moves the file before
        line = _line(workspace, name, draft)
        if line is not None:
            seen = time.monotonic()
            if line.next == "ended" and line.reason is None:
                ended = seen if ended is None else ended
                if alive and seen - ended < _END_SECONDS:
                    time.sleep(every / 10)
                    continue
            yield line
            if line.next == "ended":
                return
            if line.entry.folder == "running" and not alive:
                raise Unavailable(f"{name}: the daemon that ran it is gone; to settle it: threegate run")
        elif time.monotonic() - seen >= _LOST_SECONDS:
            raise InvalidInput(f"{name}: gone from every folder; see: threegate audit show")
        time.sleep(every)


def _line(workspace: Workspace, name: str, draft: Path) -> Line | None:
    """Its line, or None while it is between two folders: the last folders first, since it never moves back."""
    for folder in (*map(workspace.state_folder, reversed(STATES)), draft):
        try:
            return line_of(workspace, RequestEntry.of(folder_name(workspace, folder), folder / name))
        except FileNotFoundError:
            continue
    return None
