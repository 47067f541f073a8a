"""What a runner is: it takes a Clearance and a Job and gives an Outcome. It knows no gate.

Nothing here assumes that the run is local. Every limit is mandatory; what could not be enforced says so in
`Outcome.effective_limits`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from threegate.runners.live_output import LastOutput

if TYPE_CHECKING:  # who only reads results loads no gate
    from threegate.core.workspace import Workspace
    from threegate.judgement.judge import Clearance
    from threegate.request.job import Job, Platform
    from threegate.trail import Owner

Status = Literal[
    "succeeded",
    "failed",
    "timed_out",
    "out_of_memory",
    "process_limit",
    "output_exceeded",
    "cancelled",
    "unavailable",
    "interrupted",
    "project_changed",
    "tool_error",
    "tools_changed",
    "state_changed",
    "input_required",
]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A collected output: path below /out/, size in bytes, sha256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Stream:
    """stdout or stderr: what was kept (at most STREAM_KEPT_BYTES), full size and sha256 of all that was produced."""

    kept: bytes
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Destination:
    """A network destination that was reached or refused."""

    host: str
    port: int
    bytes: int
    allowed: bool
    busy: bool = False
    """It answered 429 to a request that the proxy could read (plain http; inside TLS nobody sees the status)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `detail` is one clear sentence; `effective_limits` was read back, not asked for."""

    status: Status
    detail: str
    stdout: Stream
    stderr: Stream
    exit_code: int | None = None
    started: datetime | None = None
    finished: datetime | None = None
    wall_ms: int = 0
    cpu_ms: int | None = None
    peak_memory_bytes: int | None = None
    effective_limits: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    dropped: tuple[str, ...] = ()
    """What was in /out and not collected, with the reason, one line each."""
    destinations: tuple[Destination, ...] = ()
    image: str = ""
    runtime: str = ""
    notes: tuple[str, ...] = ()
    kept: tuple[Artifact, ...] = ()
    """Files that the runner left in the run's folder itself, for an act on the finished request; the path is the name."""
    retry_after_sec: int | None = None
    """A service answered 429, as far as the proxy could see: the seconds to wait (capped by the tool's contract)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a launch was judged by, for a runner that has to show it to another machine, which judges again."""

    file_name: str
    request: bytes
    signature: bytes | None
    countersignatures: Mapping[str, bytes]
    epoch: int
    owner: Owner | None
    requester: str | None
    """Whom the run that asks stands for; None where no agent's run asks."""
    policy_sha256: str
    write_class: bool
    time_cap_sec: int | None
    platform: Platform


def _not_recorded(where: Mapping[str, Any]) -> None:
    raise RuntimeError("nobody records this start")


@dataclass(slots=True)
class Control:
    """What the daemon can do to a run, and where the run puts its files.

    `run_folder` is fresh; the runner fills `out/` in it with the collected artifacts. `inputs_folder` holds the
    pinned bytes by sha256. `cancelled` may be set at any time; the runner then ends the run within a second.
    """

    run_folder: Path
    inputs_folder: Path
    workspace_id: str
    boot_nonce: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    interrupted: threading.Event = field(default_factory=threading.Event)
    evidence: Evidence | None = None
    started: Callable[[Mapping[str, Any]], None] = _not_recorded
    """For a runner that `starts_late`: records `started` in the trail, synced, before it returns. May raise TrailError."""
    ran: Callable[[], None] = lambda: None
    """Called, perhaps more than once, when no process of the run is left, before it is recorded: its share of the machine
    is free."""
    recorded: Callable[[], None] = lambda: None
    """Called once the end is in the trail: what the runner kept to take the run back may go."""
    workspace: Workspace | None = None
    """For a runner that works with what is pinned in the workspace besides inputs; there in a daemon."""
    owner: Owner | None = None
    """Who asks: an account or a run of an agent; None where nobody knows."""
    run_ended: Callable[[], bool] = lambda: False
    """Whether the agent's run that asks has ended, as the trail says now; False for an account. Raises ThreeGateError, OSError."""
    output: LastOutput = field(default_factory=LastOutput)
    """The end of what the run wrote, for people who watch; a runner that sees no stream leaves it empty."""
    lasting: Callable[[], None] | None = None
    """There once the request is claimed: says to CORE and the operator that it runs. For a run that is longer than a moment."""


class Runner(Protocol):
    """Runs a cleared job once."""

    starts_late: bool
    """True: the runner calls `Control.started` itself, at the moment from which a run is possible, and is handed the
    `Evidence` of the launch. False: `started` is recorded with the claim, before `run`."""

    def available(self, job: Job | None = None) -> str | None:
        """None when a run (of this job) can start now, else one line that says what is missing (the request waits)."""

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the job and collect its outputs. Never raises for what the job does."""

    def close(self) -> None:
        """Give back everything that was started ahead."""


def nothing_known(detail: str) -> Outcome:
    """The outcome of a run of which nobody knows how far it came: `interrupted`, never run again."""
    empty = Stream(b"", 0, hashlib.sha256(b"").hexdigest())
    return Outcome("interrupted", detail, empty, empty)
