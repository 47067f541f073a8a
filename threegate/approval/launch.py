"""Everything that must be true of an approval at launch (docs/spec/2-approval.md, "Launch checks").

Invariant: `check_launch` returns only if every check passed; a check that cannot be made has failed. Each way to an
approval has the checks that are made here; what it adds is in way.py and, for a signature over exactly this request, in
`SignedFile`: its statement names this request, its bytes, its job, its policy, the text that was shown and its time;
one of them differs, and it approves nothing. The facts are values that the caller read once; nothing here reads a file
or a clock (verifying a signature may start ssh-keygen, in approval/signature).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import ClassVar

from threegate.approval.facts import (
    NO_SIGNATURE,
    VOID,
    VOID_TEXT,
    Check,
    LaunchFacts,
    VerifiedApproval,
    requester_of,
    statement_inputs,
)
from threegate.approval.quorum import Signer, check_countersignature
from threegate.approval.signature import genuine
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import SignedApproval, SignedBytes, is_act
from threegate.approval.way import WAYS, ByHand, NotReadError, SignedWay, Step, Way, check_began, refuse_unjudged
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.request.job import RISKS
from threegate.trail.history import UNKNOWN_EVENT, unknown_event_text


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
    def signed(self) -> SignedBytes:
        return self.approval.signed

    @property
    def approver(self) -> str:
        return self.approval.statement.approved_by

    @property
    def approved_utc(self) -> datetime:
        return self.approval.statement.approved_utc

    @property
    def expires_utc(self) -> datetime:
        return self.approval.statement.expires_utc

    @property
    def nonce(self) -> str:
        return self.approval.statement.nonce

    @property
    def approval_sha256(self) -> str:
        """Of the statement's own bytes, also in a batch."""
        return self.approval.approval_sha256

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.nonce, self.approval_sha256)

    def checks(self) -> Iterable[Step]:
        return (
            ("statement", self._check_statement),
            ("batch", self._check_batch),
            ("workspace", self._check_workspace),
            ("request bytes", self._check_request),
            ("policy", self._check_policy),
            ("job", self._check_job),
            ("shown text", self._check_shown),
            ("time", self._check_time),
        )

    def last_checks(self) -> Iterable[Step]:
        return (("quorum", self._check_quorum),)

    def _check_statement(self) -> str:
        statement, facts = self.approval.statement, self.facts
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
        statement, facts = self.approval.statement, self.facts
        if (statement.workspace_id, statement.epoch) != (facts.workspace_id, facts.epoch):
            raise Refused("workspace_mismatch", "the approval was given in another workspace, or before its adoption")
        return f"{facts.workspace_id}, epoch {facts.epoch}"

    def _check_request(self) -> str:
        if self.approval.statement.request_sha256 != self.facts.request.sha256:
            raise Refused("request_changed", "the request's bytes are not those that were signed")
        return f"sha256 {self.facts.request.sha256}"

    def _check_policy(self) -> str:
        if self.approval.statement.policy_sha256 != self.facts.policy_sha256:
            raise Refused("policy_changed", "settings, contracts, images or versions changed since; approve it again")
        return f"sha256 {self.facts.policy_sha256}"

    def _check_job(self) -> str:
        found = self.facts.job.digest
        if self.approval.statement.job_sha256 != found:
            raise Refused(*self.facts.job.action.why_other())
        return f"sha256 {found}"

    def _check_shown(self) -> str:
        signed, again = self.approval.statement.shown_sha256, self.facts.shown_sha256
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
        statement, facts = self.approval.statement, self.facts
        ttl = timedelta(seconds=facts.ttl_sec)
        check_began(facts, statement.approved_utc)
        if not statement.approved_utc < statement.expires_utc <= statement.approved_utc + ttl:
            raise Refused("expired", "the approval names an end that approval.ttl does not allow")
        if facts.now >= statement.expires_utc:
            raise Refused("expired", f"the approval ended at {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}; retry it")
        return f"until {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}"

    def _check_quorum(self) -> str:
        facts = self.facts
        batch = self.approval.batch
        risk = facts.job.effective_risk if batch is None else batch.risk
        needed: int = getattr(facts.quorum, risk)
        if len(facts.countersignatures) > limits.COUNTERSIGNATURES:
            raise Refused("signature_file_malformed", f"more than {limits.COUNTERSIGNATURES} countersignatures")
        signers = [Signer(self.approver, self.signed.signature.key.fingerprint)]
        for name, data in sorted(facts.countersignatures.items()):
            signers.append(
                check_countersignature(
                    self.approval,
                    data,
                    name=name,
                    operators=facts.operators,
                    requester=requester_of(facts.request, facts.requesters, facts.owner),
                    nonce_used=facts.nonce_used,
                    now=facts.now,
                )
            )
        distinct = min(len({signer.name for signer in signers}), len({signer.fingerprint for signer in signers}))
        if distinct < needed:
            message = f"{distinct} of {needed} operators signed; others can: threegate approve"
            raise Refused("quorum_missing", message)
        self.signers = signers
        return f"{len(signers)} of {needed} for risk {risk}"


def check_launch(facts: LaunchFacts) -> VerifiedApproval:
    """Every check, in order, up to the first failure. Raises Refused with its reason code, Unavailable."""
    way = _way_of(facts)
    for _, check in _steps(way):
        check()
    return VerifiedApproval(
        approved_by=way.approver or "",
        approved_utc=way.approved_utc,
        expires_utc=way.expires_utc,
        nonce=way.nonce,
        approval_sha256=way.approval_sha256,
        signers=tuple(way.signers),
        under=way.under,
        operators=facts.operators.digests,
    )


def launch_checks(facts: LaunchFacts) -> list[Check]:
    """Every check with its outcome, for `threegate audit approval`, and what ssh-keygen says. Raises Unavailable."""
    way = _way_of(facts)
    outcomes = []
    for name, check in _steps(way):
        try:
            outcomes.append(Check(name, True, "", check()))
        except Refused as refusal:
            outcomes.append(Check(name, False, refusal.code, str(refusal)))
        except NotReadError:
            outcomes.append(Check(name, None, "", "not checked: there is no readable signature"))
    if isinstance(way, SignedWay) and any(check.ok and check.name == way.signature_check for check in outcomes):
        outcomes.append(_by_ssh_keygen(way))
    return outcomes


def _by_ssh_keygen(way: SignedWay) -> Check:
    """Verify the approver's signature again with an external program; a launch does not need this. Raises
    Unavailable.
    """
    verified = genuine(
        way.signed.statement,
        way.signed.signature,
        way.approver,
        way.namespace,
        way.facts.operators,
        at=(way.signed_utc, way.facts.now),
    )
    if verified:
        return Check("ssh-keygen", True, "", "verifies the signature too")
    return Check("ssh-keygen", False, "signature_invalid", "does not verify what was verified here; report it")


def _way_of(facts: LaunchFacts) -> Way:
    """That of a plugin that is on and whose act the signature file is; for every other file and for none the core's."""
    if facts.signature is None and facts.mode == "optional":
        return ByHand(facts)
    data = facts.signature or b""
    given = WAYS.given(facts.settings.plugins.off).values() if is_act(data) else ()
    return next((way for way in given if way.is_mine(data)), SignedFile)(facts)


def _steps(way: Way) -> Iterator[Step]:
    facts = way.facts
    yield "clock", lambda: _check_clock(facts)
    yield "operators file", lambda: _check_operators(facts)
    yield "history", lambda: _check_history(facts)
    if isinstance(way, SignedWay):
        yield way.file_check, lambda: _check_file(way)
    yield "not void", lambda: _check_void(way)
    if isinstance(way, SignedWay):
        yield way.signature_check, lambda: _check_signature(way)
    yield from way.checks()
    yield "used once", lambda: _check_unused(way)
    yield "requester", lambda: _check_requester(way)
    yield "inputs", lambda: _check_inputs(facts)
    yield from way.last_checks()


def _check_clock(facts: LaunchFacts) -> str:
    behind = facts.clock_behind_sec
    if behind > limits.CLOCK_BEHIND_SECONDS:
        raise Refused("clock_went_back", f"the clock is {behind:.0f} s behind the trail; set it right")
    return "not behind the trail"


def _check_operators(facts: LaunchFacts) -> str:
    operators = facts.operators
    if operators.problem is not None:
        raise Refused("operators_changed", f"{operators.problem}; fix it with: threegate operator")
    if operators.digests != facts.recorded_operators:
        raise Refused(
            "operators_changed",
            "operators is not what the trail last recorded; look at it, then: threegate operator record",
        )
    return f"{len(operators.entries)} keys, as the trail recorded them"


def _check_history(facts: LaunchFacts) -> str:
    if (kind := facts.unknown_kind) is not None:
        raise Refused(UNKNOWN_EVENT, unknown_event_text(kind))
    return "each of its events is of a kind that is known here"


def _check_file(way: SignedWay) -> str:
    if way.facts.signature is None:
        raise Refused("signature_missing", NO_SIGNATURE)
    return way.read(way.facts.signature)


def _check_void(way: Way) -> str:
    if way.facts.is_void(*way.marks):
        raise Refused(VOID, VOID_TEXT)
    return "the trail does not call it void"


def _check_signature(way: SignedWay) -> str:
    """The signature is the approver's: it was valid when it was given, and is valid now."""
    signed, approver = way.signed, way.approver
    fingerprint = verify_signer(
        signed.statement,
        signed.signature,
        approver,
        way.namespace,
        way.facts.operators,
        at=(way.signed_utc, way.facts.now),
    )
    way.signers = [Signer(approver, fingerprint)]
    return f"by {approver}, key {fingerprint}"


def _check_unused(way: Way) -> str:
    if way.facts.id_used or way.facts.nonce_used(way.nonce):
        raise Refused(
            "replayed", "this request or this approval was used before; make a new one: threegate draft --again"
        )
    return "never used before"


def _check_requester(way: Way) -> str:
    facts = way.facts
    approver = way.approver
    requester = requester_of(facts.request, facts.requesters, facts.owner)
    if requester == approver:
        raise Refused("self_approval", "whoever asks cannot approve; another operator must")
    return "another than the approver"


def _check_inputs(facts: LaunchFacts) -> str:
    for item in facts.job.inputs:
        found = facts.pinned.get(item.sha256)
        if found is None:
            raise Refused("input_missing", f"the pinned bytes of {item.name} are not in inputs/")
        if found.size != item.size or found.sha256 not in (None, item.sha256):
            raise Refused("input_changed", f"the pinned bytes of {item.name} are not those that were signed")
    return f"{len(facts.job.inputs)} pinned"
