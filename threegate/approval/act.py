"""Verify a signed act: a contract checkpoint's answer, a kill, an undo, a grant.

Invariant: an act is valid for one type, one workspace and epoch, one nonce, and only for a short time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from threegate.approval.operators import Operators
from threegate.approval.quorum import Signer
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_ACT, MalformedError
from threegate.approval.statement import Act, SignedBytes
from threegate.core import limits
from threegate.core.errors import Refused


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
