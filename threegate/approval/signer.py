"""Whether one signature is valid: by whom, with which key, at which times; each way to fail has its own code.

Invariant: `verify_signer` returns only for a genuine signature by a name that the operators file assigns to
its key, valid at every requested time and not revoked. Plain keys, FIDO keys and passkeys are verified in
this process; certificates by ssh-keygen; if the revocation file is a KRL, every key by both. The code of a
refusal is determined afterwards, so distinguishing reasons can never accept anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from threegate.approval.in_process import verifies
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

    Raises Refused with signer_unknown, signature_invalid, signer_expired or signer_revoked; Unavailable if
    ssh-keygen is needed and cannot be run (then nothing is known, and nothing runs).
    """
    if signature.namespace != namespace:
        raise Refused("signature_invalid", f"the signature is not for {namespace}: sign the statement again")
    entry = _entry_of(signature, name, operators)
    _check_use(signature, entry, namespace)
    if (wrong := signature.problem()) is not None:
        raise Refused("signature_invalid", f"the signature {wrong}; sign with another key")
    _check_window(signature, entry, at)
    key = signature.key
    if key.certificate is None and not verifies(data, signature):
        raise Refused("signature_invalid", f"the signature of {name} is not one over these bytes")
    if key.certificate is None and operators.revoked_keys is not None:
        if key.blob in operators.revoked_keys:
            raise Refused("signer_revoked", f"the key {key.fingerprint} of {name} is revoked")
        return key.fingerprint
    if genuine(data, signature, name, namespace, operators, at=at):
        return key.fingerprint
    if operators.revoked is not None and genuine(data, signature, name, namespace, operators, at=at, revocation=False):
        raise Refused("signer_revoked", f"the key {key.fingerprint} of {name} is revoked")
    raise Refused("signature_invalid", f"ssh-keygen does not verify the signature of {name}")


def _entry_of(signature: SshSignature, name: str, operators: Operators) -> Operator:
    """The line that assigns the name to the key, or to the CA of its certificate."""
    certificate = signature.key.certificate
    for entry in operators.of(name):
        if certificate is None:
            if not entry.authority and entry.key.blob == signature.key.blob:
                return entry
        elif entry.authority and entry.key.blob == certificate.authority.blob and name in certificate.principals:
            return entry
    raise Refused("signer_unknown", f"the key {signature.key.fingerprint} is not one that operators gives to {name}")


def _check_use(signature: SshSignature, entry: Operator, namespace: str) -> None:
    """A passkey approves and logs in, in the browser's format and from its own origin; every other key
    approves and acts.
    """
    passkey, assertion = entry.passkey, signature.assertion
    if namespace not in entry.namespaces:
        allowed = "approvals only" if passkey is not None else "no logins"
        raise Refused("signature_invalid", f"the key of {entry.name} may sign {allowed}; use another key")
    origin = None if passkey is None else passkey.origin
    if origin != (None if assertion is None else assertion.origin):
        raise Refused(
            "signature_invalid",
            f"the key of {entry.name} is pinned to {origin or 'no web origin'}; the signature comes from elsewhere",
        )


def _check_window(signature: SshSignature, entry: Operator, at: Sequence[datetime]) -> None:
    certificate = signature.key.certificate
    for moment in at:
        inside = (entry.valid_after is None or entry.valid_after <= moment) and (
            entry.valid_before is None or moment < entry.valid_before
        )
        if inside and certificate is not None:
            inside = certificate.valid_after <= moment.timestamp() < certificate.valid_before
        if not inside:
            raise Refused("signer_expired", f"the key of {entry.name} is not valid at {moment:%Y-%m-%dT%H:%M:%SZ}")
