"""The front matter of a tool result as a model; `schemas/tool-result.schema.json` is generated from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from threegate.core.record import DIALECT, Record
from threegate.launch.results.result_facts import ResultStatus

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Moment = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", description="ISO-8601, UTC"),
]


class ResultArtifact(Record):
    """A collected output file."""

    path: str = Field(min_length=1, description="path below /out/")
    sha256: Sha256
    size: int = Field(ge=0, description="bytes")


class ResultDestination(Record):
    """A network destination that was reached or refused."""

    host: str
    port: int = Field(ge=0, le=65535)
    bytes: int = Field(ge=0)
    allowed: bool


class ResultInput(Record):
    """A pinned input."""

    name: str = Field(min_length=1)
    sha256: Sha256


class ToolResult(Record):
    """The front matter of a tool result. The keys up to `stderr_sha256` are the format of the seed."""

    result_type: Literal["tool_result"]
    schema_version: Literal["1"]
    result_id: str = Field(pattern=r"^TS-[0-9]{8}-[0-9]{6}Z-[A-Za-z0-9][A-Za-z0-9._-]{2,127}$")
    created_utc: Moment
    request_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{2,127}$")
    executor: Literal["tool-exec"]
    backend: str | None = Field(description="null when the request could not be read")
    status: ResultStatus
    exit_code: int | None
    runtime_sec: float = Field(ge=0)
    network_used: bool
    network_destinations: list[ResultDestination]
    artifacts: list[ResultArtifact]
    stdout_sha256: Sha256 | None = Field(description="of all that was produced; null when nothing ran")
    stderr_sha256: Sha256 | None
    reason: str | None = Field(default=None, description="reason code of a refusal")
    request_sha256: Sha256 | None = None
    approved_by: str | None = None
    countersigned_by: list[str] = Field(default=[], description="further operators whose signatures counted")
    outputs_missing: list[str] = Field(default=[], description="declared outputs that were not there at the end")
    network_not_reached: list[str] = Field(default=[], description="host:port that was allowed and not reached")
    approval_sha256: Sha256 | None = None
    policy_sha256: Sha256 | None = None
    inputs: list[ResultInput] = []
    image: str | None = None
    runtime: str | None = None
    effective_limits: dict[str, str] = {}
    trail_seq: int | None = Field(default=None, ge=1, description="event of the trail that announced the end")


def schema() -> dict[str, Any]:
    """The JSON Schema of the front matter."""
    value = ToolResult.model_json_schema()
    return {
        "$schema": DIALECT,
        "$id": "https://threegate.dev/schemas/tool-result.schema.json",
        **value,
        "title": "ThreeGate tool result, front matter",
    }
