"""A request after it was read: one frozen value, made only by the reader.

Invariant: a `Request` exists only for a file in which no rule found an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal

from threegate.core import canonical, limits
from threegate.request.backend_rules import BACKENDS
from threegate.request.backend_rules import Backend as Backend

Network = Literal["none", "allowlist"]
Stage = Literal["draft", "approved"]
Risk = Literal["low", "medium", "high"]
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


@dataclass(frozen=True, slots=True)
class Changes:
    """An apply request's claims about its change set: the digest of the table, how many of each kind, some of
    the paths.
    """

    sha256: str
    add: int
    modify: int
    delete: int
    mode: int
    type: int
    rows: tuple[tuple[str, str], ...] = ()
    """(kind, path)"""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What an mcp request asks for: one tool of one server as it was pinned, and the arguments as canonical JSON."""

    server: str
    tool: str
    """Its name at the server."""
    manifest_sha256: str
    """The digest of the manifest under which the caller saw the tool."""
    arguments_json: str
    """One object, in the form of RFC 8785."""

    @property
    def name(self) -> str:
        """The tool as contracts name it."""
        return f"{self.server}.{self.tool}"

    def arguments(self) -> dict[str, Any]:
        """The arguments as the server gets them."""
        value: dict[str, Any] = canonical.loads_strict(
            self.arguments_json.encode(), max_bytes=limits.TOOL_ARGUMENTS_BYTES
        )
        return value


@dataclass(frozen=True, slots=True)
class Request:
    """A tool request that passed gate 1."""

    file_name: str
    data: bytes
    sha256: str
    stage: Stage
    request_id: str
    created_utc: datetime
    requested_by: str
    approved_by: str | None
    approved_utc: datetime | None
    purpose: str
    backend: Backend
    language: str
    """Empty in version 2, as are the limits for cores and memory: nothing of the request's runs there."""
    network: Network
    cpu_limit: Decimal
    memory_limit_mb: int
    time_limit_sec: int
    inputs: tuple[InputFile, ...]
    workdir: str
    outputs: tuple[OutputFile, ...]
    network_allowlist: tuple[NetworkTarget, ...]
    constraints: tuple[str, ...]
    session_id: str | None
    tool: str | None
    """The tool whose contract applies; for an mcp request the one that it calls, as ``server.tool``."""
    labels: tuple[str, ...]
    workflow: str | None
    role: str | None
    risk_domain: str | None
    evidence: tuple[Any, ...]
    argv: tuple[str, ...] | None
    """ERA: the words of the command. None for monty."""
    code: str | None
    """monty: the text of the code block, ending with a newline. None for ERA."""
    vars_json: str | None
    """monty: the text of the Inputs (JSON) block as it is in the file, or None."""
    risk_level: Risk
    justification: str
    data_sensitivity: Sensitivity
    network_rationale: str
    unusual_program: bool = False
    """The program is outside `request.programs` or is under /in: the effective risk is high."""
    project: str | None = None
    """apply: the registered name of the project that is changed."""
    changes: Changes | None = None
    """apply: its claims about the change set."""
    call: ToolCall | None = None
    """mcp: which tool is called, with what."""
    deliver: Delivery | None = None
    """apply: what the person who approves chose; None for what the project's setting says."""

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
        """Whether only a signature lets it run, whatever the settings say: what a request of version 2 does stays."""
        return BACKENDS[self.backend].version == "2"
