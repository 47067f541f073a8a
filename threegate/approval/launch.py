"""Everything that must be true of an approval at launch (docs/spec/2-approval.md, "Launch checks").

Invariant: `check_launch` returns only if every check passed; a check that cannot be made has failed. Each way to an
approval has the checks that are made here; what it adds is in way.py, signed_file.py and unsigned.py. The facts are
values that the caller read once; nothing here reads a file or a clock (verifying a signature may start ssh-keygen, in
approval/signature).
"""

from __future__ import annotations

from collections.abc import Iterator

from threegate.approval.facts import NO_SIGNATURE, VOID, VOID_TEXT, Check, LaunchFacts, VerifiedApproval, requester_of
from threegate.approval.quorum import Signer
from threegate.approval.signature import genuine
from threegate.approval.signed_file import SignedFile
from threegate.approval.signer import verify_signer
from threegate.approval.unsigned import ByHand
from threegate.approval.way import NotReadError, SignedWay, Step, Way, way_of_act
from threegate.core import limits
from threegate.core.errors import Refused
from threegate.trail.history import UNKNOWN_EVENT, unknown_event_text


def check_launch(facts: LaunchFacts) -> VerifiedApproval:
    """Every check, in order, up to the first failure. Raises Refused with its reason code, Unavailable."""
    way = _way_of(facts)
    for _, check in _steps(way):
        check()
    return way.verified()


def launch_checks(facts: LaunchFacts) -> list[Check]:
    """Every check with its outcome, for `threegate approval verify`, and what ssh-keygen says. Raises Unavailable."""
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
    if facts.signature is None and facts.mode == "optional":
        return ByHand(facts)
    return way_of_act(facts) or SignedFile(facts)


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
        raise Refused("replayed", "this request or this approval was used before; make a new one: threegate retry")
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
