"""What SSH writes: its wire format, public keys and certificates, and signatures with their armor.

Invariant: what `WireReader` returned and `end` accepted is exactly the bytes that it was given. A `PublicKey` exists
only for a blob that was parsed completely and has a type that may approve; its certificate fields are the blob's
claims. `parse_armor(text)` succeeds only if rendering the result gives `text` again, so that changing a single byte of
a signature file causes a refusal. `signer` or ssh-keygen verify whether signature and certificate are genuine; what
ssh-keygen ignores (the touch of a FIDO key) is checked here. Source: RFC 4251 section 5, RFC 4253 section 6.6, OpenSSH
PROTOCOL.sshsig, PROTOCOL.certkeys and PROTOCOL.u2f.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from threegate.core import limits


class MalformedError(ValueError):
    """Bytes that do not fit where they occur. The text says what is wrong and never repeats them."""


class WireReader:
    """A cursor over bytes. Every method raises MalformedError if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        end = self.position + length
        if end > len(self.data):
            raise MalformedError("ends in the middle of a value")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def number(self, size: int = 4) -> int:
        """A number of `size` bytes, most significant byte first."""
        return int.from_bytes(self.take(size), "big")

    def string(self) -> bytes:
        """A length and that many bytes."""
        return self.take(self.number())

    def text(self) -> str:
        """A string of printable ASCII."""
        data = self.string()
        text = data.decode("latin-1")
        if not text.isascii() or not text.isprintable():
            raise MalformedError("has a name that is not printable ASCII")
        return text

    def positive(self) -> int:
        """A positive mpint in its only spelling (RFC 4251 section 5)."""
        data = self.string()
        value = int.from_bytes(data, "big")
        if value == 0 or data[0] & 0x80 or (data[0] == 0 and not data[1] & 0x80):
            raise MalformedError("has a number in an unusual spelling")
        return value

    def since(self, start: int) -> bytes:
        """The bytes from `start` to the cursor."""
        return self.data[start : self.position]

    def end(self) -> None:
        """Raise MalformedError if anything follows."""
        if self.position != len(self.data):
            raise MalformedError("has bytes after its end")


def string(data: bytes) -> bytes:
    """`data` as a wire string."""
    return struct.pack(">I", len(data)) + data


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
        raise MalformedError("is not base64") from None
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
            raise MalformedError("does not have an uncompressed point of its curve")
        bits = int(curve.removeprefix("nistp"))
    else:
        if len(reader.string()) != 32:
            raise MalformedError("does not have the 32 bytes of an Ed25519 key")
        bits = 256
    if name in _SK:
        reader.text()
    return bits


def _certificate(reader: WireReader, plain: str) -> PublicKey:
    reader.string()  # nonce
    start = reader.position
    bits = _skip_key(reader, plain)
    blob = string(plain.encode()) + reader.since(start)
    serial = reader.number(8)
    kind = reader.number()
    key_id = reader.text()
    names = WireReader(reader.string())
    principals = []
    while names.position < len(names.data):
        principals.append(names.text())
    valid_after, valid_before = reader.number(8), reader.number(8)
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


NAMESPACE_APPROVAL: Final = "threegate-approval"
NAMESPACE_ACT: Final = "threegate-act"
NAMESPACE_LOGIN: Final = "threegate-login"
"""For viewing the page that accepts passkeys; a login approves nothing."""

_MAGIC: Final = b"SSHSIG"
_VERSION: Final = 1
_COLUMNS: Final = 70
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----\n"
_END: Final = "-----END SSH SIGNATURE-----\n"
_USER_PRESENT: Final = 0x01
_FLAGS: Final = 0x05
"""User present and user verified are the only flags that OpenSSH sets."""
_VERIFIED: Final = 0x04
_PASSKEY_FLAGS: Final = 0x1D
"""Besides these two: whether the passkey can be and is backed up (WebAuthn 6.1); never extensions or a new credential.
"""
WEBAUTHN: Final = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
"""The algorithm of a passkey's signature (OpenSSH PROTOCOL.u2f, "WebAuthn signatures")."""
_RSA: Final = ("rsa-sha2-256", "rsa-sha2-512")


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a browser put around the challenge that a passkey signed."""

    origin: str
    client_data: bytes
    """clientDataJSON as it was signed; `check_client_data` reads it."""


@dataclass(frozen=True, slots=True)
class SshSignature:
    """A parsed signature: its key and namespace; `flags` and `counter` for a FIDO key, else None."""

    armor: bytes
    key: PublicKey
    namespace: str
    message_hash: str
    """The hash of the message before signing: sha256 or sha512."""
    algorithm: str
    """The key's type, for RSA one of rsa-sha2-256 and rsa-sha2-512, or for a passkey WEBAUTHN."""
    value: bytes
    """The raw signature: 64 bytes of Ed25519, a number as long as an RSA modulus, or r and s of ECDSA as two mpints."""
    flags: int | None
    counter: int | None
    assertion: Assertion | None = None
    """Of a passkey, else None."""

    def problem(self) -> str | None:
        """None if a signature of this form is acceptable, else what is wrong with it."""
        if (wrong := self.key.problem()) is not None:
            return f"is made with {wrong}"
        if self.flags is not None and not self.flags & _USER_PRESENT:
            return "is of a FIDO key that nobody touched"
        if self.assertion is not None and not (self.flags or 0) & _VERIFIED:
            return "is of a passkey that did not check who used it (PIN or biometrics)"
        return None


def parse_armor(armor: bytes) -> SshSignature:
    """Read one armored signature, from its first byte to its last. Raises MalformedError."""
    if len(armor) > limits.SIGNATURE_FILE_BYTES:
        raise MalformedError("is too long")
    try:
        text = armor.decode("ascii")
    except UnicodeDecodeError:
        raise MalformedError("is not ASCII") from None
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        raise MalformedError("is not one armored SSH signature")
    blob = decode_base64(text[len(_BEGIN) : -len(_END)].replace("\n", ""))
    # Base64 has several spellings, and so would a signature file: one changed byte must be a refusal.
    if render_armor(blob) != armor:
        raise MalformedError("is not spelled as ssh-keygen spells it (70 columns, one final newline)")
    reader = WireReader(blob)
    if reader.take(len(_MAGIC)) != _MAGIC or reader.number() != _VERSION:
        raise MalformedError("is not an SSH signature of version 1")
    key = parse_key(reader.string())
    namespace = reader.text()
    if reader.string():
        raise MalformedError("has something in its reserved field")
    message_hash = reader.text()
    if message_hash not in ("sha256", "sha512"):
        raise MalformedError("names a hash other than sha256 and sha512")
    inner = WireReader(reader.string())
    reader.end()
    algorithm = inner.text()
    of_key = _RSA if key.type == "ssh-rsa" else (key.type, WEBAUTHN) if key.type == SK_ECDSA else (key.type,)
    if algorithm not in of_key:
        raise MalformedError("is made with an algorithm that is not its key's")
    value = inner.string()
    flags = counter = assertion = None
    if key.hardware:
        flags, counter = inner.number(1), inner.number()
        # An unknown flag announces data that would follow, which nothing here checks.
        if flags & ~(_PASSKEY_FLAGS if algorithm == WEBAUTHN else _FLAGS):
            raise MalformedError("has flags of a FIDO key that are not expected of a signature")
    if algorithm == WEBAUTHN:
        assertion = Assertion(inner.text(), inner.string())
        if inner.string():
            raise MalformedError("has extensions of a passkey, of which none was asked for")
    inner.end()
    return SshSignature(armor, key, namespace, message_hash, algorithm, value, flags, counter, assertion)


def message_to_sign(data: bytes, namespace: str, message_hash: str = "sha512") -> bytes:
    """What a key signs for `data` in a namespace; for a passkey this is the challenge."""
    parts = (namespace.encode(), b"", message_hash.encode(), hashlib.new(message_hash, data).digest())
    return _MAGIC + b"".join(map(string, parts))


def render_armor(blob: bytes) -> bytes:
    """The only armor of a blob that is accepted."""
    text = base64.b64encode(blob).decode()
    lines = [text[start : start + _COLUMNS] + "\n" for start in range(0, len(text), _COLUMNS)]
    return (_BEGIN + "".join(lines) + _END).encode()


def render_blob(key: bytes, namespace: str, inner: bytes) -> bytes:
    """The armor of a signature with SHA-512; `inner` begins with its algorithm."""
    parts = (key, namespace.encode(), b"", b"sha512", inner)
    return render_armor(_MAGIC + struct.pack(">I", _VERSION) + b"".join(map(string, parts)))
