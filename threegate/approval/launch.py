"""Everything that must be true of an approval at launch (docs/spec/2-approval.md, "Launch checks").

Invariant: `check_launch` returns only if every check passed; a check that cannot be made has failed. The
facts are values that the caller read once; nothing here reads a file or a clock (verifying a signature may
start ssh-keygen, in approval/signature).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from threegate.approval.batch import SignedApproval
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
from threegate.approval.granted import (
    check_grant_job,
    check_grant_signature,
    check_grant_terms,
    check_grant_time,
    read_grant,
)
from threegate.approval.launch_state import LaunchState, NotReadError
from threegate.approval.quorum import Signer, check_quorum
from threegate.approval.signature import genuine
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import MalformedError
from threegate.approval.sshsig import NAMESPACE_ACT, NAMESPACE_APPROVAL
from threegate.approval.unsigned import check_began, check_unsigned, check_unsigned_time
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.request.job import RISKS
from threegate.trail.history import UNKNOWN_EVENT, unknown_event_text


def check_launch(facts: LaunchFacts) -> VerifiedApproval:
    """Every check, in order, up to the first failure. Raises Refused with its reason code, Unavailable."""
    state = LaunchState(facts)
    for _, check in _steps(state):
        check(state)
    return state.verified()


def launch_checks(facts: LaunchFacts) -> list[Check]:
    """Every check with its outcome, for `threegate approval verify`, and what ssh-keygen says. Raises Unavailable."""
    state = LaunchState(facts)
    outcomes = []
    for name, check in _steps(state):
        try:
            outcomes.append(Check(name, True, "", check(state)))
        except Refused as refusal:
            outcomes.append(Check(name, False, refusal.code, str(refusal)))
        except NotReadError:
            outcomes.append(Check(name, None, "", "not checked: there is no readable signature"))
    if any(check.ok and check.name in ("signature", "grant signature") for check in outcomes):
        outcomes.append(_by_ssh_keygen(state))
    return outcomes


def _by_ssh_keygen(state: LaunchState) -> Check:
    """Verify the approver's signature again with an external program; a launch does not need this. Raises
    Unavailable.
    """
    act = state.grant.act if state.granted else None
    signed = state.grant.signed if act else state.signed.signed
    verified = genuine(
        signed.statement,
        signed.signature,
        act.acted_by if act else state.statement.approved_by,
        NAMESPACE_ACT if act else NAMESPACE_APPROVAL,
        state.facts.operators,
        at=(act.acted_utc if act else state.statement.approved_utc, state.facts.now),
    )
    if verified:
        return Check("ssh-keygen", True, "", "verifies the signature too")
    return Check("ssh-keygen", False, "signature_invalid", "does not verify what was verified here; report it")


_Step = tuple[str, Callable[[LaunchState], str]]


def _steps(state: LaunchState) -> Iterator[_Step]:
    yield "clock", _check_clock
    yield "operators file", _check_operators
    yield "history", _check_history
    if state.unsigned:
        yield "not void", _check_void
        yield "unsigned promotion", lambda state: check_unsigned(state.facts)
        yield "time", lambda state: check_unsigned_time(state.facts)
    elif state.granted:
        yield "grant file", _check_grant_file
        yield "not void", _check_void
        yield "grant signature", _check_grant_signature
        yield "grant terms", lambda state: check_grant_terms(state.facts, state.grant)
        yield "job", lambda state: check_grant_job(state.facts, state.grant)
        yield "time", lambda state: check_grant_time(state.facts, state.grant)
    else:
        yield "signature file", _check_file
        yield "not void", _check_void
        yield "signature", _check_signature
        yield "statement", _check_statement
        yield "batch", _check_batch
        yield "workspace", _check_workspace
        yield "request bytes", _check_request
        yield "policy", _check_policy
        yield "job", _check_job
        yield "shown text", _check_shown
        yield "time", _check_time
    yield "used once", _check_unused
    yield "requester", _check_requester
    yield "inputs", _check_inputs
    if not state.unsigned and not state.granted:
        yield "quorum", _check_quorum


def _check_clock(state: LaunchState) -> str:
    behind = state.facts.clock_behind_sec
    if behind > limits.CLOCK_BEHIND_SECONDS:
        raise Refused("clock_went_back", f"the clock is {behind:.0f} s behind the trail; set it right")
    return "not behind the trail"


def _check_operators(state: LaunchState) -> str:
    operators = state.facts.operators
    if operators.problem is not None:
        raise Refused("operators_changed", f"{operators.problem}; fix it with: threegate operator")
    if operators.digests != state.facts.recorded_operators:
        raise Refused(
            "operators_changed",
            "operators is not what the trail last recorded; look at it, then: threegate operator record",
        )
    return f"{len(operators.entries)} keys, as the trail recorded them"


def _check_history(state: LaunchState) -> str:
    if (kind := state.facts.unknown_kind) is not None:
        raise Refused(UNKNOWN_EVENT, unknown_event_text(kind))
    return "each of its events is of a kind that is known here"


def _check_file(state: LaunchState) -> str:
    if state.facts.signature is None:
        raise Refused("signature_missing", NO_SIGNATURE)
    try:
        state.approval = SignedApproval.parse(state.facts.signature, state.facts.request.request_id)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the signature file {error}; approve the request again") from None
    kind = "one statement" if state.approval.batch is None else "a batch of statements"
    return f"{kind} and one signature, approval {state.approval.approval_sha256}"


def _check_void(state: LaunchState) -> str:
    if state.facts.is_void(*state.marks):
        raise Refused(VOID, VOID_TEXT)
    return "the trail does not call it void"


def _check_signature(state: LaunchState) -> str:
    statement, facts = state.statement, state.facts
    fingerprint = verify_signer(
        state.signed.signed.statement,
        state.signed.signed.signature,
        statement.approved_by,
        NAMESPACE_APPROVAL,
        facts.operators,
        at=(statement.approved_utc, facts.now),
    )
    state.signers.append(Signer(statement.approved_by, fingerprint))
    return f"by {statement.approved_by}, key {fingerprint}"


def _check_grant_file(state: LaunchState) -> str:
    state.read = read_grant(state.facts.signature or b"")
    return f"grant {state.read.id}"


def _check_grant_signature(state: LaunchState) -> str:
    signer = check_grant_signature(state.facts, state.grant)
    state.signers.append(signer)
    return f"by {signer.name}, key {signer.fingerprint}"


def _check_statement(state: LaunchState) -> str:
    statement, facts = state.statement, state.facts
    request = facts.request
    for name, signed, found in (
        ("request_id", statement.request_id, request.request_id),
        ("approved_by", statement.approved_by, request.approved_by),
        ("approved_utc", statement.approved_utc, request.approved_utc),
        ("inputs", statement.inputs, statement_inputs(request)),
    ):
        if signed != found:
            raise Refused("statement_mismatch", f"{name} of the statement is not that of the request")
    if facts.recorded_approval is not None and facts.recorded_approval != state.signed.approval_sha256:
        raise Refused("statement_mismatch", "the trail recorded another approval of this request")
    if facts.recorded_file not in (None, request.file_name):
        raise Refused("statement_mismatch", "the file has another name than the one that was approved")
    return "names this request"


def _check_batch(state: LaunchState) -> str:
    """A member of a batch runs only by its own `approved` event: one that was never promoted, or was
    abandoned, has none.
    """
    facts, place, batch = state.facts, state.signed.place, state.signed.batch
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


def _check_workspace(state: LaunchState) -> str:
    statement, facts = state.statement, state.facts
    if (statement.workspace_id, statement.epoch) != (facts.workspace_id, facts.epoch):
        raise Refused("workspace_mismatch", "the approval was given in another workspace, or before its adoption")
    return f"{facts.workspace_id}, epoch {facts.epoch}"


def _check_request(state: LaunchState) -> str:
    if state.statement.request_sha256 != state.facts.request.sha256:
        raise Refused("request_changed", "the request's bytes are not those that were signed")
    return f"sha256 {state.facts.request.sha256}"


def _check_policy(state: LaunchState) -> str:
    if state.statement.policy_sha256 != state.facts.policy_sha256:
        raise Refused("policy_changed", "settings, contracts, images or versions changed since; approve it again")
    return f"sha256 {state.facts.policy_sha256}"


def _check_job(state: LaunchState) -> str:
    found = state.facts.job.digest
    if state.statement.job_sha256 != found:
        raise Refused(*state.facts.job.action.why_other())
    return f"sha256 {found}"


def _check_shown(state: LaunchState) -> str:
    signed, again = state.statement.shown_sha256, state.facts.shown_sha256
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


def _check_time(state: LaunchState) -> str:
    statement, facts = state.statement, state.facts
    ttl = timedelta(seconds=facts.ttl_sec)
    check_began(facts, statement.approved_utc)
    if not statement.approved_utc < statement.expires_utc <= statement.approved_utc + ttl:
        raise Refused("expired", "the approval names an end that approval.ttl does not allow")
    if facts.now >= statement.expires_utc:
        raise Refused("expired", f"the approval ended at {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}; retry it")
    return f"until {statement.expires_utc:%Y-%m-%dT%H:%M:%SZ}"


def _check_unused(state: LaunchState) -> str:
    if state.facts.id_used or state.facts.nonce_used(state.nonce):
        raise Refused("replayed", "this request or this approval was used before; make a new one: threegate retry")
    return "never used before"


def _check_requester(state: LaunchState) -> str:
    facts = state.facts
    approver = state.approver
    requester = requester_of(facts.request, facts.requesters, facts.owner)
    if requester == approver:
        raise Refused("self_approval", "whoever asks cannot approve; another operator must")
    return "another than the approver"


def _check_inputs(state: LaunchState) -> str:
    for item in state.facts.job.inputs:
        found = state.facts.pinned.get(item.sha256)
        if found is None:
            raise Refused("input_missing", f"the pinned bytes of {item.name} are not in inputs/")
        if found.size != item.size or found.sha256 not in (None, item.sha256):
            raise Refused("input_changed", f"the pinned bytes of {item.name} are not those that were signed")
    return f"{len(state.facts.job.inputs)} pinned"


def _check_quorum(state: LaunchState) -> str:
    facts, statement = state.facts, state.statement
    batch = state.signed.batch
    risk = facts.job.effective_risk if batch is None else batch.risk
    needed: int = getattr(facts.quorum, risk)
    signers = check_quorum(
        state.signed,
        Signer(statement.approved_by, state.signed.signed.signature.key.fingerprint),
        facts.countersignatures,
        operators=facts.operators,
        requester=requester_of(facts.request, facts.requesters, facts.owner),
        nonce_used=facts.nonce_used,
        needed=needed,
        now=facts.now,
    )
    state.signers = signers
    return f"{len(signers)} of {needed} for risk {risk}"
