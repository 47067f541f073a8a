"""What is known at launch, and what an approval is that passed: values, without a check among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from threegate.approval.batch import BatchPlace
from threegate.approval.operators import Operators
from threegate.approval.quorum import Signer
from threegate.approval.statement import StatementInput
from threegate.core.settings import QuorumSettings
from threegate.request.job import Job
from threegate.request.model import Request
from threegate.trail import Owner

REASON_CODES = (
    "signature_missing",
    "signature_invalid",
    "signature_file_malformed",
    "signer_unknown",
    "signer_revoked",
    "signer_expired",
    "statement_mismatch",
    "shown_changed",
    "request_changed",
    "job_changed",
    "state_changed",
    "input_missing",
    "input_changed",
    "policy_changed",
    "operators_changed",
    "workspace_mismatch",
    "expired",
    "not_yet_valid",
    "replayed",
    "self_approval",
    "quorum_missing",
    "clock_went_back",
    "grants_off",
    "grant_missing",
    "grant_used_up",
    "grant_mismatch",
)
"""Every reason that this gate may give."""


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """What lies at inputs/<sha256>: its size, and its digest where the caller has hashed it already."""

    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """What is known at launch, read once each."""

    request: Request
    """Read from the bytes in approved/, stage `approved`."""
    job: Job
    """Built again from that request."""
    signature: bytes | None
    """The ``.sig`` file, None when there is none."""
    operators: Operators
    recorded_operators: tuple[str | None, ...]
    """Digests of the operators' files as the trail last recorded them (`TrailIndex.operators`)."""
    workspace_id: str
    epoch: int
    policy_sha256: str
    ttl_sec: int
    now: datetime
    """max(system clock, time of the last event)."""
    clock_behind_sec: float
    pinned: Mapping[str, PinnedFile]
    """By the sha256 that a file in inputs/ is named by; a missing key is a missing file."""
    nonce_used: Callable[[str], bool]
    """Whether the trail has used a nonce up (`TrailIndex.nonce_used`)."""
    id_used: bool
    """A `claimed` event of this id in the trail, or the id in running/, finished/, refused/ or runs/."""
    shown_sha256: Callable[[], str] | None
    """Makes the text again that the signature covers, and gives its digest. None on a worker: the daemon has compared it."""
    countersignatures: Mapping[str, bytes] = field(default_factory=dict)
    """``.sig.<name>`` files, by name."""
    quorum: QuorumSettings = field(default_factory=QuorumSettings)
    requesters: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    """Whose the draft was, from the trail."""
    recorded_approval: str | None = None
    """approval_sha256 of the trail's `approved` event, None when there is no such event."""
    recorded_batch: BatchPlace | None = None
    """Which batch the trail's `approved` event names, and where in it; None when it names none, or there is no such event."""
    recorded_file: str | None = None
    """File name that the trail's `approved` event gave the request; a copy under another name is not it."""
    was_approved: bool = False
    """Whether the trail has an `approved` event for this id."""
    grants: bool = False
    """`approval.grants` of the settings."""
    grants_write: bool = False
    """`approval.grants_write` of the settings."""
    grant_uses: Callable[[str], int | None] = lambda grant: None
    """How often a grant was used; None when the trail never knew it or it was revoked (`TrailIndex.grant_uses`)."""
    mode: Literal["required", "optional"] = "required"
    """`approval.signature` of the settings."""

    @property
    def on_worker(self) -> bool:
        """Whether this machine has no trail: then the daemon has compared what the trail and the screen say."""
        return self.shown_sha256 is None


@dataclass(frozen=True, slots=True)
class VerifiedApproval:
    """An approval that passed. `approval_sha256` is None for an unsigned, hand-promoted request."""

    approved_by: str
    approved_utc: datetime
    expires_utc: datetime
    nonce: str
    approval_sha256: str | None
    signers: tuple[Signer, ...]
    grant: str | None = None
    """id of the grant that it runs under, None for a signature of its own."""
    grant_max_uses: int = 0
    grant_writes: bool = False
    """Whether it is a grant for calls of a tool where `approval.grants_write` lets such a one cover a write."""
    operators: tuple[str | None, ...] | None = None
    """Digests of the operators' files that its signatures were checked against; a claim asks whether they still hold."""

    @property
    def authorization(self) -> Literal["confirmed", "validated"]:
        """What it is worth to AANA: a signature confirms; a guarded folder or a grant only validates, but for a grant that
        may write, which an operator signed over every name and type of the call."""
        if self.approval_sha256 is None or (self.grant is not None and not self.grant_writes):
            return "validated"
        return "confirmed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its outcome. `ok` is None when an earlier failure left nothing to check; `code` is "" unless it failed."""

    name: str
    ok: bool | None
    code: str
    detail: str


def requester_of(request: Request, requesters: Mapping[str, str], owner: Owner | None) -> str:
    """Who asked: the name of the draft's owner, else whom the file names. `requesters`: name by uid or run."""
    return requesters.get(str(owner), request.requested_by)


def statement_inputs(request: Request) -> tuple[StatementInput, ...]:
    """The inputs of a request as a statement names them, in the request's order."""
    return tuple(StatementInput(item.name, item.sha256) for item in request.inputs)
