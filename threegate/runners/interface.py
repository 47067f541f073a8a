"""What a runner is: it takes a Clearance and a Job and returns an Outcome. It knows no gate.

Nothing here assumes that the run is local. Every limit is mandatory; one that could not be enforced is
reported in `Outcome.effective_limits`. Of what a run writes to stdout and stderr the beginning is kept, all of it is
counted and hashed, and memory stays below STREAM_KEPT_BYTES per stream.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from threegate.core import limits
from threegate.runners.live_output import LastOutput
from threegate.runners.minder import since_boot

if TYPE_CHECKING:  # code that only reads results imports no gate
    from threegate.core.workspace import Workspace
    from threegate.judgement.judge import Clearance
    from threegate.request.job import Job, JobLimits, Platform
    from threegate.trail.payloads.payload import Owner

Status = Literal[
    "succeeded",
    "exited",
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
    "login_required",
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
    """It answered 429 to a request that the proxy could read (plain http; inside TLS the status is not visible)."""

    @property
    def reached(self) -> bool:
        """Whether anything passed: an allowed name may lead nowhere, or to a host that does not answer."""
        return self.allowed and self.bytes > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `detail` is one sentence; `effective_limits` was read back, not copied from the request."""

    status: Status
    detail: str
    stdout: Stream
    stderr: Stream
    exit_code: int | None = None
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
    """Files that the runner left in the run's folder itself, by name, for a later act on the finished request."""
    retry_after_sec: int | None = None
    """A service answered 429, as far as the proxy could see: the seconds to wait (limited by the tool's contract)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence by which a launch was judged, for a runner that must show it to a machine that judges again."""

    file_name: str
    request: bytes
    signature: bytes | None
    countersignatures: Mapping[str, bytes]
    epoch: int
    owner: Owner | None
    requester: str | None
    """On whose behalf the agent's run acts; None if no agent's run made the request."""
    policy_sha256: str
    write_class: bool
    time_cap_sec: int | None
    platform: Platform


Ended = tuple[Status, str]
"""How a run ended: its status and one sentence."""


def command_ended(code: int) -> Ended:
    """How a command counts that ended by itself. The codes above COMMAND_ANSWERS are those of the shell and of our
    keeper: it could not be started, or a signal ended it.
    """
    status: Status = "succeeded" if code == 0 else "exited" if 0 < code <= limits.COMMAND_ANSWERS else "failed"
    return status, f"The command finished with exit code {code}."


def timed_out(bounds: JobLimits) -> Ended:
    """The end of a run that reached its time limit."""
    return "timed_out", f"timed_out: the time limit of {bounds.time_sec} s was reached."


def out_of_memory(bounds: JobLimits) -> Ended:
    """The end of a run that reached its memory limit."""
    return "out_of_memory", f"out_of_memory: the memory limit of {bounds.memory_mb} MiB was reached."


def process_limit(bounds: JobLimits) -> Ended:
    """The end of a run that reached its limit of processes."""
    return "process_limit", f"process_limit: the limit of {bounds.processes} processes was reached."


def without_exited(status: str) -> str:
    """A status for those who only ask whether a run succeeded (contracts, comparisons with older records): a command
    that exited with another code than 0 did not.
    """
    return "failed" if status == "exited" else status


def unheard(seconds: float) -> str:
    """How a run ended whose lease of so many seconds ended."""
    return f"The run ended by itself: no beat of the process that watches it for {seconds:g} s."


def _not_recorded(where: Mapping[str, Any]) -> None:
    raise RuntimeError("this start is not recorded")


@dataclass(slots=True)
class Control:
    """How the daemon controls the run, and where the run puts its files.

    `run_folder` is new; the runner fills its `out/` with the collected artifacts. `inputs_folder` has the
    pinned bytes by sha256. `cancelled` may be set at any time; the runner then stops the run within a second.
    """

    run_folder: Path
    inputs_folder: Path
    workspace_id: str
    boot_nonce: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    interrupted: threading.Event = field(default_factory=threading.Event)
    evidence: Evidence | None = None
    # It raises unless the daemon sets it: a runner that starts late must not start what nobody records.
    started: Callable[[Mapping[str, Any]], None] = _not_recorded
    """For a runner that `starts_late`: claims the request and records `started` in the trail, synced, before it
    returns. Raises Refused if the request may not start any more (it was cancelled or changed), TrailError.
    """
    outdated: Callable[[], bool] = lambda: False
    """Whether nothing may start now, or the policy is not the one that it was judged by; asked before a late start."""
    ran: Callable[[], None] = lambda: None
    """Called, perhaps more than once, when no process of the run is left: its resources are free."""
    recorded: Callable[[], None] = lambda: None
    """Called once the end is in the trail: what the runner kept to revert the run may be removed."""
    workspace: Workspace | None = None
    """For a runner that uses pinned data of the workspace besides inputs; set in a daemon."""
    owner: Owner | None = None
    """The requester: an account or a run of an agent; None if unknown."""
    run_ended: Callable[[], bool] = lambda: False
    """Whether the requesting agent's run has ended; False for an account. Raises ThreeGateError, OSError."""
    output: LastOutput = field(default_factory=LastOutput)
    """The end of the run's output, for people who watch; a runner that sees no stream leaves it empty."""
    lasting: Callable[[], None] | None = None
    """Set once the request is claimed: reports to CORE and the operator that it is running. For runs that last."""
    because: str = "the daemon stopped"
    """Why it is interrupted, if it is."""
    lease_sec: float | None = None
    """A run ends by itself once its runner has sent no beat for so long, also if this process only stands still.
    None: no lease, because nobody else could report the run as lost.
    """
    leased: float = 0.0
    """When the lease began (`since_boot`): no run begins later than `lease_sec` after it."""

    def begin_lease(self, seconds: float) -> None:
        """From now on the run needs beats."""
        self.lease_sec, self.leased = seconds, since_boot()

    def interrupt(self, why: str) -> None:
        """Set `interrupted`, for the first reason that there is."""
        if not self.interrupted.is_set():
            self.because = why
            self.interrupted.set()

    def stopped(self) -> Ended | None:
        """The end that the operator or the daemon gave the run, if one did."""
        if self.cancelled.is_set():
            return "cancelled", "Cancelled by the operator while it ran."
        return ("interrupted", f"Interrupted because {self.because}.") if self.interrupted.is_set() else None

    def lease_over(self) -> str | None:
        """One sentence if it is too late to begin."""
        if self.lease_sec is None or since_boot() - self.leased < self.lease_sec:
            return None
        return f"It was not started: its lease of {self.lease_sec:g} s ended before that."


class Runner(Protocol):
    """Runs a cleared job once."""

    starts_late: bool
    """True: the runner calls `Control.started` just before a run becomes possible, which claims the request, and gets
    the launch's `Evidence`; a request that it does not start waits on. False: it is claimed before `run`.
    """

    def available(self, job: Job | None = None) -> str | None:
        """None if a run (of this job) can start now, else one line about what is missing (the request waits)."""

    def run(self, clearance: Clearance, job: Job, control: Control) -> Outcome:
        """Run the job and collect its outputs. Never raises because of the job."""

    def close(self) -> None:
        """Release everything that was started ahead."""


class StreamMeter:
    """Counts and hashes one stream and keeps its first STREAM_KEPT_BYTES."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self.tail = b""
        """The last LIVE_TAIL_BYTES."""
        self.size = 0
        """Bytes written so far."""

    def write(self, data: bytes) -> None:
        """Process the next bytes of the stream."""
        room = limits.STREAM_KEPT_BYTES - len(self._kept)
        if room > 0:
            self._kept += data[:room]
        self._hash.update(data)
        self.tail = (self.tail + data[-limits.LIVE_TAIL_BYTES :])[-limits.LIVE_TAIL_BYTES :]
        self.size += len(data)

    def result(self) -> Stream:
        """The stream in the form used in an Outcome."""
        return Stream(bytes(self._kept), self.size, self._hash.hexdigest())


EMPTY = StreamMeter().result()
"""A stream to which nothing was written."""


def nothing_ran(reason: str) -> Outcome:
    """The outcome of a run of which not one instruction ran."""
    return Outcome("unavailable", reason, EMPTY, EMPTY)


def nothing_known(detail: str) -> Outcome:
    """The outcome of a run whose progress is unknown: `interrupted`, never run again."""
    return Outcome("interrupted", detail, EMPTY, EMPTY)
