"""Verify a signature of a plain or FIDO key in this process, without starting ssh-keygen.

Invariant: `verifies` returns True only if `ssh-keygen -Y verify` would exit with 0 for the same bytes and an
operators line that names the key; `signer` decides whether there is such a line, valid now and not revoked.
Where ssh-keygen accepts several spellings, this accepts one: numbers without leading zeros, an RSA value as
long as its modulus. tests/approval/test_against_ssh_keygen.py compares the two. Source: OpenSSH
PROTOCOL.sshsig and PROTOCOL.u2f, WebAuthn level 3 section 7.2, RFC 5656 section 3.1.2, RFC 8332, RFC 8709.
"""

from __future__ import annotations

import hashlib
import struct

from threegate.approval.passkey import check_client_data
from threegate.approval.ssh_wire import MalformedError, WireReader
from threegate.approval.sshsig import SshSignature, message_to_sign


def verifies(data: bytes, signature: SshSignature) -> bool:
    """Whether the key in `signature` signed `data`, in the signature's namespace. Not for certificates (ValueError)."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    if signature.key.certificate is not None:
        raise ValueError("a certificate is ssh-keygen's to verify")
    try:
        _verify(_signed_bytes(data, signature), signature)
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


def _verify(signed: bytes, signature: SshSignature) -> None:
    """Raises InvalidSignature, UnsupportedAlgorithm, ValueError."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    key, value = signature.key, signature.value
    hash_: hashes.HashAlgorithm
    _, *fields = _strings(key.blob)
    if key.type == "ssh-rsa":
        exponent, modulus = (int.from_bytes(field, "big") for field in fields)
        if len(value) != (modulus.bit_length() + 7) // 8:
            raise MalformedError("is not as long as its key")
        hash_ = hashes.SHA512() if signature.algorithm == "rsa-sha2-512" else hashes.SHA256()
        rsa.RSAPublicNumbers(exponent, modulus).public_key().verify(value, signed, padding.PKCS1v15(), hash_)
    elif "ecdsa" in key.type:
        curve, hash_ = {
            b"nistp256": (ec.SECP256R1(), hashes.SHA256()),
            b"nistp384": (ec.SECP384R1(), hashes.SHA384()),
            b"nistp521": (ec.SECP521R1(), hashes.SHA512()),
        }[fields[0]]
        numbers = WireReader(value)
        pair = encode_dss_signature(numbers.positive(), numbers.positive())
        numbers.end()
        public = ec.EllipticCurvePublicKey.from_encoded_point(curve, fields[1])
        public.verify(pair, signed, ec.ECDSA(hash_))
    else:
        ed25519.Ed25519PublicKey.from_public_bytes(fields[0]).verify(value, signed)


def _strings(blob: bytes) -> list[bytes]:
    """The fields of a plain key: each is a wire string."""
    reader, found = WireReader(blob), []
    while reader.position < len(blob):
        found.append(reader.string())
    return found
