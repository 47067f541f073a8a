"""An Outcome as a worker sends it and as the daemon reads it back: bounded, typed, names checked.

Invariant: what `read_outcome` returns could have come from a runner of this machine: valid statuses, streams
within their limits, artifacts below /out/ and within the job's limits, every text and number in range. Its
record passes the record's own reader, so no worker can leave behind what `audit verify` cannot read. The
output of `write_outcome` is within the same limits.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.errors import InvalidInput
from threegate.core.record import Record
from threegate.launch.results.result_facts import ResultFacts, check_record
from threegate.request.job import JobLimits
from threegate.runners.interface import Artifact, Destination, Outcome, Status, Stream
from threegate.runners.staging import odd_name

_SHA256 = r"^[0-9a-f]{64}$"


_Whole = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
_Text = Annotated[str, Field(max_length=limits.OUTCOME_TEXT_CHARS)]
_Limit = Annotated[str, Field(max_length=limits.OUTCOME_LIMIT_CHARS)]
_Name = Annotated[str, Field(max_length=limits.TRAIL_STRING_CHARS)]
_Moment = Annotated[str, Field(max_length=40)]


class _Stream(Record):
    kept: str
    size: _Whole
    sha256: str = Field(pattern=_SHA256)


class _Artifact(Record):
    path: str = Field(min_length=1, max_length=4096)
    size: _Whole
    sha256: str = Field(pattern=_SHA256)


class _Destination(Record):
    host: str = Field(max_length=255)
    port: int = Field(ge=0, le=65535)
    bytes: _Whole
    allowed: bool
    busy: bool


class _Outcome(Record):
    status: Status
    detail: _Text
    exit_code: int | None = Field(ge=-(2**31), lt=2**31)
    started: _Moment | None
    finished: _Moment | None
    wall_ms: _Whole
    cpu_ms: _Whole | None
    peak_memory_bytes: _Whole | None
    effective_limits: dict[_Name, _Limit] = Field(max_length=64)
    stdout: _Stream
    stderr: _Stream
    artifacts: list[_Artifact] = Field(max_length=limits.OUT_FILES)
    dropped: list[_Text] = Field(max_length=limits.OUTCOME_LINES)
    destinations: list[_Destination] = Field(max_length=limits.OUTCOME_LINES)
    image: _Name
    runtime: _Name
    notes: list[_Text] = Field(max_length=limits.OUTCOME_NOTES)
    retry_after_sec: int | None = Field(ge=0, le=limits.RETRY_UNKNOWN_SECONDS)


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a JSON value."""
    return {
        "status": outcome.status,
        "detail": outcome.detail[: limits.OUTCOME_TEXT_CHARS],
        "exit_code": outcome.exit_code,
        "started": outcome.started.isoformat() if outcome.started else None,
        "finished": outcome.finished.isoformat() if outcome.finished else None,
        "wall_ms": outcome.wall_ms,
        "cpu_ms": outcome.cpu_ms,
        "peak_memory_bytes": outcome.peak_memory_bytes,
        "effective_limits": {
            name: value[: limits.OUTCOME_LIMIT_CHARS] for name, value in outcome.effective_limits.items()
        },
        "stdout": _stream(outcome.stdout),
        "stderr": _stream(outcome.stderr),
        "artifacts": [{"path": item.path, "size": item.size, "sha256": item.sha256} for item in outcome.artifacts],
        "dropped": [line[: limits.OUTCOME_TEXT_CHARS] for line in outcome.dropped[: limits.OUTCOME_LINES]],
        "destinations": [
            {
                "host": item.host,
                "port": item.port,
                "bytes": item.bytes,
                "allowed": item.allowed,
                "busy": item.busy,
            }
            for item in outcome.destinations[: limits.OUTCOME_LINES]
        ],
        "image": outcome.image,
        "runtime": outcome.runtime,
        "notes": [line[: limits.OUTCOME_TEXT_CHARS] for line in outcome.notes[: limits.OUTCOME_NOTES]],
        "retry_after_sec": outcome.retry_after_sec,
    }


def read_outcome(value: object, bounds: JobLimits) -> Outcome:
    """Parse the outcome. Raises InvalidInput for anything that a runner of ThreeGate could not have returned."""
    try:
        told = _Outcome.model_validate(value)
        started, finished = _moment(told.started), _moment(told.finished)
        stdout, stderr = _read_stream(told.stdout), _read_stream(told.stderr)
    except (ValueError, OverflowError):
        raise InvalidInput("the worker's result is not one that a runner returns") from None
    artifacts = tuple(Artifact(item.path, item.size, item.sha256) for item in told.artifacts)
    _check_artifacts(artifacts, bounds)
    outcome = Outcome(
        status=told.status,
        detail=told.detail,
        exit_code=told.exit_code,
        started=started,
        finished=finished,
        wall_ms=told.wall_ms,
        cpu_ms=told.cpu_ms,
        peak_memory_bytes=told.peak_memory_bytes,
        effective_limits=dict(told.effective_limits),
        stdout=stdout,
        stderr=stderr,
        artifacts=artifacts,
        dropped=tuple(told.dropped),
        destinations=tuple(
            Destination(item.host, item.port, item.bytes, item.allowed, item.busy) for item in told.destinations
        ),
        image=told.image,
        runtime=told.runtime,
        notes=tuple(told.notes),
        retry_after_sec=told.retry_after_sec,
    )
    _check_record(outcome)
    return outcome


def _check_record(outcome: Outcome) -> None:
    """Write the outcome as a record, and read it back. Raises InvalidInput."""
    nobody = ResultFacts("-", outcome.status, datetime.now(UTC), 0)
    try:
        check_record(nobody.with_outcome(outcome))
    except InvalidInput:
        raise InvalidInput("the worker's result cannot be recorded") from None


def _check_artifacts(artifacts: tuple[Artifact, ...], bounds: JobLimits) -> None:
    paths = {item.path for item in artifacts}
    folders = {str(parent) for item in artifacts for parent in PurePosixPath(item.path).parents}
    if len(paths) != len(artifacts) or paths & folders or len(artifacts) > bounds.out_files:
        raise InvalidInput("the worker's result names an output twice, or too many of them")
    if sum(item.size for item in artifacts) > bounds.out_bytes or any(
        item.size > bounds.file_bytes for item in artifacts
    ):
        raise InvalidInput("the worker's result names more output than the job may have")
    for item in artifacts:
        parts = item.path.split("/")
        if len(parts) > limits.OUTCOME_DEPTH + 1 or any(
            part in ("", ".", "..") or odd_name(part) is not None for part in parts
        ):
            raise InvalidInput("the worker's result names an output that is not below /out/")


def _stream(stream: Stream) -> dict[str, Any]:
    return {
        "kept": base64.b64encode(stream.kept).decode(),
        "size": stream.size,
        "sha256": stream.sha256,
    }


def _read_stream(value: _Stream) -> Stream:
    try:
        kept = base64.b64decode(value.kept, validate=True)
    except binascii.Error:
        raise ValueError("no base64") from None
    if len(kept) > limits.STREAM_KEPT_BYTES or len(kept) > value.size:
        raise ValueError("more than a stream keeps")
    return Stream(kept, value.size, value.sha256)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    return moment.astimezone(UTC)
