"""The facts of a launch, and the values of a valid approval; no checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from threegate.approval.operators import Operators
from threegate.approval.signer import Signer
from threegate.approval.statement import BatchPlace, StatementInput
from threegate.core.settings import Settings
from threegate.request.job import Job
from threegate.request.model import Request, Risk
from threegate.trail.payloads.payload import Owner

VOID: Final = "approval_void"
"""The code of an approval that the trail calls void."""
VOID_TEXT: Final = (
    "the trail says that this approval is void, because its file was gone when a daemon started; approve it again"
)


NO_SIGNATURE: Final = (
    "there is no signature beside the request, so nobody approved it; draft it again (threegate draft --again ID), "
    "then: threegate approve"
)


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """The file at inputs/<sha256>: its size, and its digest if the caller has already hashed it."""

    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """The facts of a launch, each read once."""

    request: Request
    """Read from the bytes in approved/, stage `approved`."""
    job: Job
    """Built again from that request."""
    signature: bytes | None
    """The ``.sig`` file, None if there is none."""
    operators: Operators
    recorded_operators: tuple[str | None, ...]
    """Digests of the operators' files as the trail last recorded them (`TrailIndex.operators`)."""
    workspace_id: str
    epoch: int
    policy_sha256: str
    """Of an approval of this request."""
    settings: Settings
    """Those in force; on a worker its own."""
    now: datetime
    """max(system clock, time of the last event)."""
    clock_behind_sec: float
    pinned: Mapping[str, PinnedFile]
    """By the sha256 in the name of a file in inputs/; a missing key is a missing file."""
    nonce_used: Callable[[str], bool]
    """Whether a nonce was used according to the trail (`TrailIndex.nonce_used`)."""
    id_used: bool
    """A `claimed` event of this id in the trail, or the id in running/, finished/, refused/ or runs/."""
    shown_sha256: Callable[[], str] | None
    """Recreates the text that the signature covers, and returns its digest. None on a worker: the daemon has
    compared it.
    """
    countersignatures: Mapping[str, bytes] = field(default_factory=dict)
    """``.sig.<name>`` files, by name."""
    requesters: Mapping[str, str] = field(default_factory=dict)
    owner: Owner | None = None
    """The draft's owner, from the trail."""
    recorded_approval: str | None = None
    """approval_sha256 of the trail's `approved` event, None if there is no such event."""
    recorded_batch: BatchPlace | None = None
    """The batch that the trail's `approved` event names, and the position in it; None if it names none, or
    there is no such event.
    """
    recorded_file: str | None = None
    """File name of the request in the trail's `approved` event; a copy under another name does not count."""
    was_approved: bool = False
    """Whether the trail has an `approved` event for this id, or had one that is void."""
    grant_uses: Callable[[str], int | None] = lambda grant: None
    """How often a grant was used; None if it is not in the trail or was revoked (`TrailIndex.grant_uses`)."""
    is_void: Callable[..., bool] = lambda *marks: False
    """Whether the trail calls the approval with one of these marks void (`TrailIndex.is_void`). On a worker: never; the
    daemon has compared it.
    """
    unknown_kind: str | None = None
    """The first kind of event of its history that is not known here (`RequestHistory.unknown`)."""
    elsewhere: tuple[str, str] | None = None
    """Code and words if the Job was approved for another platform than `job` names, and nothing else differs."""
    standing_sha256: str = ""
    """The policy of a standing grant."""
    changed_policy: Callable[[], tuple[str, ...]] = tuple
    """What of the policy is not as it was when the request was approved, by name; empty if that is not known."""
    changed_standing: Callable[[str], tuple[str, ...]] = lambda sha256: ()
    """The same of the policy of a standing grant, which has this digest."""
    changed_text: Callable[[], tuple[str, ...]] = tuple
    """The settings because of which the request would be shown otherwise today than when it was approved; empty if
    that is not known.
    """

    @property
    def on_worker(self) -> bool:
        """Whether this machine has no trail: then the daemon has compared what depends on trail and screen."""
        return self.shown_sha256 is None

    @property
    def needs_signature(self) -> bool:
        """Whether nothing runs that no operator signed."""
        return self.on_worker or self.settings.approval.signature != "optional"

    @property
    def ttl(self) -> timedelta:
        """How long an approval is valid."""
        return timedelta(seconds=self.settings.approval.ttl)

    def signers_needed(self, risk: Risk) -> int:
        """How many operators must sign a request of this effective risk."""
        needed: int = getattr(self.settings.approval.quorum, risk)
        return needed


@dataclass(frozen=True, slots=True)
class Under:
    """What a request runs under that nobody signed itself: an act that covers it, a few times."""

    grant: str
    """The act's id: the digest of its statement."""
    max_uses: int
    confirms: bool = False
    """Whether an operator signed every name and type of what runs."""


@dataclass(frozen=True, slots=True)
class VerifiedApproval:
    """A valid approval. `approval_sha256` is None for an unsigned, hand-promoted request."""

    approved_by: str
    approved_utc: datetime
    expires_utc: datetime
    nonce: str
    approval_sha256: str | None
    signers: tuple[Signer, ...]
    under: Under | None = None
    """The grant under which it runs, None if it was approved itself."""
    operators: tuple[str | None, ...] | None = None
    """Digests of the operators' files used to verify its signatures; a claim checks that they are still current."""

    @property
    def authorization(self) -> Literal["confirmed", "validated"]:
        """Its value for AANA: a signature confirms; a guarded folder only validates, and so does a grant that does not
        say otherwise.
        """
        if self.approval_sha256 is None or (self.under is not None and not self.under.confirms):
            return "validated"
        return "confirmed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result. `ok` is None if an earlier failure prevented it; `code` is "" unless it failed."""

    name: str
    ok: bool | None
    code: str
    detail: str


def requester_of(request: Request, requesters: Mapping[str, str], owner: Owner | None) -> str:
    """The requester: the name of the draft's owner, else the name in the file. `requesters`: name by uid or run."""
    return requesters.get(str(owner), request.requested_by)


def statement_inputs(request: Request) -> tuple[StatementInput, ...]:
    """The inputs of a request in a statement's form, in the request's order."""
    return tuple(StatementInput(item.name, item.sha256) for item in request.inputs)
