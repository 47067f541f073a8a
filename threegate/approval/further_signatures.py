"""What operators sign besides approvals: countersignatures, and acts (a contract checkpoint's answer, a kill, an undo,
a grant).

Invariant: a signer counts once, by name and by key; an invalid countersignature is a refusal, not just one signature
less. An act is valid for one type, one workspace and epoch, one nonce, and only for a short time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from threegate.approval.operators import Operators
from threegate.approval.signer import Signer, verify_signer
from threegate.approval.ssh_wire import NAMESPACE_ACT, NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import Act, Countersignature, SignedApproval, SignedBytes
from threegate.core import limits
from threegate.core.errors import Refused


def check_countersignature(
    approval: SignedApproval,
    data: bytes,
    *,
    name: str,
    operators: Operators,
    requester: str,
    nonce_used: Callable[[str], bool],
    now: datetime,
) -> Signer:
    """Verify one ``.sig.<name>`` file. Raises Refused with its reason code, Unavailable."""
    try:
        signed = SignedBytes.parse(data)
        word = Countersignature.parse(signed.statement)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the countersignature of {name} {error}") from None
    if word.countersigned_by != name or approval.approval_sha256 not in word.covers:
        raise Refused("statement_mismatch", f"the countersignature of {name} is for something else")
    fingerprint = verify_signer(
        signed.statement,
        signed.signature,
        name,
        NAMESPACE_APPROVAL,
        operators,
        at=(word.countersigned_utc, now),
    )
    if word.countersigned_utc > now + timedelta(seconds=limits.APPROVED_AHEAD_SECONDS):
        raise Refused("not_yet_valid", f"the countersignature of {name} is dated in the future")
    statement = approval.statement
    # A second opinion from before the first one, or after its end, is not about this approval.
    if not statement.approved_utc <= word.countersigned_utc < statement.expires_utc:
        raise Refused("expired", f"the countersignature of {name} was not given while the approval held")
    if nonce_used(word.nonce) or word.nonce == statement.nonce:
        raise Refused("replayed", f"the countersignature of {name} was used before")
    if name == requester:
        raise Refused("self_approval", "whoever asks cannot countersign; another operator must")
    return Signer(name, fingerprint)


def check_act(
    data: bytes,
    type: str,
    *,
    operators: Operators,
    recorded_operators: tuple[str | None, ...],
    workspace_id: str,
    epoch: int,
    nonce_used: Callable[[str], bool],
    now: datetime,
    max_age_sec: int,
) -> tuple[Act, Signer]:
    """Verify the signature file of an act. Raises Refused with a reason code of this gate, Unavailable."""
    if operators.problem is not None or operators.digests != recorded_operators:
        raise Refused("operators_changed", "operators is not what the trail last recorded")
    try:
        signed = SignedBytes.parse(data)
        act = Act.parse(signed.statement, type)
    except MalformedError as error:
        raise Refused("signature_file_malformed", f"the signed act {error}") from None
    fingerprint = verify_signer(
        signed.statement, signed.signature, act.acted_by, NAMESPACE_ACT, operators, at=(act.acted_utc, now)
    )
    if (act.workspace_id, act.epoch) != (workspace_id, epoch):
        raise Refused("workspace_mismatch", "the act was signed for another workspace, or before its adoption")
    if act.acted_utc > now + timedelta(seconds=limits.APPROVED_AHEAD_SECONDS):
        raise Refused("not_yet_valid", "the act is dated in the future")
    # Short-lived: a copy of the file must not act later, when its author thinks that nothing came of it.
    if now >= act.acted_utc + timedelta(seconds=max_age_sec):
        raise Refused("expired", "the act was signed too long ago; sign it again")
    if nonce_used(act.nonce):
        raise Refused("replayed", "the act was already done")
    return act, Signer(act.acted_by, fingerprint)
