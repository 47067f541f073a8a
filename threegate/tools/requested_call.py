"""The call of an mcp request in its workspace: held against the manifest of its server, as that is pinned.

Invariant: a call of a server, a tool or a manifest that is not pinned here exactly so has no Job; everything that is wrong
is a refusal with a code (`tools_unknown`).
"""

from __future__ import annotations

from dataclasses import dataclass

from threegate.core.errors import Refused
from threegate.core.workspace import Workspace
from threegate.request.job import JobServer
from threegate.request.model import ToolCall
from threegate.trail import TrailIndex


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """What an mcp request calls: what the Job binds of its server."""

    server: JobServer


def requested_call(workspace: Workspace, index: TrailIndex, call: ToolCall) -> RequestedCall:
    """What is pinned of a call's server and tool; `index` is of the locked trail. Raises Refused."""
    raise Refused("tools_unknown", f"{call.server}: no server of this name was added to the workspace")
