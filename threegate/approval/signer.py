"""Whether one signature counts: by whom, with which key, at which moments; each way to fail has its own code.

Invariant: `verify_signer` returns only for a signature that ssh-keygen verified, by a name that the operators
file gives to its key, valid at every moment asked for and not revoked. The code of a refusal is found out
afterwards, so telling reasons apart can never let anything pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from threegate.approval.operators import Operator, Operators
from threegate.approval.signature import genuine
from threegate.approval.sshsig import SshSignature
from threegate.core.errors import Refused


def verify_signer(
    data: bytes,
    signature: SshSignature,
    name: str,
    namespace: str,
    operators: Operators,
    *,
    at: Sequence[datetime],
) -> str:
    """Verify and return the fingerprint of the signing key.

    Raises Refused with signer_unknown, signature_invalid, signer_expired or signer_revoked; Unavailable when
    ssh-keygen cannot be run (nothing is known then, and nothing runs).
    """
    if signature.namespace != namespace:
        raise Refused("signature_invalid", f"the signature is not for {namespace}: sign the statement anew")
    entry = _entry_of(signature, name, operators)
    if (wrong := signature.problem()) is not None:
        raise Refused("signature_invalid", f"the signature {wrong}; sign with another key")
    _check_window(signature, entry, at)
    at = _moments(signature, operators, at)
    if genuine(data, signature, name, namespace, operators, at=at):
        return signature.key.fingerprint
    if operators.revoked is not None and genuine(
        data, signature, name, namespace, operators, at=at, revocation=False
    ):
        raise Refused("signer_revoked", f"the key {signature.key.fingerprint} of {name} is revoked")
    raise Refused("signature_invalid", f"ssh-keygen does not verify the signature of {name}")


def _entry_of(signature: SshSignature, name: str, operators: Operators) -> Operator:
    """The line that gives the name to the key, or to the authority of its certificate."""
    certificate = signature.key.certificate
    for entry in operators.of(name):
        if certificate is None:
            if not entry.authority and entry.key.blob == signature.key.blob:
                return entry
        elif (
            entry.authority
            and entry.key.blob == certificate.authority.blob
            and name in certificate.principals
        ):
            return entry
    raise Refused(
        "signer_unknown", f"the key {signature.key.fingerprint} is not one that operators gives to {name}"
    )


def _moments(signature: SshSignature, operators: Operators, at: Sequence[datetime]) -> Sequence[datetime]:
    """The moments that ssh-keygen must be asked for: the last one where no window and no certificate makes one differ
    from another (a revocation has no moment)."""
    windows = any(entry.valid_after or entry.valid_before or entry.authority for entry in operators.entries)
    return at if windows or signature.key.certificate is not None else at[-1:]


def _check_window(signature: SshSignature, entry: Operator, at: Sequence[datetime]) -> None:
    certificate = signature.key.certificate
    for moment in at:
        inside = (entry.valid_after is None or entry.valid_after <= moment) and (
            entry.valid_before is None or moment < entry.valid_before
        )
        if inside and certificate is not None:
            inside = certificate.valid_after <= moment.timestamp() < certificate.valid_before
        if not inside:
            raise Refused(
                "signer_expired", f"the key of {entry.name} is not valid at {moment:%Y-%m-%dT%H:%M:%SZ}"
            )
