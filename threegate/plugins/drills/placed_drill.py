"""The open drill: a draft that must not be approved (docs/drills.md).

Invariant: there is at most one. It is stored in tool-exec/drills/, which only the operator can read, and is
listed under the folder of the request that it was made from; a draft read from there is marked as a drill
(`Draft.placed`), whoever lists it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.errors import Refused
from threegate.core.file_names import is_agent_run_id, is_request_name
from threegate.core.workspace import Workspace
from threegate.plugins.drills.kinds import DrillEnded, drill_commitment
from threegate.review.draft_sources import Answer, DraftSource
from threegate.trail import moves
from threegate.trail.payloads.payload import Owner
from threegate.trail.trail import LockedTrail

if TYPE_CHECKING:
    from threegate.approval.shown.time_read import Reading
    from threegate.launch.context import Context

Outcome = Literal["caught", "missed", "expired", "withdrawn", "lost"]
PLAN: Final = "plan.json"
OF_PROJECT: Final = "project "
"""What `Drill.source` begins with where it is a change set; no id of a request does."""


def drills_folder(workspace: Workspace) -> Path:
    """The open drill, 0700; created with the first one."""
    return workspace.tool_exec / "drills"


@dataclass(frozen=True, slots=True)
class Drill:
    """What is known of a drill before it has ended. All texts are as the trail writes them."""

    kind: ClassVar[str] = "drill"
    name: str
    """Its file's name."""
    folder: str
    """Where it is listed: ``inbox``, or the id of an agent's run."""
    owner: Owner
    """The apparent requester: the requester of its source."""
    request_id: str
    request_sha256: str
    source: str
    """Id of the request that it was made from, or ``project NAME`` for a change set that was made of one."""
    planted: str
    """The kind of the planted change."""
    line: str
    """The planted change; of a change set the path comes first."""
    salt: str

    @property
    def revealed(self) -> dict[str, str]:
        """What the trail says about it once it has ended."""
        names = ("salt", "request_sha256", "source", "planted", "line")
        return {"drill_id": self.request_id, **{name: getattr(self, name) for name in names}}

    @property
    def commitment(self) -> str:
        """What the trail says about it while it is open."""
        return drill_commitment(**self.revealed)

    @property
    def path(self) -> str:
        """The path with the planted line, where it is a change set."""
        return self.line.partition(": ")[0] if self.source.startswith(OF_PROJECT) else ""

    def inputs(self, workspace: Workspace) -> Path:
        """Where its inputs are: those of a change set beside it, any other's are the pinned ones of its source."""
        return drills_folder(workspace) if self.path else workspace.inputs

    def file(self, workspace: Workspace) -> Path:
        """Where its bytes are."""
        return drills_folder(workspace) / self.name

    def listed(self, workspace: Workspace) -> Path:
        """The path under which it is listed; there is no file at this path."""
        run = is_agent_run_id(self.folder)
        return (workspace.agent_run(self.folder).inbox if run else workspace.inbox) / self.name

    def to_bytes(self) -> bytes:
        """The plan file."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    def answer(
        self,
        context: Context,
        data: bytes,
        *,
        yes: bool,
        actor: str,
        paths: Collection[str] | None = None,
        reading: Reading | None = None,
        reason: str = "",
    ) -> Answer:
        """End it, because an operator decided on it; they then learn what it was. No key is needed.

        Raises Refused (drill_over) if it had already ended, TrailError, OSError.
        """
        # Whoever leaves the planted file out caught it, and whoever finds fault with another file did not.
        meant = not self.path or paths is None or any(_is_within(self.path, path) for path in paths)
        outcome: Outcome = "missed" if yes == meant else "caught"
        with context.trail.locked() as held:
            as_placed = self.commitment == held.index.drills.open and sha256_hex(data) == self.request_sha256
            if not as_placed:
                raise Refused("drill_over", f"{self.name}: was a drill, and it is over: threegate audit stats")
            end_drill(context.workspace, held, self, outcome, actor, reading, reason)
        return Answer(
            title="THIS WAS A DRILL",
            says=f"this was a drill: you {outcome} it; nothing was signed and nothing runs",
            label=f"planted ({self.planted})",
            line=self.line,
            told={"drill": outcome, "planted": self.planted, "line": self.line, "of": self.source},
        )


def _is_within(path: str, asked: str) -> bool:
    """Whether a path is the one that was asked for, or in that folder."""
    asked = asked.removeprefix("./").rstrip("/")
    return path == asked or path.startswith(f"{asked}/")


def read_drill(workspace: Workspace) -> Drill | None:
    """The open drill; None if there is none, or if the stored files are not a drill."""
    try:
        data = durable.read_regular(drills_folder(workspace) / PLAN, max_bytes=limits.DRILL_PLAN_BYTES)
        drill = Drill(**json.loads(data))
        ok = is_request_name(drill.name) and (drill.folder == "inbox" or is_agent_run_id(drill.folder))
    except (OSError, ValueError, TypeError):
        return None
    return drill if ok and drill.file(workspace).is_file() else None


def _placed(workspace: Workspace) -> tuple[Drill, ...]:
    drill = read_drill(workspace)
    return () if drill is None else (drill,)


SOURCE: Final = DraftSource(_placed)


def end_drill(
    workspace: Workspace,
    held: LockedTrail,
    drill: Drill,
    outcome: Outcome,
    actor: str,
    reading: Reading | None = None,
    reason: str = "",
) -> None:
    """Record how it ended and what it was, and remove its files. Raises TrailError, OSError."""
    ended = DrillEnded(
        commitment=drill.commitment,
        outcome=outcome,
        **drill.revealed,
        reason=reason or None,
        read_seconds=reading.seconds if reading else None,
        read_whole=reading.whole if reading else None,
    )
    moves.announce(held, ended, actor=actor)
    remove_files(workspace)


def remove_files(workspace: Workspace) -> None:
    """Remove the files of a drill that has ended, the plan first: without it, nothing is listed. Raises OSError."""
    folder = drills_folder(workspace)
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder), key=lambda name: name != PLAN):
            durable.unlink(folder / name)
