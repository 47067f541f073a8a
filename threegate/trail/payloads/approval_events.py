"""Events of approvals and of standing grants."""

from __future__ import annotations

from collections.abc import Mapping

from threegate.trail.payloads.payload import (
    Fields,
    History,
    Payload,
    Placed,
    because,
    frozen_fields,
    nested,
    short,
)


def under_grant(grant: str, given_by: str | None) -> str:
    """How a request is named everywhere that nobody signed by itself, after "ran" or "approved"."""
    return f"under grant {grant}, given by {given_by or 'an operator'}; not signed individually"


def _marks(nonce: str | None, approval_sha256: str | None, request_sha256: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (nonce, approval_sha256))) or tuple(filter(None, (request_sha256,)))


@frozen_fields
class Uses(Fields):
    """What a request uses that later drafts are compared with (`trail.past_uses`)."""

    requester: str | None
    """Who asked: the name in the settings or of the agent, else the name in the file with the uid of its owner."""
    hosts: tuple[str, ...] | None = None
    """Hosts that it can reach."""
    urls: tuple[str, ...] | None = None
    """Further hosts of addresses in its code, command or Inputs."""
    program: str | None = None
    """The first word of its command, or the tool that it calls."""
    folders: tuple[str, ...] | None = None
    """Where its inputs come from: the project."""

    # Unlike other values of a line it is compared: two drafts that use the same are weighed once, and fold in a list.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uses) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self._all)

    @property
    def _all(self) -> tuple[object, ...]:
        return self.requester, self.hosts, self.urls, self.program, self.folders


@frozen_fields
class Approved(Placed):
    """A request was approved: by a signature over exactly it (`approval_sha256`), or under a standing grant
    (`grant`).
    """

    kind = "approved"
    slot = "approved"
    nulls = {"nonce": ("proposal_sha256",)}

    request_sha256: str | None = None
    job_sha256: str | None = None
    policy_sha256: str | None = None
    """Digest of the policy in force."""
    inputs: Mapping[str, str] | None = None
    """Name → digest of what was pinned. None: not known; the line was too long for the list."""
    approved_by: str | None = None
    """The operator; of a grant, the one who gave it."""
    approval_sha256: str | None = None
    """Digest of the signed statement. None: this request itself was not signed."""
    batch_sha256: str | None = None
    """Digest of the batch that was signed, of which the statement is one. None: the statement was signed by itself."""
    batch_index: int | None = None
    """Where in the batch it is, from 0."""
    approved_utc: str | None = None
    expires_utc: str | None = None
    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    nonce: str | None = None
    """Used up by the claim, not by the approval."""
    shown_sha256: str | None = None
    """Digest of the text that the signature covers, which is kept among the pinned inputs. None: of version 1, or no
    signature.
    """
    kept_policy_sha256: str | None = None
    """Digest of the policy and its contracts as they are kept among the pinned inputs. None: of an earlier version."""
    asked: bool | None = None
    """Whether the operator was asked after the text had been shown; false with ``--yes``. None: not known."""
    read_seconds: int | None = None
    """From the first line on the screen to the decision. None: there was no prompt, or it is not known."""
    read_whole: bool | None = None
    """Whether every line was put on the screen and none was cut."""
    draft_sha256: str | None = None
    """Digest of the draft, without the lines that approving adds."""
    platform: Mapping[str, str] | None = None
    """On what it runs: `image`, `egress_image`, `runtime`, `seccomp_sha256` of its Job. None: that does not matter to
    it, or it is of an earlier version.
    """
    grant: str | None = None
    """The standing grant that it was approved under."""
    risk: str | None = None
    uses: Uses | None = nested(default=None, read=Uses.read)
    """None: under a grant, or it is of an earlier version."""
    reason: str | None = None
    """The operator's own words; may be empty."""
    from_: str | None = None
    """The folder that the draft was in."""

    def sentence(self) -> str:
        bits = [
            f"{name} {short(value)}"
            for name, value in (
                ("request", self.request_sha256),
                ("statement", self.approval_sha256),
                ("key", self.key),
            )
            if value
        ]
        detail = f" ({', '.join(bits)})" if bits else ""
        if self.grant is not None:
            return f"approved {under_grant(short(self.grant), self.approved_by)}{detail}"
        by = f" by {self.approved_by}" if self.approved_by else ""
        unasked = ", who was not asked (--yes)" if self.asked is False else ""
        batch = f" in the batch {short(self.batch_sha256)}" if self.batch_sha256 else ""
        return f"approved{' and signed' if self.approval_sha256 else ''}{batch}{by}{unasked}{detail}"

    @property
    def pinned(self) -> frozenset[str] | None:
        """Digests of what approving pinned: inputs, the signed text, the policy. None when the event's list was cut."""
        if self.inputs is None:
            return None
        return frozenset(filter(None, (*self.inputs.values(), self.shown_sha256, self.kept_policy_sha256)))

    @property
    def marks(self) -> tuple[str, ...]:
        """What tells this approval from every other one: the nonce and the digest of its statement; the digest of the
        request where no statement is about it alone (under a grant).
        """
        if self.grant is not None:
            return _marks(None, None, self.request_sha256)
        return _marks(self.nonce, self.approval_sha256, self.request_sha256)

    def change(self, history: History, event: object) -> None:
        history.abandoned = False
        history.countersigned.clear()
        Placed.change(self, history, event)


@frozen_fields
class Countersigned(Payload):
    """A further operator signed an approval."""

    kind = "countersigned"

    approval_sha256: str | None = None
    countersigned_by: str | None = None
    countersigned_utc: str | None = None
    key: str | None = None
    """Fingerprint of the key, ``SHA256:…``."""
    nonce: str | None = None
    """Used up by the claim, not by the countersignature."""
    read_seconds: int | None = None
    read_whole: bool | None = None
    files: Mapping[str, str] | None = None
    """Digest of the signature's file, by what follows the request's name (".sig.NAME")."""

    def sentence(self) -> str:
        by = f" by {self.countersigned_by}" if self.countersigned_by else ""
        return f"countersigned{by}{f' (key {self.key})' if self.key else ''}"

    def change(self, history: History, event: object) -> None:
        history.countersigned.append(event)


@frozen_fields
class ApprovalAbandoned(Payload):
    """An approved file was not in approved/ when a daemon started: its approval is void for good, and a file that comes
    back does not run. Id and name are free for a new approval.
    """

    kind = "approval_abandoned"

    reason: str | None = None
    file: str | None = None
    request_sha256: str | None = None
    """Of the approved file; used up by this event where the approval has no statement (under a grant)."""
    approval_sha256: str | None = None
    """Digest of the signed statement, used up by this event."""
    nonce: str | None = None
    """The approval's, used up by this event. In older trails the `approved` event before says all three."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Those of the approval, as far as this event names them."""
        return _marks(self.nonce, self.approval_sha256, self.request_sha256)

    def sentence(self) -> str:
        return f"the approval is void and never runs{because(self.reason)}; the id is free for a new approval"

    def change(self, history: History, event: object) -> None:
        history.abandoned = True
        history.approved = history.state = history.file = None


@frozen_fields
class Covering(Payload):
    """By what a plugin lets requests be approved that nobody signs one by one (`Approved.grant`)."""

    grant: str | None
    """The grant's id."""
    max_uses: int | None = None
    expires_utc: str | None = None


@frozen_fields
class CoveringEnded(Payload):
    """The end of that: nothing more is approved under it."""

    grant: str | None
    """The grant's id."""
