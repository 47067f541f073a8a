"""An Outcome as a worker sends it and as the daemon reads it back: bounded, typed, names checked.

Invariant: what `read_outcome` returns could have come from a runner of this machine: valid statuses, streams
within their limits, artifacts below /out/ and within the job's limits, every text and number in range. Its
record passes the record's own reader, so no worker can leave behind what `audit verify` cannot read. The
output of `write_outcome` is within the same limits.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX
from threegate.core.errors import InvalidInput
from threegate.core.record import Record
from threegate.launch.results.result_facts import ResultFacts, check_record
from threegate.plugins.cluster.seal import Base64
from threegate.request.job import JobLimits
from threegate.runners.interface import Artifact, Outcome, Status
from threegate.runners.staging import odd_name

_Whole = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
_Text = Annotated[str, Field(max_length=limits.OUTCOME_TEXT_CHARS)]
_Limit = Annotated[str, Field(max_length=limits.OUTCOME_LIMIT_CHARS)]
_Name = Annotated[str, Field(max_length=limits.TRAIL_STRING_CHARS)]
_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Stream(Record):
    kept: Base64 = Field(max_length=limits.STREAM_KEPT_BYTES)
    size: _Whole
    sha256: _Sha256


class _Artifact(Record):
    path: str = Field(min_length=1, max_length=4096)
    size: _Whole
    sha256: _Sha256


class _Destination(Record):
    host: str = Field(max_length=255)
    port: int = Field(ge=0, le=65535)
    bytes: _Whole
    allowed: bool
    busy: bool


class _Outcome(Record):
    """The fields of an Outcome, but for `kept`, which stays with the runner."""

    status: Status
    detail: _Text
    exit_code: int | None = Field(ge=-(2**31), lt=2**31)
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


_OUTCOME: Final = TypeAdapter(Outcome)


def write_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a JSON value; what is longer than the daemon takes is cut."""
    value = _OUTCOME.dump_python(outcome, exclude={"kept"})
    texts = limits.OUTCOME_TEXT_CHARS
    value["detail"] = outcome.detail[:texts]
    value["effective_limits"] = {
        name: text[: limits.OUTCOME_LIMIT_CHARS] for name, text in outcome.effective_limits.items()
    }
    value["dropped"] = [line[:texts] for line in outcome.dropped[: limits.OUTCOME_LINES]]
    value["notes"] = [line[:texts] for line in outcome.notes[: limits.OUTCOME_NOTES]]
    value["artifacts"] = list(value["artifacts"])
    value["destinations"] = list(value["destinations"][: limits.OUTCOME_LINES])
    return _Outcome.model_validate(value).model_dump(mode="json")


def read_outcome(value: object, bounds: JobLimits) -> Outcome:
    """Parse the outcome. Raises InvalidInput for anything that a runner of ThreeGate could not have returned."""
    try:
        told = _Outcome.model_validate(value)
        if any(len(stream.kept) > stream.size for stream in (told.stdout, told.stderr)):
            raise ValueError("a stream that keeps more than it had")
        outcome = _OUTCOME.validate_python(told.model_dump())
    except (ValueError, OverflowError):
        raise InvalidInput("the worker's result is not one that a runner returns") from None
    _check_artifacts(outcome.artifacts, bounds)
    try:
        check_record(ResultFacts("-", outcome.status, datetime.now(UTC), 0).with_outcome(outcome))
    except InvalidInput:
        raise InvalidInput("the worker's result cannot be recorded") from None
    return outcome


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
