"""Whether the end of the trail was cut off, and not torn by a crash.

Invariant: an event is on disk before the state that it announces. So a state without its event is proof that
an event is missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.user_state import UserState
from threegate.core.workspace import STATES, Workspace
from threegate.trail.event import Event
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Placed

_TRAIL_SEQ = re.compile(rb"^trail_seq: ([1-9][0-9]{0,15})$", re.MULTILINE)


def evidence_of_truncation(workspace: Workspace, index: TrailIndex, events: Iterable[Event]) -> list[str]:
    """What proves that events after the last one of `index` were cut off, one phrase each. `events` are all
    that there are.
    """
    return [*_outside(index), *_states(workspace, events), *_results(workspace, index)]


def trail_seq_of(result: bytes) -> int | None:
    """The trail_seq that the bytes of a result name, or None when they name none."""
    match = _TRAIL_SEQ.search(result)
    return int(match[1]) if match else None


def _outside(index: TrailIndex) -> list[str]:
    try:
        kept = UserState.of(index.workspace_id).read_head()
    except Unavailable as error:
        return [str(error)]
    seq = (kept or {}).get("seq")
    return [f"the head kept outside (event {seq})"] if isinstance(seq, int) and seq > index.head.seq else []


def _names(folder: Path, suffix: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(suffix) and name[0] != ".")
    except OSError:
        return []


def _states(workspace: Workspace, events: Iterable[Event]) -> list[str]:
    """The files that no event led into the state folder where they are."""
    found = {(state, name): None for state in STATES for name in _names(workspace.state_folder(state), ".md")}
    for event in events if found else ():
        payload = event.payload
        if isinstance(payload, Placed):
            found.pop((payload.state or "", payload.file or ""), None)
    return [f"{state}/{name}" for state, name in found]


def _results(workspace: Workspace, index: TrailIndex) -> list[str]:
    found = []
    for name in _names(workspace.results, ".md"):
        with suppress(OSError):
            seq = trail_seq_of(durable.read_regular(workspace.results / name, max_bytes=limits.RESULT_BYTES))
            if seq is not None and seq > index.head.seq:
                found.append(f"results/{name}")
    return found
