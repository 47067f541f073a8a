"""SSH signatures (OpenSSH PROTOCOL.sshsig): the armor and the blob, each in exactly one spelling.

Invariant: `parse_armor(text)` succeeds only if rendering the result gives `text` again, so that changing a
single byte of a signature file causes a refusal. `in_process` or ssh-keygen verify whether the signature is
genuine; what ssh-keygen ignores (the touch of a FIDO key) is checked here.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from threegate.approval.keys import SK_ECDSA, PublicKey, decode_base64, parse_key
from threegate.approval.ssh_wire import MalformedError, WireReader, string
from threegate.core import limits

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
"""Besides these two: whether the passkey can be and is backed up (WebAuthn 6.1); never extensions or a new
credential.
"""
WEBAUTHN: Final = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com"
"""The algorithm of a passkey's signature (OpenSSH PROTOCOL.u2f, "WebAuthn signatures")."""
_RSA: Final = ("rsa-sha2-256", "rsa-sha2-512")


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a browser put around the challenge that a passkey signed."""

    origin: str
    client_data: bytes
    """clientDataJSON as it was signed; `in_process` reads it."""


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
    """The raw signature: 64 bytes of Ed25519, a number as long as an RSA modulus, or r and s of ECDSA as two
    mpints.
    """
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
    if render_armor(blob) != armor:
        raise MalformedError("is not spelled as ssh-keygen spells it (70 columns, one final newline)")
    return _parse_blob(blob, armor)


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


def _parse_blob(blob: bytes, armor: bytes) -> SshSignature:
    reader = WireReader(blob)
    if reader.take(len(_MAGIC)) != _MAGIC or reader.uint32() != _VERSION:
        raise MalformedError("is no SSH signature of version 1")
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
    if algorithm not in _algorithms(key):
        raise MalformedError("is made with an algorithm that is not its key's")
    value = inner.string()
    flags = counter = assertion = None
    if key.hardware:
        flags, counter = inner.byte(), inner.uint32()
        if flags & ~(_PASSKEY_FLAGS if algorithm == WEBAUTHN else _FLAGS):
            raise MalformedError("has flags of a FIDO key that are not expected of a signature")
    if algorithm == WEBAUTHN:
        assertion = Assertion(inner.text(), inner.string())
        if inner.string():
            raise MalformedError("has extensions of a passkey, of which none was asked for")
    inner.end()
    return SshSignature(armor, key, namespace, message_hash, algorithm, value, flags, counter, assertion)


def _algorithms(key: PublicKey) -> tuple[str, ...]:
    if key.type == "ssh-rsa":
        return _RSA
    return (key.type, WEBAUTHN) if key.type == SK_ECDSA else (key.type,)
