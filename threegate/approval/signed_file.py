"""The way of a signature over exactly this request: the statement, alone or in a batch, and its quorum.

Invariant: the statement names this request, its bytes, its job, its policy, the text that was shown and its time; one
of them differs, and it approves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import ClassVar

from threegate.approval.batch import SignedApproval
from threegate.approval.facts import requester_of, statement_inputs
from threegate.approval.quorum import Signer, check_quorum
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.sshsig import NAMESPACE_APPROVAL
from threegate.approval.statement import SignedBytes, Statement
from threegate.approval.unsigned import check_began
from threegate.approval.way import NotReadError, SignedWay, Step, refuse_unjudged
from threegate.core.errors import Refused
from threegate.request.job import RISKS


class SignedFile(SignedWay):
    """By a statement about this request, or about several of which it is one."""

    namespace: ClassVar[str] = NAMESPACE_APPROVAL
    _approval: SignedApproval | None = None

    def read(self, data: bytes) -> str:
        try:
            self._approval = SignedApproval.parse(data, self.facts.request.request_id)
        except MalformedError as error:
            refuse_unjudged(self.facts)
            raise Refused(
                "signature_file_malformed", f"the signature file {error}; approve the request again"
            ) from None
        kind = "one statement" if self._approval.batch is None else "a batch of statements"
        return f"{kind} and one signature, approval {self._approval.approval_sha256}"

    @property
    def approval(self) -> SignedApproval:
        """The signature file that was read. Raises NotReadError."""
        if self._approval is None:
            raise NotReadError
        return self._approval

    @property
    def statement(self) -> Statement:
        """The statement about this request. Raises NotReadError."""
        return self.approval.statement

    @property
    def signed(self) -> SignedBytes:
        return self.approval.signed

    @property
    def approver(self) -> str:
        return self.statement.approved_by

    @property
    def approved_utc(self) -> datetime:
        return self.statement.approved_utc

    @property
    def expires_utc(self) -> datetime:
        return self.statement.expires_utc

    @property
    def nonce(self) -> str:
        return self.statement.nonce

    @property
    def approval_sha256(self) -> str:
        """Of the statement's own bytes, also in a batch."""
        return self.approval.approval_sha256

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.nonce, self.approval_sha256)

    def checks(self) -> Iterator[Step]:
        yield "statement", self._check_statement
        yield "batch", self._check_batch
        yield "workspace", self._check_workspace
        yield "request bytes", self._check_request
        yield "policy", self._check_policy
        yield "job", self._check_job
        yield "shown text", self._check_shown
        yield "time", self._check_time

    def last_checks(self) -> Iterator[Step]:
        yield "quorum", self._check_quorum

    def _check_statement(self) -> str:
        statement, facts = self.statement, self.facts
        request = facts.request
        for name, signed, found in (
            ("request_id", statement.request_id, request.request_id),
            ("approved_by", statement.approved_by, request.approved_by),
            ("approved_utc", statement.approved_utc, request.approved_utc),
            ("inputs", statement.inputs, statement_inputs(request)),
        ):
            if signed != found:
                raise Refused("statement_mismatch", f"{name} of the statement is not that of the request")
        if facts.recorded_approval is not None and facts.recorded_approval != self.approval_sha256:
            raise Refused("statement_mismatch", "the trail recorded another approval of this request")
        if facts.recorded_file not in (None, request.file_name):
            raise Refused("statement_mismatch", "the file has another name than the one that was approved")
        return "names this request"

    def _check_batch(self) -> str:
        """A member of a batch runs only by its own `approved` event: one that was never promoted, or was
        abandoned, has none.
        """
        facts, place, batch = self.facts, self.approval.place, self.approval.batch
        if place != facts.recorded_batch and not facts.on_worker:
            raise Refused(
                "statement_mismatch",
                "the trail recorded no approval of this request at this place of this batch; approve it again",
            )
        if place is None or batch is None:
            return "not one of a batch"
        if RISKS.index(batch.risk) < RISKS.index(facts.job.effective_risk):
            raise Refused("statement_mismatch", f"the batch is one of risk {batch.risk}, and the request is not")
        return f"number {place.index + 1} of {len(batch.statements)} of the batch {place.batch_sha256}"

    def _check_workspace(self) -> str:
        statement, facts = self.statement, self.facts
        if (statement.workspace_id, statement.epoch) != (facts.workspace_id, facts.epoch):
            raise Refused("workspace_mismatch", "the approval was given in another workspace, or before its adoption")
        return f"{facts.workspace_id}, epoch {facts.epoch}"

    def _check_request(self) -> str:
        if self.statement.request_sha256 != self.facts.request.sha256:
            raise Refused("request_changed", "the request's bytes are not those that were signed")
        return f"sha256 {self.facts.request.sha256}"

    def _check_policy(self) -> str:
        if self.statement.policy_sha256 != self.facts.policy_sha256:
            raise Refused("policy_changed", "settings, contracts, images or versions changed since; approve it again")
        return f"sha256 {self.facts.policy_sha256}"

    def _check_job(self) -> str:
        found = self.facts.job.digest
        if self.statement.job_sha256 != found:
            raise Refused(*self.facts.job.action.why_other())
        return f"sha256 {found}"

    def _check_shown(self) -> str:
        signed, again = self.statement.shown_sha256, self.facts.shown_sha256
        if signed is None:
            return "not part of a statement of version 1"
        if again is None:  # on a worker
            return "compared by the daemon"
        if again() != signed:
            raise Refused(
                "shown_changed",
                "the request would be shown otherwise today than when it was signed; approve it again",
            )
        return f"sha256 {signed}"

    def _check_time(self) -> str:
        statement, facts = self.statement, self.facts
        ttl = timedelta(seconds=facts.ttl_sec)
        check_began(facts, statement.approved_utc)
        if not statement.approved_utc < statement.expires_utc <= statement.approved_utc + ttl:
            raise Refused("expired", "the approval names an end that approval.ttl does not allow")
        if facts.now >= statement.expires_utc:
            raise Refused("expired", f"the approval ended at {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}; retry it")
        return f"until {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}"

    def _check_quorum(self) -> str:
        facts, statement = self.facts, self.statement
        batch = self.approval.batch
        risk = facts.job.effective_risk if batch is None else batch.risk
        needed: int = getattr(facts.quorum, risk)
        signers = check_quorum(
            self.approval,
            Signer(statement.approved_by, self.signed.signature.key.fingerprint),
            facts.countersignatures,
            operators=facts.operators,
            requester=requester_of(facts.request, facts.requesters, facts.owner),
            nonce_used=facts.nonce_used,
            needed=needed,
            now=facts.now,
        )
        self.signers = signers
        return f"{len(signers)} of {needed} for risk {risk}"
