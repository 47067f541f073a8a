"""The Job: the canonical meaning of a request, and its digest (docs/spec/2-approval.md).

Invariant: two requests that would run differently have different digests; a Job is self-contained, so a
runner needs nothing but it and the pinned inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from threegate.core import canonical, limits
from threegate.request.action import Action
from threegate.request.backend_rules import BACKENDS
from threegate.request.exposure import Exposure, exposure_of
from threegate.request.model import Backend, Request, Risk, Sensitivity

if TYPE_CHECKING:
    from threegate.core.settings import Settings

PROXY_URL = "http://127.0.0.1:3128"

ERA_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "3",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "core.hooksPath",
    "GIT_CONFIG_VALUE_2": "/dev/null",
}
"""The whole environment of a run; with an allowlist the proxy variables are added."""

Deliver = Literal["tree", "branch"]
DELIVERIES: Final[tuple[Deliver, ...]] = ("tree", "branch")
"""What an approved change set of a project becomes: new files, or a commit on a new branch."""

RISKS: tuple[Risk, ...] = ("low", "medium", "high")
"""From the least on."""


@dataclass(frozen=True, slots=True)
class JobInput:
    """A pinned input: where it appears is /in/<name>, or /in/<stem>/ when unpacked."""

    name: str
    sha256: str
    size: int
    unpack: bool


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The limits that hold for a run. `cpu` is a decimal number of cores as text, the others are whole numbers."""

    cpu: str
    memory_mb: int
    time_sec: int
    processes: int = limits.RUN_PROCESSES
    open_files: int = limits.RUN_OPEN_FILES
    out_bytes: int = limits.OUT_BYTES
    out_files: int = limits.OUT_FILES
    file_bytes: int = limits.OUT_FILE_BYTES
    stream_bytes: int = limits.STREAM_END_BYTES


@dataclass(frozen=True, slots=True)
class Platform:
    """What of the machine decides what a run means: image digests, OCI runtime, seccomp profile's sha256."""

    image: str = ""
    egress_image: str = ""
    runtime: str = ""
    seccomp_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A project as it is bound: its registered name, real path, device, inode, and the owner's uid."""

    name: str
    path: str
    device: int
    inode: int
    uid: int
    deliver: Deliver = "tree"
    """What an approved change set becomes: new files in the project, or a commit on a branch of its repository."""

    def to_json(self) -> dict[str, Any]:
        """As the Job, the journal and the trail have it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class JobBranch:
    """What a change set becomes, one commit or several, where the project's changes are delivered as a branch."""

    name: str
    """The new branch, without `refs/heads/`; a number follows where a branch of this name exists."""
    base: str
    """The commit that it is made on: HEAD of the project."""
    tree: str
    """Id of its tree, and so of every byte in it."""
    author: str
    message: str
    notes: tuple[str, ...] = ()
    """What of the change set is not in the commit."""
    commits: tuple[tuple[str, str], ...] = ()
    """Tree and message of each commit, oldest first, where the agent's are delivered one by one: `tree` is the last
    one's, and `message` is empty.
    """

    def to_json(self) -> dict[str, Any]:
        """As the Job has it."""
        texts = {name: getattr(self, name) for name in ("name", "base", "tree", "author", "message")}
        commits = {"commits": [list(item) for item in self.commits]} if self.commits else {}
        return {**texts, "notes": list(self.notes), **commits}


@dataclass(frozen=True, slots=True)
class JobChange:
    """What an apply request does to which project, as computed from the bytes of its change set."""

    project: ProjectPlace
    sha256: str
    """The change set's digest: the sha256 of its table."""
    paths: int
    deletions: int
    run_later: int
    """Paths of files that something runs later by itself (changes/run_later.py)."""
    unseen: int
    """Paths whose new bytes are no text, so that the screen has their size and digest only."""
    hidden: int = 0
    """Paths whose new text has characters that cannot be seen, or names another encoding (request/shown_whole.py)."""
    branch: JobBranch | None = None
    """None where it is delivered as files."""


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call that the process of a stateful server was sent before."""

    request_id: str
    tool: str
    """Its name at the server."""
    arguments: str
    """In canonical form, shortened."""
    status: str
    """How the request ended; ``running`` while it does."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the process of a stateful server has done for the requester. All empty: there is none, and the
    call starts a new one.
    """

    process: str = ""
    """A random name that no other process has."""
    count: int = 0
    """Calls since it started."""
    calls: tuple[EarlierCall, ...] = ()
    """The newest of them, at most TOOLS_EARLIER_CALLS, in their order."""

    def to_json(self) -> dict[str, Any]:
        """As the Job and the daemon's list of processes have it."""
        calls = [{name: getattr(call, name) for name in EarlierCall.__slots__} for call in self.calls]
        return {"process": self.process, "count": self.count, "calls": calls}


@dataclass(frozen=True, slots=True)
class JobServer:
    """Where an mcp request's server runs and what it can reach there, as its manifest says; in words for a screen."""

    place: str
    """``jail``, ``era`` or ``host``."""
    argv: tuple[str, ...]
    hosts: tuple[str, ...]
    binds: tuple[str, ...]
    """Folders of the machine, each as ``/path (read-only)`` or ``/path (may be written)``."""
    secrets: tuple[str, ...]
    """Names of the secrets that it is given."""
    account: str = ""
    """The account that it runs as; empty: the daemon's own."""
    state: ServerState | None = None
    """What earlier calls may have left in its process; None for a server that has a fresh process for each call."""
    image: str = ""
    """The image of a server in a container, by its digest."""


@dataclass(frozen=True, slots=True)
class Job:
    """What will run, whole."""

    backend: Backend
    action: Action
    workdir: str
    inputs: tuple[JobInput, ...]
    outputs: tuple[str, ...]
    limits: JobLimits
    network: tuple[str, ...]
    """``host:port`` pairs, sorted; empty means no network."""
    environment: Mapping[str, str] = field(hash=False)
    image: str = ""
    egress_image: str = ""
    runtime: str = ""
    seccomp_sha256: str = ""
    tool: str | None = None
    session_id: str | None = None
    labels: tuple[str, ...] = ()
    workflow: str | None = None
    role: str | None = None
    requested_by: str = ""
    effective_risk: Risk = "high"
    data_sensitivity: Sensitivity = "confidential"
    proposal_sha256: str | None = None
    unread: tuple[str, ...] = ()
    """Names of inputs that may hold code and that the full screen does not show whole (shown_whole.py)."""
    change: JobChange | None = None
    """What the bytes of a change set and its project are."""
    server: JobServer | None = None
    """What makes a call."""

    def meaning(self) -> dict[str, Any]:
        """The canonical meaning as a JSON value: code and variables by their sha256, everything else as it is."""
        return {
            "backend": self.backend,
            **self.action.meaning(),
            "workdir": self.workdir,
            "inputs": [
                {"name": item.name, "sha256": item.sha256, "size": item.size, "unpack": item.unpack}
                for item in self.inputs
            ],
            "outputs": list(self.outputs),
            "limits": {
                "cpu": self.limits.cpu,
                "memory_mb": self.limits.memory_mb,
                "time_sec": self.limits.time_sec,
                "processes": self.limits.processes,
                "open_files": self.limits.open_files,
                "out_bytes": self.limits.out_bytes,
                "out_files": self.limits.out_files,
                "file_bytes": self.limits.file_bytes,
                "stream_bytes": self.limits.stream_bytes,
            },
            "network": list(self.network),
            "environment": dict(self.environment),
            "image": self.image,
            "egress_image": self.egress_image,
            "runtime": self.runtime,
            "seccomp_sha256": self.seccomp_sha256,
            "tool": self.tool,
            "session_id": self.session_id,
            "labels": list(self.labels),
            "workflow": self.workflow,
            "role": self.role,
            "requested_by": self.requested_by,
            "effective_risk": self.effective_risk,
            "data_sensitivity": self.data_sensitivity,
            "proposal_sha256": self.proposal_sha256,
            # Only where there are any: a job of an earlier version, all of whose inputs are shown, keeps its digest.
            **({"unread": list(self.unread)} if self.unread else {}),
            **({} if self.change is None else {"change": _change_meaning(self.change)}),
            **({} if self.server is None else {"server": _server_meaning(self.server)}),
        }

    @property
    def digest(self) -> str:
        """job_sha256 of the approval statement."""
        return canonical.digest(self.meaning())


def _change_meaning(change: JobChange) -> dict[str, Any]:
    counts = {name: getattr(change, name) for name in ("sha256", "paths", "deletions", "run_later", "unseen", "hidden")}
    branch = {} if change.branch is None else {"branch": change.branch.to_json()}
    return {"project": change.project.to_json(), **counts, **branch}


def _server_meaning(server: JobServer) -> dict[str, Any]:
    lists = {name: list(getattr(server, name)) for name in ("argv", "hosts", "binds", "secrets")}
    state = {} if server.state is None else {"state": server.state.to_json()}
    image = {"image": server.image} if server.image else {}
    return {"place": server.place, "account": server.account, **lists, **state, **image}


def effective_risk(request: Request, exposure: Exposure, change: JobChange | None = None) -> Risk:
    """max(declared, computed): docs/spec/2-approval.md, "Effective risk". `exposure` is that of the same request."""
    computed = (risk for risk, _ in risk_reasons(request, exposure, change))
    return max(request.risk_level, *computed, "low", key=RISKS.index)


def risk_reasons(request: Request, exposure: Exposure, change: JobChange | None = None) -> list[tuple[Risk, str]]:
    """Everything that raises a request's risk above low, whatever it declares: the level, and the reasons in
    our words.

    Before the bytes of a change set were read (`change` is None), the request's own claims count.
    """
    reasons: tuple[tuple[Risk, bool, str], ...] = (
        ("high", bool(exposure.opaque and exposure.reach), "code that is not on the screen can reach out"),
        ("high", request.unusual_program, "nobody here vouches for the program"),
        *request.action.risks(change),
        ("medium", exposure.opaque, "not all code is on the screen"),
        ("medium", request.network != "none", "it reaches the network"),
        ("medium", request.data_sensitivity != "public", f"its data is {request.data_sensitivity}"),
    )
    return [(risk, why) for risk, holds, why in reasons if holds]


def build_job(
    request: Request,
    *,
    input_sizes: Mapping[str, int],
    platform: Platform,
    write_class: bool = False,
    time_cap_sec: int | None = None,
    proposal_sha256: str | None = None,
    unread: Sequence[str] = (),
    change: JobChange | None = None,
    server: JobServer | None = None,
) -> Job:
    """The Job of a request. `input_sizes` maps sha256 to bytes for every declared input (KeyError otherwise).

    `unread` is what `unread_inputs` found in the bytes of the inputs, `change` what was computed from those of a change
    set, `server` what the manifest says that a call names.

    `write_class` says that the tool's contract has a side effect above read (effective risk high);
    `time_cap_sec` is a contract's `timeouts.total_ms`, rounded up to seconds.
    """
    container = BACKENDS[request.backend].container
    sizes = {item.name: input_sizes[item.sha256] for item in request.inputs}
    exposure = exposure_of(request).with_unread(unread)
    environment = dict(ERA_ENVIRONMENT) if container else {}
    if request.network == "allowlist":
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            environment[name] = PROXY_URL
    time_sec = request.time_limit_sec if time_cap_sec is None else min(request.time_limit_sec, time_cap_sec)
    return Job(
        backend=request.backend,
        action=request.action,
        workdir=request.workdir,
        inputs=tuple(JobInput(item.name, item.sha256, sizes[item.name], item.unpack) for item in request.inputs),
        outputs=tuple(item.path for item in request.outputs),
        limits=JobLimits(
            cpu=format(request.cpu_limit.normalize(), "f"),
            memory_mb=request.memory_limit_mb,
            time_sec=time_sec,
        ),
        network=tuple(f"{item.host}:{item.port}" for item in sorted(request.network_allowlist)),
        environment=environment,
        image=platform.image if container else "",
        egress_image=platform.egress_image if request.network == "allowlist" else "",
        runtime=platform.runtime if container else "",
        seccomp_sha256=platform.seccomp_sha256 if container else "",
        tool=request.tool,
        session_id=request.session_id,
        labels=request.labels,
        workflow=request.workflow,
        role=request.role,
        requested_by=request.requested_by,
        effective_risk="high" if write_class else effective_risk(request, exposure, change),
        data_sensitivity=request.data_sensitivity,
        proposal_sha256=proposal_sha256,
        unread=tuple(unread),
        change=change,
        server=server,
    )


def platform_of(settings: Settings, seccomp_sha256: str) -> Platform:
    """The platform that the settings name."""
    era = settings.runners.era
    return Platform(era.image, era.egress_image, era.runtime, seccomp_sha256)
