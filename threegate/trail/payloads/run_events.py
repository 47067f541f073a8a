"""Events of an approved request, from the gates to its end and the use of its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from threegate.trail.payloads.payload import (
    Fields,
    History,
    Payload,
    Placed,
    Signature,
    SignedAct,
    because,
    frozen_fields,
    named,
    nested,
    short,
)
from threegate.trail.payloads.session_events import ContractMove


@frozen_fields
class JudgedReason(Fields):
    """The reason of the contracts' decision: a code, and the path of the rule."""

    code: str | None
    path: str | None


@frozen_fields
class JudgedContract(Fields):
    """The contract gate's decision on a cleared request."""

    verdict: str | None = None
    shadow: bool | None = None
    """Whether contracts were on trial and blocked nothing."""
    would_block: bool | None = None
    """Whether they would have blocked it otherwise."""
    reasons: tuple[JudgedReason, ...] | None = nested(
        default=None,
        read=lambda value: tuple(filter(None, map(JudgedReason.read, value))) if isinstance(value, list) else None,
    )


@frozen_fields
class Waiting(Payload):
    """A gate asks for something first: the request stays in approved/."""

    kind = "waiting"

    reason: str | None = None
    """A code."""
    file: str | None = None

    def moves_sessions(self) -> bool:
        return self.reason == "checkpoint_required"

    def sentence(self) -> str:
        return f"waits{because(self.reason)}"


@frozen_fields
class Cleared(Payload):
    """All gates said yes."""

    kind = "cleared"
    slot = "cleared"
    nulls = {"job_sha256": ("approval_sha256",)}

    request_sha256: str | None = None
    job_sha256: str | None = None
    approval_sha256: str | None = None
    """Digest of the signed statement. None: this request itself was not signed."""
    policy_sha256: str | None = None
    route: str | None = None
    """AANA's answer."""
    blockers: tuple[str, ...] | None = None
    """Codes of what AANA would have asked for."""
    contract: JudgedContract | None = nested(default=None, read=JudgedContract.read)
    would_block: bool
    """Whether AANA or the contracts, on trial only, would have blocked it."""

    def sentence(self) -> str:
        return f"all gates said yes{f', AANA route {self.route}' if self.route else ''}"


@frozen_fields
class Claimed(Placed):
    """The request was taken for its one run; whatever happens now, it never runs again."""

    kind = "claimed"
    slot = "claimed"
    nulls = {"job_sha256": ("approval_sha256", "grant")}

    request_sha256: str | None = None
    job_sha256: str | None = None
    approval_sha256: str | None = None
    """Digest of the signed statement. None: this request itself was not signed."""
    policy_sha256: str | None = None
    nonce: str | None = None
    """The approval's, used up now."""
    grant: str | None = None
    """The standing grant, of which one use is gone now."""
    contract: ContractMove | None = nested(default=None, read=ContractMove.read)

    def moves_sessions(self) -> bool:
        return self.contract is not None

    def sentence(self) -> str:
        job = f" (job {short(self.job_sha256)})" if self.job_sha256 else ""
        return f"claimed for its one run{job}"


@frozen_fields
class Started(Payload):
    """The run began: on this machine, or on a worker of the cluster."""

    kind = "started"
    slot = "started"
    nulls = {"worker": ("machine", "image")}

    backend: str | None = None
    worker: str | None = None
    machine: str | None = None
    """The worker's machine, as it reported it."""
    envelope: str | None = None
    """Digest of the job's envelope."""
    image: str | None = None

    def sentence(self) -> str:
        machine = f" (machine {self.machine})" if self.machine else ""
        return (
            f"started in {self.backend or 'its sandbox'}{f' on worker {self.worker}{machine}' if self.worker else ''}"
        )


@frozen_fields
class Stopped(Placed):
    """Why a file of approved/ does not run, and what was known of it."""

    reason: str | None = None
    """A code."""
    message: str | None = None
    """One line for people."""
    backend: str | None = None
    request_sha256: str | None = None
    approved_by: str | None = None
    approval_sha256: str | None = None
    nonce: str | None = None
    """The approval's: what ended here, whatever the file said."""
    policy_sha256: str | None = None
    inputs: Mapping[str, str] | None = None
    """Name → digest of what was pinned."""
    contract: ContractMove | None = nested(default=None, read=ContractMove.read)
    result_sha256: str | None = None
    """Digest of the result file."""

    def moves_sessions(self) -> bool:
        return self.contract is not None

    def _because(self) -> str:
        return because(self.reason if self.reason != self.kind else None, self.message)


@frozen_fields
class Quarantined(Stopped):
    """Something was put aside: another file of a request that the trail knows already, or by an approval that it calls
    void, or a torn end of the trail.
    """

    kind = "quarantined"
    nulls = {"message": ("request_sha256", "approved_by", "approval_sha256")}

    bytes: int | None = None
    """Size of the torn end."""
    sha256: str | None = None
    """Digest of the torn end."""
    kept_as: str | None = None
    """File in audit/ that has the torn end."""

    def sentence(self) -> str:
        if self.kept_as is not None:
            size = f", {self.bytes} bytes" if self.bytes is not None else ""
            return f"put a torn end of the trail aside as {self.kept_as}{size}"
        return f"put aside{named(self.file)}{self._because()}"

    def change(self, history: History, event: object) -> None:
        """The copy is put aside; the request itself is untouched."""


@frozen_fields
class End(Stopped):
    """A request ended: it never runs again."""

    nulls = {
        "record_sha256": ("exit_code", "wall_ms", "image"),
        "message": ("request_sha256", "approved_by", "approval_sha256", "policy_sha256"),
    }
    status_without_run: ClassVar[str]
    """What its result says when there is no record of a run."""

    status: str | None = None
    """How the run ended. None: there is no record of a run."""
    exit_code: int | None = None
    wall_ms: int | None = None
    """Duration in milliseconds."""
    record_sha256: str | None = None
    """Digest of the run's record.json."""
    outputs: Mapping[str, str] | None = None
    """Path below /out/ → digest."""
    outputs_unlisted: int | None = None
    """How many further ones the record has."""
    stdout_sha256: str | None = None
    stderr_sha256: str | None = None
    image: str | None = None
    reached: tuple[str, ...] | None = None
    """host:port of what the run reached."""
    blocked: tuple[str, ...] | None = None
    """host:port of what it was kept from."""
    attempts: int | None = None
    """How many were made, when more than one."""
    released_sha256: str | None = None
    """Digest of the outputs.json that names the outputs that the requester was given."""

    @property
    def result_status(self) -> str:
        """The status in the result file."""
        return self.status or self.status_without_run

    def change(self, history: History, event: object) -> None:
        history.end = event
        Stopped.change(self, history, event)


@frozen_fields
class Finished(End):
    """The run ended without being stopped, whether it succeeded or failed."""

    kind = "finished"
    slot = "finished"
    status_without_run = "finished"

    def sentence(self) -> str:
        code = f", exit code {self.exit_code}" if self.exit_code is not None else ""
        wall = f" after {self.wall_ms} ms" if self.wall_ms is not None else ""
        more = f" and {self.outputs_unlisted} more" if self.outputs_unlisted else ""
        names = f"; outputs: {', '.join(sorted(self.outputs))}{more}" if self.outputs else "; no output files"
        reached = f"; reached {', '.join(self.reached)}" if self.reached else ""
        return f"the run finished with status {self.result_status}{code}{wall}{names}{reached}"


@frozen_fields
class Interrupted(End):
    """It was claimed, and either its progress is unknown or not one instruction ran."""

    kind = "interrupted"
    status_without_run = "interrupted"

    def sentence(self) -> str:
        status = f" ({self.status})" if self.status not in (None, "interrupted") else ""
        return f"interrupted{status}; it is never run again{self._because()}"


@frozen_fields
class Cancelled(End):
    """A person ended it, before it ran or while it ran."""

    kind = "cancelled"
    status_without_run = "cancelled"

    signed: Signature | None = nested(default=None, read=Signature.read)

    def sentence(self) -> str:
        wall = f" after {self.wall_ms} ms" if self.wall_ms is not None else ""
        return f"cancelled{wall}{self._because()}"


@frozen_fields
class Refused(End):
    """A gate refused it for good; it did not run."""

    kind = "refused"
    status_without_run = "refused"

    def sentence(self) -> str:
        return f"refused, nothing ran{self._because()}"


@frozen_fields
class TakenPart(Fields):
    """A draft that took the place of another: some paths of its change, and none besides."""

    request_id: str | None = None
    file: str | None = None
    """Its file name."""
    sha256: str | None = None
    """Digest of its change set."""
    root: str | None = None
    """Id of the request whose words describe all of the change: the other one, or what that was taken of itself."""
    paths: int | None = None
    of: int | None = None
    """How many paths the change of `root` has."""
    left_out: tuple[str, ...] | None = None
    """The first of the paths that are not in it, with %XX for what is not printable ASCII."""


@frozen_fields
class Rejected(End):
    """An operator rejected a draft, asked for changes (``changes_requested``) or took a part of it (``superseded``), or
    it was not decided on in time (``draft_expired``).
    """

    kind = "rejected"
    status_without_run = "refused"
    nulls = {"message": ("claims_id", "backend")}

    from_: str | None = None
    """The folder that the draft was in."""
    claims_id: str | None = None
    """The id in the draft, when it is another request's."""
    read_seconds: int | None = None
    read_whole: bool | None = None
    words_sha256: str | None = None
    """Digest of the words with which changes were asked for; the words are the requester's alone."""
    part: TakenPart | None = nested(default=None, read=TakenPart.read)
    """The draft that took its place."""
    signed: Signature | None = nested(default=None, read=Signature.read)

    @property
    def told(self) -> str:
        """The reason as the agent's status says it."""
        return str(self.reason) if self.reason == "draft_expired" else f"{self.reason}: {self.message}"

    def sentence(self) -> str:
        verb = _REJECTIONS.get(self.reason or "", "rejected")
        return f"{verb}{named(self.file)}{self._because()}"


_REJECTIONS: Final = {
    "changes_requested": "asked for changes of the draft",
    "draft_expired": "refused the draft",
    "superseded": "took a part of the draft",
}
"""What an end for another reason than a plain no is called."""


@frozen_fields
class CancelRequested(Payload):
    """The daemon was asked to end a run."""

    kind = "cancel_requested"
    slot = "cancel_requested"

    message: str
    """Why, in the operator's words; may be empty."""
    signed: Signature | None = nested(default=None, read=Signature.read)

    def sentence(self) -> str:
        return f"asked to cancel it{because(self.message)}"


@frozen_fields
class Replayed(SignedAct):
    """An operator had a finished request run again, to compare."""

    kind = "replayed"

    job_sha256: str | None = None
    replay: str | None = None
    """The folder of this run, in the request's."""
    status: str | None = None
    outcome: str | None = None
    """``identical`` or ``different``."""
    differences: int | None = None
    """How many there are."""
    record_sha256: str | None = None

    def sentence(self) -> str:
        return f"ran again to compare{because(self.outcome or self.status)}"


@frozen_fields
class Applied(SignedAct):
    """An operator had a proposed note stored. In older trails also: what a proposal's run made was written into the
    project.
    """

    kind = "applied"
    slot = "applied"
    nulls = {"paths": ("before", "after")}

    tool: str | None = None
    paths: tuple[str, ...] | None = None
    before: str | None = None
    """Digest of the file that was replaced; None: there was none, or it was no single file."""
    after: str | None = None
    """Digest of the new file."""
    note_sha256: str | None = None
    """Digest of a stored note."""
    files: Mapping[str, str] | None = None
    """Digest of the file of notes, with this one, by its name in memory/."""

    def sentence(self) -> str:
        if self.note_sha256 is not None:
            return f"stored the note {short(self.note_sha256)}"
        return f"applied to the project{because(', '.join(self.paths or ()))}"
