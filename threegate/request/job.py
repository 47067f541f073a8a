"""The Job: the canonical meaning of a request, and its digest (docs/spec/2-approval.md).

Invariant: two requests that would run differently have different digests; a Job is self-contained, so a
runner needs nothing but it and the pinned inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Final

from threegate.core import canonical, limits
from threegate.request.action import Action
from threegate.request.backend import BACKENDS
from threegate.request.exposure import Exposure
from threegate.request.model import Request, Risk, Sensitivity, exposure_of

BUBBLEWRAP: Final = "bubblewrap"
"""`runtime` of a Job that runs without an engine."""
WATCHED: Final = "watched, not enforced by the kernel"
"""The words about memory without a cgroup, in results, `doctor` and on the card."""
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
    """What of the machine decides what a run means: image digests, OCI runtime, seccomp profile's sha256.

    Without an engine `runtime` is ``bubblewrap`` and `image` the identity of its root file system,
    ``root:sha256:`` and 64 hex digits.
    """

    image: str = ""
    egress_image: str = ""
    runtime: str = ""
    seccomp_sha256: str = ""

    @property
    def engine(self) -> bool:
        """Whether a container engine runs it."""
        return self.runtime != BUBBLEWRAP

    def difference(self, now: Sequence[Platform]) -> str:
        """What changed, as one line, where a Job names this platform and could name one of `now` today."""
        same = [other for other in now if other.runtime == self.runtime]
        if not same:
            return f"these settings no longer allow a run by {self.way}"
        if self.image != same[0].image:
            return "the ERA image changed" if self.engine else "the packages of this machine, or its root, changed"
        return (
            "the egress image changed" if self.egress_image != same[0].egress_image else "the seccomp profile changed"
        )

    def to_json(self) -> dict[str, str] | None:
        """In the form of an event; None if nothing of the machine matters."""
        return asdict(self) if self != Platform() else None

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Platform:
        """Read it again; what is missing is empty."""
        return cls(*(value.get(item.name, "") for item in fields(cls)))

    @property
    def way(self) -> str:
        """By what it runs, in words."""
        return (self.runtime or "the container engine") if self.engine else BUBBLEWRAP


@dataclass(frozen=True, slots=True)
class Platforms:
    """The platforms that the settings and this machine allow, the preferred first."""

    now: tuple[Platform, ...]
    unknown: str = ""
    """Why another one is not known at the moment, as one line; empty: there is no other."""


@dataclass(frozen=True)
class Job:
    """What will run, whole."""

    backend: str
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
    # The strictest: a Job that is made without them is never taken for a harmless one.
    effective_risk: Risk = "high"
    data_sensitivity: Sensitivity = "confidential"
    proposal_sha256: str | None = None
    unread: tuple[str, ...] = ()
    """Names of inputs that may hold code and that the full screen does not show whole (shown_whole.py)."""

    def meaning(self) -> dict[str, Any]:
        """The canonical meaning as a JSON value: code and variables by their sha256, everything else as it is."""
        return {
            "backend": self.backend,
            **self.action.meaning(),
            "workdir": self.workdir,
            "inputs": [asdict(item) for item in self.inputs],
            "outputs": list(self.outputs),
            "limits": asdict(self.limits),
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
            # Only where there are any: docs/spec/2-approval.md.
            **({"unread": list(self.unread)} if self.unread else {}),
        }

    @property
    def platform(self) -> Platform:
        """On what it runs; one without an engine's network names no egress image."""
        return Platform(self.image, self.egress_image, self.runtime, self.seccomp_sha256)

    @cached_property
    def digest(self) -> str:
        """job_sha256 of the approval statement."""
        return canonical.digest(self.meaning())


def effective_risk(request: Request, exposure: Exposure) -> Risk:
    """max(declared, computed): docs/spec/2-approval.md, "Effective risk". `exposure` is that of the same request."""
    computed = (risk for risk, _ in risk_reasons(request, exposure))
    return max(request.risk_level, *computed, "low", key=RISKS.index)


def risk_reasons(request: Request, exposure: Exposure) -> list[tuple[Risk, str]]:
    """What raises a request's risk above low, whatever it declares: the level, and why, in our words."""
    reasons: tuple[tuple[Risk, bool, str], ...] = (
        ("high", bool(exposure.opaque and exposure.reach), "code that is not on the screen can reach out"),
        ("high", request.unusual_program, "nobody here vouches for the program"),
        *request.action.risks(),
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
) -> Job:
    """The Job of a request. `input_sizes` maps sha256 to bytes for every declared input (KeyError otherwise).

    `unread` is what `unread_inputs` found in the bytes of the inputs. What else is known of this machine is in the
    request's action, bound to it.

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
            # 1, 1.0 and 1.00 mean the same, so they must have the same digest.
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
        effective_risk="high" if write_class else effective_risk(request, exposure),
        data_sensitivity=request.data_sensitivity,
        proposal_sha256=proposal_sha256,
        unread=tuple(unread),
    )
