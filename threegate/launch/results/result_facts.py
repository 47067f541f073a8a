"""The content of a result: one frozen value, and its record in the run's folder.

Invariant: a result is a function of its facts alone, and all facts but the time and the trail's number are in
``runs/<id>/record.json`` (with stdout and stderr next to it); those two come from the `finished` event. So
the same result bytes can be recreated after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput
from threegate.runners.interface import Artifact, Destination, Outcome, Status, Stream
from threegate.trail.history import result_name

if TYPE_CHECKING:
    from threegate.request.model import Request

RECORD_SCHEMA: Final = "threegate.record/1"
ResultStatus = Literal[Status, "refused"]
STATUSES: Final[tuple[str, ...]] = get_args(ResultStatus)
"""How a request can end: a runner's statuses, and `refused`."""
_PLAIN: Final = (
    *("request_id", "status", "backend", "reason", "detail", "exit_code", "runtime_ms", "network_used"),
    *("request_sha256", "approved_by", "approval_sha256", "policy_sha256"),
    *("image", "runtime", "effective_limits", "dropped", "notes"),
)
"""The facts that are in the record as they are."""
_NOTHING_TO_EXPECT: Final = ("unavailable", "interrupted", "cancelled")
"""Ends after which nobody expects what the request declares."""
_IF_ANY: Final = ("retry_after_sec", "kept", "countersigned_by", "outputs_missing", "network_not_reached")
"""Those that the record names only where there are any."""


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """Everything that a tool result reports to CORE. Texts are unmodified; rendering makes them safe."""

    request_id: str
    status: str
    created_utc: datetime
    trail_seq: int
    """Number of the event that announced the end."""
    backend: str = ""
    reason: str = ""
    """Reason code (and path) of a refusal; empty if there is none."""
    detail: str = ""
    """One clear sentence for the summary."""
    exit_code: int | None = None
    runtime_ms: int | None = None
    network_used: bool = False
    destinations: tuple[Destination, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    stdout: Stream | None = None
    """None: the request never ran."""
    stderr: Stream | None = None
    request_sha256: str | None = None
    approved_by: str | None = None
    countersigned_by: tuple[str, ...] = ()
    """The further operators whose signatures counted; the record names them only where there are any."""
    approval_sha256: str | None = None
    policy_sha256: str | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    """(name, sha256) of each input."""
    image: str = ""
    runtime: str = ""
    effective_limits: Mapping[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    retry_after_sec: int | None = None
    """A service answered 429 (`Outcome.retry_after_sec`); the record names it only then."""
    kept: tuple[Artifact, ...] = ()
    """Files in the run's folder that an act on the request needs (`Outcome.kept`); the record names them where there
    are any.
    """
    outputs_missing: tuple[str, ...] = ()
    """Declared outputs, below /out/, that were not there when the run had ended."""
    network_not_reached: tuple[str, ...] = ()
    """host:port that the request allows and that the run did not reach."""

    @property
    def file_name(self) -> str:
        """The result's file name, before a number is added; without its ending it is the result's id."""
        return result_name(self.created_utc, self.request_id)

    def with_outcome(self, outcome: Outcome, request: Request | None = None) -> ResultFacts:
        """These facts with everything that the run's outcome says, and what it lacks of what the request declares."""
        ran = request is not None and outcome.status not in _NOTHING_TO_EXPECT
        return replace(
            self,
            outputs_missing=_missing(request, outcome) if request is not None and ran else (),
            network_not_reached=_not_reached(request, outcome) if request is not None and ran else (),
            status=outcome.status,
            detail=outcome.detail,
            exit_code=outcome.exit_code,
            runtime_ms=outcome.wall_ms,
            network_used=any(item.reached for item in outcome.destinations),
            destinations=outcome.destinations,
            artifacts=outcome.artifacts,
            stdout=outcome.stdout,
            stderr=outcome.stderr,
            image=outcome.image,
            runtime=outcome.runtime,
            effective_limits=dict(outcome.effective_limits),
            dropped=outcome.dropped,
            notes=(*self.notes, *outcome.notes),
            retry_after_sec=outcome.retry_after_sec,
            kept=outcome.kept,
        )


def _missing(request: Request, outcome: Outcome) -> tuple[str, ...]:
    """A declared folder is there if a file in it is."""
    there = {item.path.removeprefix("/out/") for item in outcome.artifacts}
    folders = {str(parent) for path in there for parent in PurePosixPath(path).parents}
    declared = (item.path.removeprefix("/out/").rstrip("/") for item in request.outputs)
    return tuple(path for path in declared if path not in there and path not in folders)


def _not_reached(request: Request, outcome: Outcome) -> tuple[str, ...]:
    reached = {(item.host, item.port) for item in outcome.destinations if item.reached}
    return tuple(
        f"{item.host}:{item.port}" for item in request.network_allowlist if (item.host, item.port) not in reached
    )


def render_record(facts: ResultFacts) -> bytes:
    """record.json: the facts as canonical JSON, without `created_utc` and `trail_seq`."""
    value: dict[str, Any] = {"schema": RECORD_SCHEMA}
    for name in (*_PLAIN, "artifacts", "destinations", "stdout", "stderr"):
        value[name] = _recorded(getattr(facts, name))
    value["inputs"] = [{"name": name, "sha256": digest} for name, digest in facts.inputs]
    for name in _IF_ANY:
        if (found := getattr(facts, name)) not in (None, ()):
            value[name] = _recorded(found)
    return canonical.canonical_bytes(value) + b"\n"


def _recorded(value: Any) -> Any:
    match value:
        case Artifact():
            return {"path": value.path, "size": value.size, "sha256": value.sha256}
        case Destination():
            return {"host": value.host, "port": value.port, "bytes": value.bytes, "allowed": value.allowed}
        case Stream():
            kept = canonical.sha256_hex(value.kept)  # a file of its own in the run's folder
            return {"size": value.size, "sha256": value.sha256, "kept_sha256": kept}
        case tuple():
            return [_recorded(item) for item in value]
        case Mapping():
            return dict(value)
    return value


def write_record(run_folder: Path, facts: ResultFacts, staged: Sequence[Path] = ()) -> str:
    """Put stdout, stderr and record.json into the run's folder, durable; returns the record's sha256. Raises OSError.

    The outputs below ``out/`` are the runner's; they are synced here and nowhere before, so that what the record names
    is on disk, and with them the files `staged`.
    """
    out = run_folder / "out"
    folders: set[str] = set()
    for artifact in facts.artifacts:
        parts = artifact.path.split("/")[:-1]
        folders.update("/".join(parts[:depth]) for depth in range(len(parts) + 1))
    record = render_record(facts)
    streams = (("stdout", facts.stdout), ("stderr", facts.stderr))
    ours = [*((name, stream.kept) for name, stream in streams if stream is not None), ("record.json", record)]
    durable.write_files(run_folder, ours)
    durable.sync_together(
        # An empty file has nothing to sync but its name, which is its folder's.
        [*(out / item.path for item in facts.artifacts), *staged, *(run_folder / name for name, data in ours if data)],
        [*(out / folder for folder in sorted(folders, reverse=True)), *{path.parent for path in staged}, run_folder],
    )
    return canonical.sha256_hex(record)


def read_record(run_folder: Path, *, created_utc: datetime, trail_seq: int, sha256: str | None) -> ResultFacts:
    """The facts of a recorded run, restored, with the time and the number of its `finished` event.

    Raises InvalidInput if the record is missing, differs from what the event named (`sha256`), or disagrees
    with its streams: the request is then closed with an alarm.
    """
    path = run_folder / "record.json"
    try:
        data = durable.read_regular(path, max_bytes=limits.RECORD_BYTES)
        value = canonical.loads_strict(data, max_bytes=limits.RECORD_BYTES)
        if sha256 is not None and canonical.sha256_hex(data) != sha256:
            raise InvalidInput(f"{path}: is not the record that the trail names; it was changed")
        facts = _facts(value, created_utc, trail_seq, lambda name, told: _read_stream(told, run_folder / name))
        # The second lock beside the digest, for records that no event names yet: one spelling for each value.
        if render_record(facts) != data:
            raise InvalidInput(f"{path}: is not in its canonical form; it was changed")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except (canonical.StrictJSONError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{path}: is not the record of a run ({type(error).__name__})") from None
    return facts


def check_record(facts: ResultFacts) -> None:
    """Whether `read_record` will take what `write_record` would write; for facts that others chose. Raises
    InvalidInput.
    """
    try:
        data = render_record(facts)
        value = canonical.loads_strict(data, max_bytes=limits.RECORD_BYTES - limits.RECORD_REST_BYTES)
        again = _facts(value, facts.created_utc, facts.trail_seq, lambda name, _: getattr(facts, name))
        same = render_record(again) == data
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"the facts have no record ({type(error).__name__})") from None
    if not same:
        raise InvalidInput("the facts cannot be read back from their record")


def _facts(
    value: Any, created_utc: datetime, trail_seq: int, stream: Callable[[str, Any], Stream | None]
) -> ResultFacts:
    """The facts in a record's JSON. The caller renders them again and compares, which finds every other difference."""
    plain: dict[str, Any] = {name: tuple(found) if isinstance(found := value[name], list) else found for name in _PLAIN}
    seconds, countersigned = value.get("retry_after_sec"), _texts(value, "countersigned_by")
    if seconds is not None and (type(seconds) is not int or seconds < 0):
        raise TypeError("retry_after_sec is not a number of seconds")
    return ResultFacts(
        **plain,
        created_utc=created_utc,
        trail_seq=trail_seq,
        destinations=tuple(Destination(**item) for item in value["destinations"]),
        artifacts=tuple(Artifact(**item) for item in value["artifacts"]),
        stdout=stream("stdout", value["stdout"]),
        stderr=stream("stderr", value["stderr"]),
        inputs=tuple((item["name"], item["sha256"]) for item in value["inputs"]),
        retry_after_sec=seconds,
        kept=tuple(Artifact(**item) for item in value.get("kept", ())),
        countersigned_by=countersigned,
        outputs_missing=_texts(value, "outputs_missing"),
        network_not_reached=_texts(value, "network_not_reached"),
    )


def _texts(value: Any, key: str) -> tuple[str, ...]:
    found = value.get(key, ())
    if not all(isinstance(text, str) for text in found):
        raise TypeError("a name is not a string")
    return tuple(found)


def _read_stream(value: Any, path: Path) -> Stream | None:
    if value is None:
        return None
    try:
        kept = durable.read_regular(path, max_bytes=limits.STREAM_KEPT_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None
    if canonical.sha256_hex(kept) != value["kept_sha256"]:
        raise InvalidInput(f"{path}: is not what the record names; it was changed")
    return Stream(kept, value["size"], value["sha256"])
