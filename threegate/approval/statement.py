"""What is signed: the approval statement, alone or in a batch, the countersignature, and the envelope of every other
signed act; and the ``.sig`` file of an approval.

Invariant: a statement's bytes equal the RFC 8785 rendering of their own parse, so a statement has one
spelling and one digest; each kind names its own `type`, so a signature for one is never valid for another.

A member of a batch is a complete statement, with its own nonce and digest, found by its request's id, which occurs in
the batch once. The batch is signed as a whole, so no statement in it is valid alone, and none can be added, removed,
changed or moved. A batch alone allows nothing to run: a launch also requires the member's own `approved` event
(approval/launch.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

from threegate.approval.operators import NAME
from threegate.approval.ssh_wire import MalformedError, SshSignature, parse_armor
from threegate.core import canonical, limits
from threegate.request.job import RISKS
from threegate.request.model import Risk

APPROVAL_TYPE: Final = "threegate-approval/2"
COUNTERSIGN_TYPE: Final = "threegate-countersign/1"
SEVERAL_TYPE: Final = "threegate-countersign/2"
"""A countersignature that covers a list of approvals."""
ACT_TYPES: Final = frozenset(
    f"threegate-{name}/1"
    for name in (
        "grant",
        "grant-revoke",
        "apply",
        "undo",
        "replay",
        "checkpoint-answer",
        "kill",
        "adopt",
        "reject",
        "request-changes",
        "take-part",
        "cancel",
        "drill",
        "agent-hosts",
        "tools-add",
        "tools-refresh",
        "operators",
        "passkey",
    )
)
"""Types of the acts that are signed in the namespace threegate-act."""

_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_NONCE: Final = re.compile(r"[0-9a-f]{32}")
_WORKSPACE: Final = re.compile(r"ws-[0-9a-f]{32}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,127}")
_INPUT_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


@dataclass(frozen=True, slots=True)
class StatementInput:
    """An input by name and digest."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Statement:
    """An approval: this request, meaning this job, shown as this text, in this workspace, under this policy,
    from one time to another, once.
    """

    workspace_id: str
    epoch: int
    request_id: str
    request_sha256: str
    job_sha256: str
    inputs: tuple[StatementInput, ...]
    approved_by: str
    approved_utc: datetime
    expires_utc: datetime
    policy_sha256: str
    nonce: str
    shown_sha256: str

    def to_json(self) -> dict[str, Any]:
        """The statement as a JSON object."""
        return {
            "type": APPROVAL_TYPE,
            "shown_sha256": self.shown_sha256,
            "workspace": {"id": self.workspace_id, "epoch": self.epoch},
            "request_id": self.request_id,
            "request_sha256": self.request_sha256,
            "job_sha256": self.job_sha256,
            "inputs": [{"name": item.name, "sha256": item.sha256} for item in self.inputs],
            "approved_by": self.approved_by,
            "approved_utc": format_utc(self.approved_utc),
            "expires_utc": format_utc(self.expires_utc),
            "policy_sha256": self.policy_sha256,
            "nonce": self.nonce,
        }

    def to_bytes(self) -> bytes:
        """The canonical bytes that are signed; approval_sha256 is their digest."""
        return canonical.canonical_bytes(self.to_json())

    @classmethod
    def parse(cls, data: bytes) -> Statement:
        """Read a statement's bytes. Raises MalformedError unless they are exactly what `to_bytes` returns."""
        value = _object(data, APPROVAL_TYPE)
        workspace_id, epoch = _workspace(value)
        items = value.get("inputs")
        if not isinstance(items, list):
            raise MalformedError("has no list of inputs")
        parsed = cls(
            workspace_id=workspace_id,
            epoch=epoch,
            request_id=_text(value, "request_id", _REQUEST_ID),
            request_sha256=_text(value, "request_sha256", _HEX64),
            job_sha256=_text(value, "job_sha256", _HEX64),
            inputs=tuple(_input(item) for item in items),
            approved_by=_text(value, "approved_by", NAME),
            approved_utc=_time(value, "approved_utc"),
            expires_utc=_time(value, "expires_utc"),
            policy_sha256=_text(value, "policy_sha256", _HEX64),
            nonce=_text(value, "nonce", _NONCE),
            shown_sha256=_text(value, "shown_sha256", _HEX64),
        )
        return _same(parsed, data)


@dataclass(frozen=True, slots=True)
class Countersignature:
    """A further operator's consent to one approval statement, or to several (`others`), and to no other."""

    approval_sha256: str
    countersigned_by: str
    countersigned_utc: datetime
    nonce: str
    others: tuple[str, ...] = ()
    """Further approval statements that it covers, distinct; it then has version 2."""

    @property
    def covers(self) -> tuple[str, ...]:
        """approval_sha256 of each statement that it covers."""
        return (self.approval_sha256, *self.others)

    def to_bytes(self) -> bytes:
        """The canonical bytes that are signed."""
        about: dict[str, Any] = (
            {"type": SEVERAL_TYPE, "approvals": list(self.covers)}
            if self.others
            else {"type": COUNTERSIGN_TYPE, "approval_sha256": self.approval_sha256}
        )
        return canonical.canonical_bytes(
            {
                **about,
                "countersigned_by": self.countersigned_by,
                "countersigned_utc": format_utc(self.countersigned_utc),
                "nonce": self.nonce,
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> Countersignature:
        """Read a countersignature's bytes. Raises MalformedError as `Statement.parse`."""
        value = _object(data, COUNTERSIGN_TYPE, SEVERAL_TYPE)
        several = value["type"] == SEVERAL_TYPE
        listed = value.get("approvals") if several else [value.get("approval_sha256")]
        if not isinstance(listed, list) or not 1 <= len(listed) <= limits.BATCH_MEMBERS:
            raise MalformedError(f"has no list of up to {limits.BATCH_MEMBERS} approvals")
        first, *others = (_matched(item, "approval_sha256", _HEX64) for item in listed)
        if len({first, *others}) != len(listed):
            raise MalformedError("names an approval twice")
        parsed = cls(
            approval_sha256=first,
            countersigned_by=_text(value, "countersigned_by", NAME),
            countersigned_utc=_time(value, "countersigned_utc"),
            nonce=_text(value, "nonce", _NONCE),
            others=tuple(others),
        )
        return _same(parsed, data)


@dataclass(frozen=True, slots=True)
class Act:
    """Any other signed act: its type, where, who, when, the nonce, and what it states (any JSON object)."""

    type: str
    workspace_id: str
    epoch: int
    acted_by: str
    acted_utc: datetime
    nonce: str
    about: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """The canonical bytes that are signed. Raises ValueError if `about` cannot be represented."""
        return canonical.canonical_bytes(
            {
                "type": self.type,
                "workspace": {"id": self.workspace_id, "epoch": self.epoch},
                "acted_by": self.acted_by,
                "acted_utc": format_utc(self.acted_utc),
                "nonce": self.nonce,
                "about": dict(self.about),
            }
        )

    @classmethod
    def parse(cls, data: bytes, *types: str) -> Act:
        """Read the bytes of an act of these types. Raises MalformedError as `Statement.parse`."""
        if not ACT_TYPES.issuperset(types):
            raise MalformedError("is of a type that is not a signed act")
        value = _object(data, *types)
        workspace_id, epoch = _workspace(value)
        about = value.get("about")
        if not isinstance(about, dict):
            raise MalformedError("does not say what it is about")
        parsed = cls(
            type=value["type"],
            workspace_id=workspace_id,
            epoch=epoch,
            acted_by=_text(value, "acted_by", NAME),
            acted_utc=_time(value, "acted_utc"),
            nonce=_text(value, "nonce", _NONCE),
            about=about,
        )
        return _same(parsed, data)


@dataclass(frozen=True, slots=True)
class SignedBytes:
    """A signature file: the statement's bytes, a newline, one armored block, end of file."""

    statement: bytes
    signature: SshSignature

    @property
    def sha256(self) -> str:
        """sha256 of the statement's bytes; for an approval this is approval_sha256."""
        return canonical.sha256_hex(self.statement)

    @classmethod
    def parse(cls, data: bytes) -> SignedBytes:
        """Split a signature file. Raises MalformedError; the statement itself is not parsed yet."""
        if len(data) > limits.SIGNATURE_FILE_BYTES:
            raise MalformedError(f"is longer than {limits.SIGNATURE_FILE_BYTES} bytes")
        # Canonical JSON has no raw newline, so the first one ends the statement.
        statement, newline, armor = data.partition(b"\n")
        if not newline:
            raise MalformedError("has no line with a statement")
        return cls(statement, parse_armor(armor))

    def to_bytes(self) -> bytes:
        """The signature file, reassembled."""
        return render_signed(self.statement, self.signature.armor)


def is_act(data: bytes) -> bool:
    """Whether a signature file claims to be a signed act and not an approval; this only decides which checks are
    made. No text in a statement can look like this key, since JSON escapes its quotes.
    """
    return b'"acted_by":' in data.partition(b"\n")[0]


def render_signed(statement: bytes, armor: bytes) -> bytes:
    """The bytes of a signature file."""
    return statement + b"\n" + armor


def format_utc(moment: datetime) -> str:
    """A time to the second, in UTC with ``Z``."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def parse_utc(text: str) -> datetime:
    """The time in exactly the form that `format_utc` writes. Raises MalformedError."""
    try:
        if _TIME.fullmatch(text):
            return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        pass
    raise MalformedError("has no time of the form YYYY-MM-DDThh:mm:ssZ")


_Parsed = TypeVar("_Parsed", "Statement", "Countersignature", "Act", "Batch")


def _object(data: bytes, *types: str) -> dict[str, Any]:
    try:
        value = canonical.loads_strict(data, max_bytes=limits.SIGNATURE_FILE_BYTES, max_depth=8)
    except canonical.StrictJSONError as error:
        raise MalformedError(f"is not strict JSON: {error}") from None
    if not isinstance(value, dict) or value.get("type") not in types:
        raise MalformedError(f"is not a statement of type {types[0]}")
    return value


def _same(parsed: _Parsed, data: bytes) -> _Parsed:
    """What was parsed, if it has these bytes: one spelling, and no key that nobody read."""
    if parsed.to_bytes() != data:
        raise MalformedError("is not its own canonical rendering, or has unknown keys")
    return parsed


def _mapping(value: object, keys: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != keys:
        raise MalformedError(f"does not have exactly the keys {', '.join(sorted(keys))} where they belong")
    return value


def _matched(value: object, name: str, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise MalformedError(f"has a {name} of a wrong form")
    return value


def _text(value: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    return _matched(value.get(key), key, pattern)


def _time(value: Mapping[str, Any], key: str) -> datetime:
    return parse_utc(_matched(value.get(key), key, _TIME))


def _workspace(value: Mapping[str, Any]) -> tuple[str, int]:
    workspace = _mapping(value.get("workspace"), {"id", "epoch"})
    epoch = workspace["epoch"]
    if type(epoch) is not int or epoch < 1:  # True is an int, too
        raise MalformedError("has an epoch that is not a number from 1")
    return _matched(workspace["id"], "workspace id", _WORKSPACE), epoch


def _input(value: object) -> StatementInput:
    item = _mapping(value, {"name", "sha256"})
    return StatementInput(
        _matched(item["name"], "input name", _INPUT_NAME), _matched(item["sha256"], "input sha256", _HEX64)
    )


BATCH_TYPE: Final = "threegate-batch/1"


@dataclass(frozen=True, slots=True)
class Batch:
    """Statements of one operator, time, workspace and policy, in the order of the screen.

    `risk` is the highest effective risk among them: each member needs the quorum for it.
    """

    risk: Risk
    statements: tuple[Statement, ...]

    def __post_init__(self) -> None:
        """Raises MalformedError if this is not a batch."""
        if not 2 <= len(self.statements) <= limits.BATCH_MEMBERS:
            raise MalformedError(f"does not have 2 to {limits.BATCH_MEMBERS} statements")
        ids = {statement.request_id for statement in self.statements}
        nonces = {statement.nonce for statement in self.statements}
        # A nonce of two would be used up by the first that runs, and an id of two would have two statements.
        if not len(ids) == len(nonces) == len(self.statements):
            raise MalformedError("has two statements of one request or with one nonce")
        if len({_in_common(statement) for statement in self.statements}) > 1:
            raise MalformedError("has statements of another approver, time, workspace or policy")

    def to_bytes(self) -> bytes:
        """The canonical bytes that are signed."""
        statements = [item.to_json() for item in self.statements]
        return canonical.canonical_bytes({"type": BATCH_TYPE, "risk": self.risk, "statements": statements})

    @classmethod
    def parse(cls, data: bytes) -> Batch:
        """Read the bytes of a batch. Raises MalformedError as `Statement.parse`."""
        value = _mapping(_object(data, BATCH_TYPE), {"type", "risk", "statements"})
        if value["risk"] not in RISKS or not isinstance(value["statements"], list):
            raise MalformedError("has a risk or a list of statements of a wrong form")
        # Read as if it were alone: a batch accepts no statement that would be refused by itself.
        statements = tuple(Statement.parse(canonical.canonical_bytes(item)) for item in value["statements"])
        return _same(cls(cast("Risk", value["risk"]), statements), data)


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The batch of a statement and its position: the sha256 of the batch's bytes, and the index from 0."""

    batch_sha256: str
    index: int


@dataclass(frozen=True, slots=True)
class SignedApproval:
    """The ``.sig`` file of one request's approval: what was signed, the signature, the statement about it."""

    signed: SignedBytes
    statement: Statement
    approval_sha256: str
    """sha256 of the statement's own bytes, even if it is part of a batch."""
    place: BatchPlace | None = None
    """None for a statement that was signed alone."""
    batch: Batch | None = None

    @classmethod
    def parse(cls, data: bytes, request_id: str = "") -> SignedApproval:
        """Read a ``.sig`` file. Raises MalformedError; nothing is verified yet.

        `request_id` says which member of a batch is meant; without it a batch is refused.
        """
        signed = SignedBytes.parse(data)
        if not signed.statement.endswith(f'"type":"{BATCH_TYPE}"}}'.encode()):  # only how it is parsed depends on it
            return cls(signed, Statement.parse(signed.statement), signed.sha256)
        batch = Batch.parse(signed.statement)
        for index, statement in enumerate(batch.statements):
            if statement.request_id == request_id:
                sha256 = canonical.sha256_hex(statement.to_bytes())
                return cls(signed, statement, sha256, BatchPlace(signed.sha256, index), batch)
        raise MalformedError("is a batch that does not list this request")


def _in_common(statement: Statement) -> tuple[Any, ...]:
    return (
        statement.workspace_id,
        statement.epoch,
        statement.approved_by,
        statement.approved_utc,
        statement.expires_utc,
        statement.policy_sha256,
    )
