"""The notes between a daemon and its workers: what each may hold, and how much of it.

Invariant: `read_note` returns only what the expected key signed and what has the parts of its type within their bounds,
so nothing behind it meets a text, a list or a number of a size that the other side chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import ConfigDict, Field, ValidationError

from threegate.approval.operators import Operators
from threegate.core import limits
from threegate.core.canonical import INTEGER_MAX, canonical_bytes, sha256_hex
from threegate.core.errors import Refused
from threegate.core.record import Record
from threegate.core.settings import Settings
from threegate.core.version import __version__
from threegate.plugins.cluster.seal import NONCE, WORKER, unseal
from threegate.trail.workspace_key import VerifierKey

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Sha256OrNone = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
_Nonce = Annotated[str, Field(pattern=rf"^{NONCE.pattern}$")]
_Whole = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
_Text = Annotated[str, Field(max_length=limits.CLUSTER_TEXT_CHARS)]
_Name = Annotated[str, Field(max_length=limits.CLUSTER_NAME_CHARS)]
_Running = Annotated[tuple[_Nonce, Annotated[str, Field(max_length=limits.REQUEST_ID_CHARS)]], Field(strict=False)]


_RESULT: Final = b'"type":"result"'
_TAIL_BYTES: Final = 256
"""Type, worker's name, newline and signature fit."""


class _Part(Record):
    """Open: a note of a later version may say more."""

    model_config = ConfigDict(extra="ignore")


class _Note(_Part):
    worker: str = Field(pattern=rf"^{WORKER.pattern}$")
    boot: str = Field(pattern=r"^[0-9a-f]{1,32}$")
    seq: _Whole


class _Run(_Note):
    nonce: _Nonce


class Status(_Part):
    """What a worker offers and runs."""

    machine: str = Field(pattern=rf"^[A-Za-z0-9._-]{{0,{limits.CLUSTER_NAME_CHARS}}}$")
    boot: str = Field(pattern=r"^[0-9a-f]{1,32}$")
    cores: str = Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,6})?$")
    memory_mb: int = Field(ge=0, le=limits.CLUSTER_MEMORY_MB)
    rows: dict[_Name, Annotated[int, Field(ge=0, le=limits.CLUSTER_ROWS)]] = Field(max_length=limits.CLUSTER_IMAGES)
    """How many runs at once, by the backend's name in lower case."""
    images: tuple[Annotated[str, Field(max_length=100)], ...] = Field(strict=False, max_length=limits.CLUSTER_IMAGES)
    healthy: bool
    reason: _Text
    running: tuple[_Running, ...] = Field(strict=False, max_length=limits.CLUSTER_RUNS)
    version: str = Field(default="", pattern=rf"^[0-9A-Za-z.+-]{{0,{limits.CLUSTER_NAME_CHARS}}}$")
    """Of ThreeGate. This and what follows is empty or 0 in a note of a version that did not send it."""
    request_sha256: _Sha256OrNone = ""
    aana_sha256: _Sha256OrNone = ""
    operators_sha256: _Sha256OrNone = ""
    """`operators_digest` of its own files."""
    certificate_end: _Whole = 0
    """When its certificate ends, in whole seconds since 1970."""
    takes_operators: bool = False
    """Whether it takes operators files that an operator signed."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a worker judges a request by, besides the request and its operators: the same as on the daemon, or each
    request that it gets would be refused there, or mean another job.
    """

    version: str
    request_sha256: str
    aana_sha256: str

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Of this process: the sections in the form that the policy digest has of them."""
        deciding = settings.deciding()
        sections = (sha256_hex(canonical_bytes(deciding[name])) for name in ("request", "aana"))
        return cls(__version__, *sections)

    def why_not(self, status: Status) -> str:
        """One line if the worker of this status judges by other rules; empty if by these."""
        if status.version != self.version:
            return (
                f"it has ThreeGate {status.version or 'of an older version'}, the daemon {self.version}; "
                "install the same version on both"
            )
        other = [
            name for name in ("request", "aana") if getattr(status, f"{name}_sha256") != getattr(self, f"{name}_sha256")
        ]
        if not other:
            return ""
        named = " and ".join(f"[{name}]" for name in other)
        return (
            f"{named} of its settings is not the daemon's; copy {named} of the daemon's threegate.toml "
            "into the file of its --settings, and restart it"
        )


def operators_digest(operators: Operators) -> str:
    """One digest over the operators file and its companions as they were read."""
    return sha256_hex(canonical_bytes(list(operators.digests)))


class _StatusNote(_Note, Status):
    time: _Whole
    """Whole seconds since 1970 by the worker's clock."""


class _Beat(_Part):
    """The daemon's sign of life, the same for all workers."""

    boot: str = Field(pattern=r"^[0-9a-f]{1,32}$")
    seq: _Whole


class _MayStart(_Run):
    """A question for the start token, and the answer to it."""

    envelope_sha256: _Sha256
    ask: _Nonce
    """Made for this one question; the answer repeats it, so no answer counts for another one."""


class _Chunk(_Run):
    sha256: _Sha256
    offset: _Whole


class _Operators(_Note):
    """Operators files that an operator signed for workers, in base64 (`operators_act.py`)."""

    signed: str
    operators: str
    revoked: str | None
    passkeys: str | None


class _Refused(_Run):
    code: _Name
    message: _Text


class _Result(_Run):
    envelope_sha256: _Sha256
    outcome: dict[str, Any]
    inline: dict[_Sha256, str] = Field(max_length=limits.OUT_FILES)


FROM_WORKER: Final[Mapping[str, type[Record]]] = {
    "status": _StatusNote,
    "may-start": _MayStart,
    "want": _Chunk,
    "refused": _Refused,
    "result": _Result,
}
TO_WORKER: Final[Mapping[str, type[Record]]] = {
    "beat": _Beat,
    "go": _MayStart,
    "no": _Run,
    "cancel": _Run,
    "done": _Run,
    "want": _Chunk,
    "operators": _Operators,
}


def read_note(data: bytes, key: VerifierKey, types: Mapping[str, type[Record]], worker: str) -> dict[str, Any]:
    """The value of a note of one of `types` (FROM_WORKER or TO_WORKER) from or for `worker`. Raises Refused."""
    too_long = Refused("envelope_invalid", "the note is longer than one of its type")
    if len(data) > limits.CLUSTER_NOTE_BYTES and (
        _RESULT not in data[-_TAIL_BYTES:] or sum(map(data.count, (b",", b"[", b"{"))) > limits.CLUSTER_NOTE_PARTS
    ):
        raise too_long  # before it costs more: a canonical note has its type at its end
    value = unseal(data, key, types)
    if len(data) > limits.CLUSTER_NOTE_BYTES and value["type"] != "result":
        raise too_long
    try:
        types[value["type"]].model_validate(value)
    except ValidationError:
        raise Refused("envelope_invalid", "the note has missing or invalid parts") from None
    if value["type"] != "beat" and value["worker"] != worker:
        raise Refused("envelope_misdirected", "the note is of or for another worker")
    return value
