"""Everything that must be true of an approval at launch (docs/spec/2-approval.md, "Launch checks").

Invariant: `check_launch` returns only if every check passed; a check that cannot be made has failed. Each way to an
approval has the checks that are made here; what it adds is in way.py and, for a signature over exactly this request, in
`_statement_checks`: its statement names this request, its bytes, its job, its policy, the text that was shown and its
time; one of them differs, and it approves nothing. The facts are values that the caller read once; nothing here reads a
file or a clock (verifying a signature may start ssh-keygen, in approval/signature).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

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
from threegate.approval.further_signatures import check_countersignature
from threegate.approval.signature import genuine
from threegate.approval.signer import Signer, verify_signer
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import SignedApproval, is_act
from threegate.approval.way import WAYS, Given, Way, by_hand, changed_since, early, passed, refuse_unjudged, tried
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.request.job import RISKS
from threegate.trail.history import UNKNOWN_EVENT, unknown_event_text


def check_launch(facts: LaunchFacts) -> VerifiedApproval:
    """Every check, in order, up to the first failure. Raises Refused with its reason code, Unavailable."""
    checks = _Checks(facts)
    for check in checks.made():
        if not check.ok:
            raise Refused(check.code, check.detail)
    given = checks.given
    assert given is not None  # an approval that could not be read has failed its check
    return VerifiedApproval(
        approved_by=given.approver,
        approved_utc=given.approved_utc,
        expires_utc=given.expires_utc,
        nonce=given.nonce,
        approval_sha256=given.approval_sha256,
        signers=tuple(checks.signers),
        under=given.under,
        operators=facts.operators.digests,
    )


def launch_checks(facts: LaunchFacts) -> list[Check]:
    """Every check with its outcome, for `threegate audit approval`, and what ssh-keygen says. Raises Unavailable."""
    checks = _Checks(facts)
    outcomes = list(checks.made())
    verified = any(check.ok and check.name == checks.way.signature_check for check in outcomes)
    if verified and (given := checks.given) is not None and given.signed and given.signed_utc:
        # The approver's signature again, by another program; a launch does not need this.
        again = genuine(
            given.signed.statement,
            given.signed.signature,
            given.approver,
            checks.way.namespace,
            facts.operators,
            at=(given.signed_utc, facts.now),
        )
        wrong = (not again, "signature_invalid", "does not verify what was verified here; report it")
        outcomes.append(passed("ssh-keygen", "verifies the signature too", wrong))
    return outcomes


class _Checks:
    """The checks of one launch, and what they have found so far."""

    def __init__(self, facts: LaunchFacts) -> None:
        self.facts = facts
        self.way = SIGNED
        self.given: Given | None = None
        """None until the approval was read, and if it cannot be read."""
        self.signers: list[Signer] = []
        """Whose signatures were verified."""

    def made(self) -> Iterator[Check]:
        """Each check, made when it is asked for: a caller that stops at the first failure makes no other."""
        # What concerns the whole workspace comes first: no request ends for what is not its fault.
        facts, operators = self.facts, self.facts.operators
        behind, kind = facts.clock_behind_sec, facts.unknown_kind
        slow = f"the clock is {behind:.0f} s behind the trail; set it right"
        yield passed("clock", "not behind the trail", (behind > limits.CLOCK_BEHIND_SECONDS, "clock_went_back", slow))
        bad = f"{operators.problem}; see: threegate operator list"
        other = "operators is not what the trail last recorded; look at it, then: threegate operator record --yes"
        yield passed(
            "operators file",
            f"{len(operators.entries)} keys, as the trail recorded them",
            (operators.problem is not None, "operators_changed", bad),
            (operators.digests != facts.recorded_operators, "operators_changed", other),
        )
        known = "each of its events is of a kind that is known here"
        yield passed("history", known, (kind is not None, UNKNOWN_EVENT, unknown_event_text(kind or "")))
        signed = facts.signature is not None or facts.needs_signature
        if signed:
            yield self._read()
        else:
            self.given = by_hand(facts)
        given = self.given
        if given is None:
            for name in ("not void", self.way.signature_check, *self.way.check_names, "used once", "requester"):
                yield Check(name, None, "", _UNREAD)
        else:
            yield passed("not void", "the trail does not call it void", (facts.is_void(*given.marks), VOID, VOID_TEXT))
            if signed:
                yield tried(self.way.signature_check, self._verify)
            yield from given.checks
            used = facts.id_used or facts.nonce_used(given.nonce)
            once = "this request or this approval was used before"
            again = f"{once}; make a new one: threegate draft --again {facts.request.request_id}"
            yield passed("used once", "never used before", (used, "replayed", again))
            own = requester_of(facts.request, facts.requesters, facts.owner) == given.approver
            alone = "whoever asks cannot approve; another operator must"
            yield passed("requester", "another than the approver", (own, "self_approval", alone))
        yield self._inputs()
        if given is None and self.way is SIGNED:
            yield Check("quorum", None, "", _UNREAD)
        elif given is not None and given.statement is not None:
            yield tried("quorum", self._count_signers)

    def _read(self) -> Check:
        """Read the signature file: as an act of a plugin that is on, else as a statement about this request."""
        facts, data = self.facts, self.facts.signature
        if data is None:
            return Check(self.way.file_check, False, "signature_missing", NO_SIGNATURE)
        ways = WAYS.given(facts.settings.plugins.off).values() if is_act(data) else ()
        self.way = way = next((way for way in ways if way.is_mine(data)), SIGNED)
        try:
            self.given = way.read(facts, data)
        except Refused as refusal:
            return Check(way.file_check, False, refusal.code, str(refusal))
        return Check(way.file_check, True, "", self.given.says)

    def _verify(self) -> str:
        """The signature is the approver's: it was valid when it was given, and is valid now."""
        given = self.given
        assert given is not None and given.signed is not None and given.signed_utc is not None
        fingerprint = verify_signer(
            given.signed.statement,
            given.signed.signature,
            given.approver,
            self.way.namespace,
            self.facts.operators,
            at=(given.signed_utc, self.facts.now),
        )
        self.signers = [Signer(given.approver, fingerprint)]
        return f"by {given.approver}, key {fingerprint}"

    def _inputs(self) -> Check:
        facts = self.facts
        for item in facts.job.inputs:
            found = facts.pinned.get(item.sha256)
            if found is None:
                return Check("inputs", False, "input_missing", f"the pinned bytes of {item.name} are not in inputs/")
            if found.size != item.size or found.sha256 not in (None, item.sha256):
                other = f"the pinned bytes of {item.name} are not those that were signed"
                return Check("inputs", False, "input_changed", other)
        return Check("inputs", True, "", f"{len(facts.job.inputs)} pinned")

    def _count_signers(self) -> str:
        facts, given = self.facts, self.given
        assert given is not None and given.statement is not None
        approval = given.statement
        risk = facts.job.effective_risk if approval.batch is None else approval.batch.risk
        needed = facts.signers_needed(risk)
        if len(facts.countersignatures) > limits.COUNTERSIGNATURES:
            raise Refused("signature_file_malformed", f"more than {limits.COUNTERSIGNATURES} countersignatures")
        signers = [Signer(given.approver, approval.signed.signature.key.fingerprint)]
        for name, data in sorted(facts.countersignatures.items()):
            signers.append(
                check_countersignature(
                    approval,
                    data,
                    name=name,
                    operators=facts.operators,
                    requester=requester_of(facts.request, facts.requesters, facts.owner),
                    nonce_used=facts.nonce_used,
                    now=facts.now,
                )
            )
        # One person with two keys is one signer, and so are two names that share a key.
        distinct = min(len({signer.name for signer in signers}), len({signer.fingerprint for signer in signers}))
        if distinct < needed:
            message = (
                f"{distinct} of {needed} operators signed; others can: threegate approve {facts.request.request_id}"
            )
            raise Refused("quorum_missing", message)
        self.signers = signers
        return f"{len(signers)} of {needed} for risk {risk}"


_UNREAD: Final = "not checked: there is no readable signature"


def _read_statement(facts: LaunchFacts, data: bytes) -> Given:
    """A statement about this request, alone or in a batch."""
    try:
        approval = SignedApproval.parse(data, facts.request.request_id)
    except MalformedError as error:
        refuse_unjudged(facts)
        malformed = f"the signature file {error}; approve the request again"
        raise Refused("signature_file_malformed", malformed) from None
    statement = approval.statement
    kind = "one statement" if approval.batch is None else "a batch of statements"
    return Given(
        says=f"{kind} and one signature, approval {approval.approval_sha256}",
        approver=statement.approved_by,
        approved_utc=statement.approved_utc,
        expires_utc=statement.expires_utc,
        nonce=statement.nonce,
        marks=(statement.nonce, approval.approval_sha256),
        checks=_statement_checks(facts, approval),
        signed=approval.signed,
        signed_utc=statement.approved_utc,
        statement=approval,
        approval_sha256=approval.approval_sha256,
    )


def _statement_checks(facts: LaunchFacts, approval: SignedApproval) -> Iterator[Check]:
    statement, request = approval.statement, facts.request
    pairs = (
        ("request_id", statement.request_id, request.request_id),
        ("approved_by", statement.approved_by, request.approved_by),
        ("approved_utc", statement.approved_utc, request.approved_utc),
        ("inputs", statement.inputs, statement_inputs(request)),
    )
    mismatch = "statement_mismatch"
    # None: there is no `approved` event yet, as when `approve` makes these checks, or no trail here, as on a worker.
    another = facts.recorded_approval not in (None, approval.approval_sha256)
    renamed = facts.recorded_file not in (None, request.file_name)
    yield passed(
        "statement",
        "names this request",
        *(
            (there != here, mismatch, f"{name} of the statement is not that of the request")
            for name, there, here in pairs
        ),
        (another, mismatch, "the trail recorded another approval of this request"),
        (renamed, mismatch, "the file has another name than the one that was approved"),
    )

    # A member of a batch runs only by its own `approved` event: one that was never promoted has none.
    place, batch = approval.place, approval.batch
    strange = place != facts.recorded_batch and not facts.on_worker
    elsewhere = "the trail recorded no approval of this request at this place of this batch; approve it again"
    if place is None or batch is None:
        yield passed("batch", "not one of a batch", (strange, mismatch, elsewhere))
    else:
        riskier = RISKS.index(batch.risk) < RISKS.index(facts.job.effective_risk)
        yield passed(
            "batch",
            f"number {place.index + 1} of {len(batch.statements)} of the batch {place.batch_sha256}",
            (strange, mismatch, elsewhere),
            (riskier, mismatch, f"the batch is one of risk {batch.risk}, and the request is not"),
        )

    moved = (statement.workspace_id, statement.epoch) != (facts.workspace_id, facts.epoch)
    abroad = "the approval was given in another workspace, or before its adoption"
    yield passed("workspace", f"{facts.workspace_id}, epoch {facts.epoch}", (moved, "workspace_mismatch", abroad))
    edited = "the request's bytes are not those that were signed"
    yield passed(
        "request bytes",
        f"sha256 {request.sha256}",
        (statement.request_sha256 != request.sha256, "request_changed", edited),
    )
    other = statement.policy_sha256 != facts.policy_sha256
    since = changed_since(facts, facts.changed_policy() if other else ())
    yield passed("policy", f"sha256 {facts.policy_sha256}", (other, "policy_changed", since))
    other = statement.job_sha256 != facts.job.digest
    code, words = facts.elsewhere or facts.job.action.why_other()
    if other and facts.elsewhere is None and code == "job_changed" and (changed := facts.changed_text()):
        words = changed_since(facts, changed)
    yield passed("job", f"sha256 {facts.job.digest}", (other, code, words))
    if facts.shown_sha256 is None:
        yield Check("shown text", True, "", "compared by the daemon")
    else:
        other = facts.shown_sha256() != statement.shown_sha256
        unlike = changed_since(facts, facts.changed_text() if other else (), "what is shown of it")
        yield passed("shown text", f"sha256 {statement.shown_sha256}", (other, "shown_changed", unlike))

    began, ends = statement.approved_utc, statement.expires_utc
    until = f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    odd = not began < ends <= began + facts.ttl
    yield passed(
        "time",
        f"until {until}",
        *early(facts, began),
        (odd, "expired", "the approval names an end that approval.ttl does not allow"),
        (
            facts.now >= ends,
            "expired",
            f"the approval ended at {until}; use: threegate draft --again {facts.request.request_id}",
        ),
    )


SIGNED: Final = Way(
    _read_statement,
    ("statement", "batch", "workspace", "request bytes", "policy", "job", "shown text", "time"),
    namespace=NAMESPACE_APPROVAL,
)
"""By a statement about this request, or about several of which it is one."""
