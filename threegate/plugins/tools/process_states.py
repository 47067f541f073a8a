"""What the processes of stateful servers have done: written by the daemon that runs them, read when the next call is
signed.

Invariant: the file is derived, and nothing is allowed because of it. Its content becomes part of the Job, and the
daemon compares that with the process itself before the call; so a late, old or forged file can only cause a refusal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.plugins.tools.action import BoundCall, EarlierCall, ServerState
from threegate.request.action import Action
from threegate.runners.live_output import replace_unsynced
from threegate.trail.payloads.payload import Owner

FRESH = ServerState()
"""There is no process: the next call starts one."""
RUNNING = "running"
"""Instead of a status: the process is working on this call."""


def write_states(workspace: Workspace, rows: Iterable[tuple[Owner, str, ServerState]]) -> None:
    """All processes of this daemon: owner, manifest digest, state. A disk error does not stop a call."""
    listed = [{"owner": owner, "manifest_sha256": digest, **state.to_json()} for owner, digest, state in rows]
    text = json.dumps({"daemon": os.getpid(), "processes": listed}, ensure_ascii=False) if listed else ""
    replace_unsynced(workspace.servers_file, text)  # after a crash its processes are gone, so it is not needed


def read_state(workspace: Workspace, owner: Owner | None, manifest_sha256: str) -> ServerState:
    """What is known about the process for this owner's calls; FRESH if nothing is."""
    for row in _rows(workspace):
        if (row.get("owner"), row.get("manifest_sha256")) == (owner, manifest_sha256):
            with suppress(KeyError, TypeError, ValueError):
                return _state(row)
    return FRESH


def count_processes(workspace: Workspace, manifest_sha256: str) -> int:
    """How many processes of a server a daemon has now."""
    return sum(row.get("manifest_sha256") == manifest_sha256 for row in _rows(workspace))


def refuse_other_state(workspace: Workspace, owner: Owner | None, call: Action) -> None:
    """Before a signature: the state shown must be current, and no call running. Raises Refused (state_changed)."""
    if not isinstance(call, BoundCall) or not call.stateful:
        return
    now = read_state(workspace, owner, call.manifest_sha256)
    if now != call.host.state:
        raise Refused("state_changed", "its server was called, or its process ended, meanwhile; review it again")
    if any(call.status == RUNNING for call in now.calls):
        raise Refused("state_changed", "its server is working on another call; review it again when that has ended")


def _state(row: Mapping[str, Any]) -> ServerState:
    """Raises KeyError, TypeError, ValueError."""
    state = ServerState(row["process"], row["count"], tuple(EarlierCall(**call) for call in row["calls"]))
    texts = [getattr(call, name) for call in state.calls for name in EarlierCall.__slots__]
    if type(state.count) is not int or not all(type(text) is str for text in (state.process, *texts)):
        raise ValueError("not a state")
    return state


def _rows(workspace: Workspace) -> list[Mapping[str, Any]]:
    """The processes of the running daemon."""
    try:
        data = durable.read_regular(workspace.servers_file, max_bytes=limits.TOOLS_STATE_BYTES)
        value = canonical.loads_strict(data, max_bytes=limits.TOOLS_STATE_BYTES)
        # Recorded by a daemon that died: its processes died with it.
        holder = (workspace.tool_exec / ".daemon.lock").read_text("ascii").strip()
        if str(value["daemon"]) != holder or not workspace.daemon_lock_held():
            return []
        return [row for row in value["processes"] if isinstance(row, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []
