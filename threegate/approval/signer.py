"""Whether one signature is valid: by whom, with which key, at which times; each way to fail has its own code.

Invariant: `verify_signer` returns only for a genuine signature by a name that the operators file assigns to
its key, valid at every requested time and not revoked. Plain keys, FIDO keys and passkeys are verified in
this process; certificates by ssh-keygen; if the revocation file is a KRL, every key by both. The code of a
refusal is determined afterwards, so distinguishing reasons can never accept anything.

`verifies` returns True only if `ssh-keygen -Y verify` would exit with 0 for the same bytes and an operators line that
names the key. Where ssh-keygen accepts several spellings, it accepts one: numbers without leading zeros, an RSA value
as long as its modulus. tests/approval/test_against_ssh_keygen.py compares the two. Source: OpenSSH PROTOCOL.sshsig and
PROTOCOL.u2f, WebAuthn level 3 section 7.2, RFC 5656 section 3.1.2, RFC 8332, RFC 8709.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from threegate.approval.operators import Operator, Operators
from threegate.approval.passkey import check_client_data
from threegate.approval.signature import genuine
from threegate.approval.ssh_wire import (
    NAMESPACE_ACT,
    NAMESPACE_APPROVAL,
    NAMESPACE_LOGIN,
    PublicKey,
    SshSignature,
    WireReader,
    message_to_sign,
)
from threegate.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Signer:
    """A signer whose signature was verified: name and key fingerprint."""

    name: str
    fingerprint: str


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
    # What the same key signed for another purpose (an act, a git commit) never counts as an approval.
    if signature.namespace != namespace:
        raise Refused("signature_invalid", f"the signature is not for {namespace}: sign the statement again")
    key, certificate, assertion = signature.key, signature.key.certificate, signature.assertion
    entry = _entry_of(key, name, operators)
    # A passkey approves and logs in, in the browser's format and from its own origin; other keys approve and act.
    if namespace not in (NAMESPACE_APPROVAL, NAMESPACE_ACT if entry.passkey is None else NAMESPACE_LOGIN):
        allowed = "approvals only" if entry.passkey is not None else "no logins"
        raise Refused("signature_invalid", f"the key of {name} may sign {allowed}; use another key")
    # In both directions: a passkey signs only through its own page, and no other key through any.
    origin = None if entry.passkey is None else entry.passkey.origin
    if origin != (None if assertion is None else assertion.origin):
        raise Refused(
            "signature_invalid",
            f"the key of {name} is pinned to {origin or 'no web origin'}; the signature comes from elsewhere",
        )
    if (wrong := signature.problem()) is not None:
        raise Refused("signature_invalid", f"the signature {wrong}; sign with another key")
    # Valid when it was signed and valid now: a key that expired in between no longer launches anything.
    for moment in at:
        inside = (entry.valid_after is None or entry.valid_after <= moment) and (
            entry.valid_before is None or moment < entry.valid_before
        )
        if inside and certificate is not None:
            inside = certificate.valid_after <= moment.timestamp() < certificate.valid_before
        if not inside:
            raise Refused("signer_expired", f"the key of {name} is not valid at {moment:%Y-%m-%dT%H:%M:%SZ}")
    if certificate is None and not verifies(data, signature):
        raise Refused("signature_invalid", f"the signature of {name} is not one over these bytes")
    # None for a KRL: then ssh-keygen decides below, about this key too.
    if certificate is None and operators.revoked_keys is not None:
        if key.blob in operators.revoked_keys:
            raise Refused("signer_revoked", f"the key {key.fingerprint} of {name} is revoked")
        return key.fingerprint
    if genuine(data, signature, name, namespace, operators, at=at):
        return key.fingerprint
    # Only to name the reason: whatever this says, the signature is refused.
    if operators.revoked is not None and genuine(data, signature, name, namespace, operators, at=at, revocation=False):
        raise Refused("signer_revoked", f"the key {key.fingerprint} of {name} is revoked")
    raise Refused("signature_invalid", f"ssh-keygen does not verify the signature of {name}")


def _entry_of(key: PublicKey, name: str, operators: Operators) -> Operator:
    """The line that assigns the name to the key, or to the CA of its certificate."""
    certificate = key.certificate
    for entry in operators.of(name):
        if certificate is None:
            if not entry.authority and entry.key.blob == key.blob:
                return entry
        elif entry.authority and entry.key.blob == certificate.authority.blob and name in certificate.principals:
            return entry
    raise Refused("signer_unknown", f"the key {key.fingerprint} is not one that operators gives to {name}")


def verifies(data: bytes, signature: SshSignature) -> bool:
    """Whether the key in `signature` signed `data`, in the signature's namespace. Not for certificates (ValueError)."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    key, value = signature.key, signature.value
    if key.certificate is not None:
        raise ValueError("a certificate is ssh-keygen's to verify")
    hash_: hashes.HashAlgorithm
    try:
        reader, fields = WireReader(key.blob), []
        while reader.position < len(key.blob):
            fields.append(reader.string())
        signed = _signed_bytes(data, signature)
        if key.type == "ssh-rsa":
            exponent, modulus = (int.from_bytes(field, "big") for field in fields[1:])
            if len(value) != (modulus.bit_length() + 7) // 8:
                return False
            hash_ = hashes.SHA512() if signature.algorithm == "rsa-sha2-512" else hashes.SHA256()
            rsa.RSAPublicNumbers(exponent, modulus).public_key().verify(value, signed, padding.PKCS1v15(), hash_)
        elif "ecdsa" in key.type:
            curve, hash_ = {
                b"nistp256": (ec.SECP256R1(), hashes.SHA256()),
                b"nistp384": (ec.SECP384R1(), hashes.SHA384()),
                b"nistp521": (ec.SECP521R1(), hashes.SHA512()),
            }[fields[1]]
            numbers = WireReader(value)
            pair = encode_dss_signature(numbers.positive(), numbers.positive())
            numbers.end()
            public = ec.EllipticCurvePublicKey.from_encoded_point(curve, fields[2])
            public.verify(pair, signed, ec.ECDSA(hash_))
        else:
            ed25519.Ed25519PublicKey.from_public_bytes(fields[1]).verify(value, signed)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        return False  # ValueError: a point not on its curve, an RSA key that OpenSSL rejects, MalformedError
    return True


def _signed_bytes(data: bytes, signature: SshSignature) -> bytes:
    """What the key signed: the hashed message in its namespace and, for a FIDO key, what token and browser
    added around it.

    Raises MalformedError if the browser's part contains anything not allowed.
    """
    message = message_to_sign(data, signature.namespace, signature.message_hash)
    if not signature.key.hardware:
        return message
    if (assertion := signature.assertion) is not None:
        check_client_data(assertion, message)
        message = assertion.client_data
    return (
        hashlib.sha256(signature.key.application.encode()).digest()
        + struct.pack(">BI", signature.flags, signature.counter)
        + hashlib.sha256(message).digest()
    )
