"""The open drill: a draft that must not be approved (docs/drills.md).

Invariant: there is at most one. It is stored in tool-exec/drills/, which only the operator can read, and is
listed under the folder of the request that it was made from; a draft read from there is marked as a drill
(`Draft.drill`), whoever lists it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.file_names import is_agent_run_id, is_request_name
from threegate.core.workspace import Workspace
from threegate.trail import Owner
from threegate.trail.plugin_kinds.drills_kinds import drill_commitment

PLAN: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Drill:
    """What is known of a drill before it has ended. All texts are as the trail writes them."""

    name: str
    """Its file's name."""
    folder: str
    """Where it is listed: ``inbox``, or the id of an agent's run."""
    owner: Owner
    """The apparent requester: the requester of its source."""
    request_id: str
    request_sha256: str
    source: str
    """Id of the request that it was made from."""
    planted: str
    """The kind of the planted change."""
    line: str
    """The planted change."""
    salt: str

    @property
    def commitment(self) -> str:
        """What the trail says about it while it is open."""
        return drill_commitment(
            salt=self.salt,
            drill_id=self.request_id,
            request_sha256=self.request_sha256,
            source=self.source,
            planted=self.planted,
            line=self.line,
        )

    def file(self, workspace: Workspace) -> Path:
        """Where its bytes are."""
        return workspace.drills / self.name

    def listed(self, workspace: Workspace) -> Path:
        """The path under which it is listed; there is no file at this path."""
        run = is_agent_run_id(self.folder)
        return (workspace.agent_run(self.folder).inbox if run else workspace.inbox) / self.name

    def to_bytes(self) -> bytes:
        """The plan file."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def read_drill(workspace: Workspace) -> Drill | None:
    """The open drill; None if there is none, or if the stored files are not a drill."""
    try:
        data = durable.read_regular(workspace.drills / PLAN, max_bytes=limits.DRILL_PLAN_BYTES)
        drill = Drill(**json.loads(data))
    except (OSError, ValueError, TypeError):
        return None
    ok = is_request_name(drill.name) and (drill.folder == "inbox" or is_agent_run_id(drill.folder))
    return drill if ok and drill.file(workspace).is_file() else None


def drill_at(workspace: Workspace, path: Path) -> Drill | None:
    """The drill that is listed under this path, which has no file; None for every other path."""
    drill = read_drill(workspace)
    if drill is None or drill.name != path.name or os.path.lexists(path):
        return None
    return drill if os.path.realpath(path) == os.path.realpath(drill.listed(workspace)) else None


def place_of(workspace: Workspace, path: Path) -> Path:
    """Where the bytes of a listed file are: at its path or, for a drill, in tool-exec/drills/."""
    drill = drill_at(workspace, path)
    return path if drill is None else drill.file(workspace)
