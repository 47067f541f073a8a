"""A request after it was read: one frozen value, made only by the reader.

Invariant: a `Request` exists only for a file in which no rule found an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal

from threegate.request.action import Action
from threegate.request.action import Risk as Risk
from threegate.request.exposure import NETWORK_REACHED, Exposure

Network = Literal["none", "allowlist"]
Stage = Literal["draft", "approved"]
Sensitivity = Literal["public", "internal", "confidential"]
Delivery = Literal["tree", "branch", "commits"]
CHOICES: Final[tuple[Delivery, ...]] = ("tree", "branch", "commits")
"""What an approved change set becomes: new files, one commit on a new branch, or there each of the agent's commits."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file by name and hash, as the front matter declares it."""

    name: str
    sha256: str
    unpack: bool = False


@dataclass(frozen=True, slots=True)
class OutputFile:
    """An expected output; `path` always starts with /out/."""

    path: str
    description: str = ""


@dataclass(frozen=True, slots=True, order=True)
class NetworkTarget:
    """One host (lower-case ASCII) and port that a request may reach."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool request that passed gate 1."""

    file_name: str
    data: bytes
    sha256: str
    stage: Stage
    request_id: str
    created_utc: datetime
    requested_by: str
    approved_by: str | None = None
    approved_utc: datetime | None = None
    purpose: str
    backend: str
    language: str = ""
    """Empty in version 2, as are the limits for cores and memory: nothing of the request's runs there."""
    network: Network
    cpu_limit: Decimal = Decimal(0)
    memory_limit_mb: int = 0
    time_limit_sec: int
    inputs: tuple[InputFile, ...] = ()
    workdir: str = "/in"
    outputs: tuple[OutputFile, ...] = ()
    network_allowlist: tuple[NetworkTarget, ...] = ()
    constraints: tuple[str, ...] = ()
    session_id: str | None = None
    tool: str | None = None
    """The tool whose contract applies; for an mcp request the one that it calls, as ``server.tool``."""
    labels: tuple[str, ...] = ()
    workflow: str | None = None
    role: str | None = None
    risk_domain: str | None = None
    evidence: tuple[Any, ...] = ()
    action: Action
    """What it asks for."""
    risk_level: Risk
    justification: str
    data_sensitivity: Sensitivity
    network_rationale: str
    unusual_program: bool = False
    """The program is outside `request.programs` or is under /in: the effective risk is high."""
    deliver: Delivery | None = None
    """What the person who approves chose for a change of a project; None for what the project's setting says."""

    def drafted_again(self, file_name: str, request_id: str, created_utc: datetime) -> Request:
        """The same request as an unapproved draft with another name and time."""
        return replace(
            self,
            file_name=file_name,
            stage="draft",
            request_id=request_id,
            created_utc=created_utc,
            approved_by=None,
            approved_utc=None,
            deliver=None,
        )

    @property
    def signature_needed(self) -> bool:
        """Whether only a signature lets it run, whatever the settings say: what runs no code of its own stays done."""
        return not self.action.runs_code


def exposure_of(request: Request) -> Exposure:
    """Both facts of a request, before the bytes of its inputs are known."""
    reach = tuple(f"{NETWORK_REACHED}{item.host}:{item.port}" for item in sorted(request.network_allowlist))
    return request.action.exposure(request.workdir, request.inputs).reaching(reach)
