"""Several operators for one request: countersignatures, and which of them count.

Invariant: a signer counts once, by name and by key; an invalid countersignature is a refusal, not just one
signature less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from threegate.approval.operators import Operators
from threegate.approval.signer import verify_signer
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, MalformedError
from threegate.approval.statement import Countersignature, SignedApproval, SignedBytes
from threegate.core import limits
from threegate.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Signer:
    """A signer whose signature was verified: name and key fingerprint."""

    name: str
    fingerprint: str


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
