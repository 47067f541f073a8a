"""The state of the launch checks: the facts, and what was read from the signature file.

Invariant: nothing is known about a statement or a grant before its file was read completely.
"""

from __future__ import annotations

from datetime import timedelta

from threegate.approval.batch import SignedApproval
from threegate.approval.facts import LaunchFacts, VerifiedApproval
from threegate.approval.grant import Grant, is_grant
from threegate.approval.granted import grant_nonce, verified_by_grant
from threegate.approval.quorum import Signer
from threegate.approval.statement import Statement
from threegate.approval.unsigned import approved_utc_of


class NotReadError(Exception):
    """A check needs the statement, but none could be read."""


class LaunchState:
    """The facts, and what the checks found out so far."""

    def __init__(self, facts: LaunchFacts) -> None:
        self.facts = facts
        self.approval: SignedApproval | None = None
        self.signers: list[Signer] = []
        self.read: Grant | None = None

    @property
    def unsigned(self) -> bool:
        """Whether it was promoted by hand, if that is allowed."""
        return self.facts.signature is None and self.facts.mode == "optional"

    @property
    def granted(self) -> bool:
        """Whether the signature file is a standing grant."""
        return self.facts.signature is not None and is_grant(self.facts.signature)

    @property
    def grant(self) -> Grant:
        """The grant that was read. Raises NotReadError."""
        if self.read is None:
            raise NotReadError
        return self.read

    @property
    def approver(self) -> str | None:
        """Who approved it. Raises NotReadError."""
        if self.unsigned:
            return self.facts.request.approved_by
        return self.grant.act.acted_by if self.granted else self.statement.approved_by

    @property
    def nonce(self) -> str:
        """What is used once. Raises NotReadError."""
        request = self.facts.request
        if self.unsigned:
            return request.sha256[:32]
        return grant_nonce(self.grant, request.request_id) if self.granted else self.statement.nonce

    @property
    def marks(self) -> tuple[str, ...]:
        """What the trail calls void of an approval (`payloads.Approved.marks`). Raises NotReadError."""
        if self.unsigned or self.granted:
            return (self.facts.request.sha256,)
        return (self.statement.nonce, self.signed.approval_sha256)

    @property
    def signed(self) -> SignedApproval:
        """The signature file that was read. Raises NotReadError."""
        if self.approval is None:
            raise NotReadError
        return self.approval

    @property
    def statement(self) -> Statement:
        """The statement that was signed. Raises NotReadError."""
        return self.signed.statement

    def verified(self) -> VerifiedApproval:
        """What was verified; called when every check has passed."""
        if self.unsigned:
            request = self.facts.request
            approved = approved_utc_of(request)
            return VerifiedApproval(
                approved_by=request.approved_by or "",
                approved_utc=approved,
                expires_utc=approved + timedelta(seconds=self.facts.ttl_sec),
                nonce=self.nonce,
                approval_sha256=None,
                signers=(),
                operators=self.facts.operators.digests,
            )
        if self.granted:
            return verified_by_grant(self.facts, self.grant, self.signers[0])
        statement = self.statement
        return VerifiedApproval(
            approved_by=statement.approved_by,
            approved_utc=statement.approved_utc,
            expires_utc=statement.expires_utc,
            nonce=statement.nonce,
            approval_sha256=self.signed.approval_sha256,
            signers=tuple(self.signers),
            operators=self.facts.operators.digests,
        )
