"""A batch: several approval statements under one signature; and the ``.sig`` file of an approval, alone or in
a batch.

Invariant: a member of a batch is a complete statement, with its own nonce and digest, found by its request's
id, which occurs in the batch once. The batch is signed as a whole, so no statement in it is valid alone, and
none can be added, removed, changed or moved. A batch alone allows nothing to run: a launch also requires the
member's own `approved` event (approval/launch.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from threegate.approval.ssh_wire import MalformedError
from threegate.approval.statement import SignedBytes, Statement
from threegate.core import canonical, limits
from threegate.request.job import RISKS
from threegate.request.model import Risk

BATCH_TYPE: Final = "threegate-batch/1"
_KEYS: Final = {"type", "risk", "statements"}


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
            raise MalformedError(f"has other than 2 to {limits.BATCH_MEMBERS} statements")
        ids = {statement.request_id for statement in self.statements}
        nonces = {statement.nonce for statement in self.statements}
        if not len(ids) == len(nonces) == len(self.statements):
            raise MalformedError("has two statements of one request or with one nonce")
        if len({_in_common(statement) for statement in self.statements}) > 1:
            raise MalformedError("has statements of another approver, time, workspace or policy")
        if any(statement.shown_sha256 is None for statement in self.statements):
            raise MalformedError("has a statement that does not say what was shown")

    def to_bytes(self) -> bytes:
        """The canonical bytes that are signed."""
        statements = [canonical.loads_strict(item.to_bytes(), max_bytes=limits.SIGNATURE_FILE_BYTES, max_depth=8)
                      for item in self.statements]  # fmt: skip
        return canonical.canonical_bytes({"type": BATCH_TYPE, "risk": self.risk, "statements": statements})

    @classmethod
    def parse(cls, data: bytes) -> Batch:
        """Read the bytes of a batch. Raises MalformedError unless they are exactly what `to_bytes`
        returns.
        """
        try:
            value = canonical.loads_strict(data, max_bytes=limits.SIGNATURE_FILE_BYTES, max_depth=8)
        except canonical.StrictJSONError as error:
            raise MalformedError(f"is no strict JSON: {error}") from None
        if not isinstance(value, dict) or value.keys() != _KEYS or value["type"] != BATCH_TYPE:
            raise MalformedError("has not exactly the keys of a batch")
        if value["risk"] not in RISKS or not isinstance(value["statements"], list):
            raise MalformedError("has a risk or a list of statements of a wrong form")
        batch = cls(cast("Risk", value["risk"]), tuple(_statement(item) for item in value["statements"]))
        if batch.to_bytes() != data:
            raise MalformedError("is not its own canonical rendering")
        return batch


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """The batch of a statement and its position: the sha256 of the batch's bytes, and the index from 0."""

    batch_sha256: str
    index: int


@dataclass(frozen=True, slots=True)
class SignedApproval:
    """The ``.sig`` file of one request's approval: what was signed, the signature, and the statement about the
    request.
    """

    signed: SignedBytes
    statement: Statement
    place: BatchPlace | None = None
    """None for a statement that was signed alone."""
    batch: Batch | None = None

    @classmethod
    def parse(cls, data: bytes, request_id: str = "") -> SignedApproval:
        """Read a ``.sig`` file. Raises MalformedError; nothing is verified yet.

        `request_id` says which member of a batch is meant; without it a batch is refused.
        """
        signed = SignedBytes.parse(data)
        if not is_batch(data):
            return cls(signed, Statement.parse(signed.statement))
        batch = Batch.parse(signed.statement)
        for index, statement in enumerate(batch.statements):
            if statement.request_id == request_id:
                return cls(signed, statement, BatchPlace(signed.sha256, index), batch)
        raise MalformedError("is a batch that does not list this request")

    @property
    def approval_sha256(self) -> str:
        """sha256 of the statement's own bytes, even if it is part of a batch."""
        return canonical.sha256_hex(self.statement.to_bytes())


def is_batch(data: bytes) -> bool:
    """Whether a signature file claims to be a batch; this only decides how it is parsed."""
    return data.partition(b"\n")[0].endswith(f'"type":"{BATCH_TYPE}"}}'.encode())


def _in_common(statement: Statement) -> tuple[Any, ...]:
    return (
        statement.workspace_id,
        statement.epoch,
        statement.approved_by,
        statement.approved_utc,
        statement.expires_utc,
        statement.policy_sha256,
    )


def _statement(value: object) -> Statement:
    if not isinstance(value, dict):
        raise MalformedError("has a statement that is no object")
    return Statement.parse(canonical.canonical_bytes(value))
