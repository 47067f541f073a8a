"""SSH public keys and certificates as they occur in signatures and in the operators file.

Invariant: a `PublicKey` exists only for a blob that was parsed completely and has a type that may approve.
Its certificate fields are the blob's claims; ssh-keygen verifies whether the certificate is genuine. Source:
RFC 4253 section 6.6, OpenSSH PROTOCOL.certkeys and PROTOCOL.u2f.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from threegate.approval.ssh_wire import MalformedError, WireReader, string
from threegate.core import limits

_CURVES: Final = {"nistp256": 32, "nistp384": 48, "nistp521": 66}
_CERTIFICATE: Final = "-cert-v01@openssh.com"
SK_ECDSA: Final = "sk-ecdsa-sha2-nistp256@openssh.com"
"""The type of a FIDO key on P-256, and of a passkey."""
_SK: Final = ("sk-ssh-ed25519@openssh.com", SK_ECDSA)
PLAIN_TYPES: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    *_SK,
)
"""Key types that may approve. DSA is not one of them."""
_CERTIFICATE_TYPES: Final = {name.removesuffix("@openssh.com") + _CERTIFICATE: name for name in PLAIN_TYPES}
_USER_CERTIFICATE: Final = 1


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate states about its key. Times are seconds since 1970; `principals` may be empty."""

    serial: int
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical_options: bool
    authority: PublicKey


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: its plain type and plain blob (without any certificate), and the certificate around it."""

    type: str
    blob: bytes
    bits: int
    certificate: Certificate | None = None

    @property
    def hardware(self) -> bool:
        """Whether it is a FIDO key, whose signatures record whether it was touched."""
        return self.type in _SK

    @property
    def application(self) -> str:
        """The application of a FIDO key: ``ssh:…``, or a passkey's host name; empty for other keys."""
        reader, last = WireReader(self.blob), b""
        while self.hardware and reader.position < len(self.blob):
            last = reader.string()
        return last.decode("ascii")

    @property
    def fingerprint(self) -> str:
        """``SHA256:…`` of the plain key, as ssh-keygen prints it; a certificate has that of its key."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def problem(self) -> str | None:
        """None if the key may sign here, else what is wrong with it."""
        if self.type == "ssh-rsa" and self.bits < limits.RSA_BITS:
            return f"an RSA key of {self.bits} bits; at least {limits.RSA_BITS} are needed"
        certificate = self.certificate
        if certificate is None:
            return None
        if certificate.kind != _USER_CERTIFICATE:
            return "a certificate that is not for a user"
        if certificate.critical_options:
            return "a certificate with critical options"
        if (wrong := certificate.authority.problem()) is not None:
            return f"a certificate signed by {wrong}"
        return None


def parse_key(blob: bytes) -> PublicKey:
    """Read a public key or certificate blob. Raises MalformedError unless it is a complete, known one."""
    reader = WireReader(blob)
    name = reader.text()
    if name in PLAIN_TYPES:
        start = reader.position
        bits = _skip_key(reader, name)
        reader.end()
        return PublicKey(name, string(name.encode()) + blob[start:], bits)
    if name in _CERTIFICATE_TYPES:
        return _certificate(reader, _CERTIFICATE_TYPES[name])
    raise MalformedError("is a key of a type that may not approve")


def parse_key_text(type_name: str, text: str) -> PublicKey:
    """Read a plain key as it is in a file: type and base64. Raises MalformedError."""
    blob = decode_base64(text)
    key = parse_key(blob)
    if key.type != type_name or key.certificate is not None:
        raise MalformedError("is a key of another type than its line says")
    return key


def decode_base64(text: str) -> bytes:
    """Base64 that has exactly one spelling. Raises MalformedError."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise MalformedError("is no base64") from None
    if base64.b64encode(data).decode() != text:
        raise MalformedError("is base64 in an unusual spelling")
    return data


def _skip_key(reader: WireReader, name: str) -> int:
    """Read the fields of a plain key and give its size in bits."""
    if name == "ssh-rsa":
        reader.positive()
        return reader.positive().bit_length()
    if "ecdsa" in name:
        curve = reader.text()
        if curve not in _CURVES or not name.removesuffix("@openssh.com").endswith(curve):
            raise MalformedError("names another curve than its type")
        point = reader.string()
        if len(point) != 1 + 2 * _CURVES[curve] or point[0] != 4:
            raise MalformedError("has no uncompressed point of its curve")
        bits = int(curve.removeprefix("nistp"))
    else:
        if len(reader.string()) != 32:
            raise MalformedError("has no 32 bytes of Ed25519 key")
        bits = 256
    if name in _SK:
        reader.text()
    return bits


def _certificate(reader: WireReader, plain: str) -> PublicKey:
    reader.string()  # nonce
    start = reader.position
    bits = _skip_key(reader, plain)
    blob = string(plain.encode()) + reader.since(start)
    serial = reader.uint64()
    kind = reader.uint32()
    key_id = reader.text()
    names = WireReader(reader.string())
    principals = []
    while names.position < len(names.data):
        principals.append(names.text())
    valid_after, valid_before = reader.uint64(), reader.uint64()
    critical = bool(reader.string())
    reader.string()  # extensions: permissions of a login, irrelevant here
    reader.string()  # reserved
    authority = parse_key(reader.string())
    reader.string()  # the authority's signature: ssh-keygen verifies it
    reader.end()
    if authority.certificate is not None:
        raise MalformedError("is a certificate signed by a certificate")
    certificate = Certificate(serial, kind, key_id, tuple(principals), valid_after, valid_before, critical, authority)
    return PublicKey(plain, blob, bits, certificate)
