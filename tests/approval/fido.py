"""FIDO signatures made by hand: what a security key would give, with any flags (OpenSSH PROTOCOL.u2f)."""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from threegate.approval.ssh_wire import NAMESPACE_APPROVAL, render_armor

APPLICATION = b"ssh:"


def string(data: bytes) -> bytes:
    """A wire string."""
    return struct.pack(">I", len(data)) + data


def mpint(value: int) -> bytes:
    """A wire mpint."""
    return string(value.to_bytes(value.bit_length() // 8 + 1, "big"))


@dataclass
class SecurityKey:
    """A FIDO key in software: its blob, and how it signs 32 + 5 + 32 bytes."""

    type: bytes
    blob: bytes
    private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey

    @property
    def text(self) -> str:
        """Type and base64, for the operators file."""
        return f"{self.type.decode()} {base64.b64encode(self.blob).decode()}"

    def sign(self, message: bytes, *, flags: int, namespace: str = NAMESPACE_APPROVAL) -> bytes:
        """The armored signature of a message, with these flags."""
        head = string(namespace.encode()) + string(b"") + string(b"sha512")
        tosign = b"SSHSIG" + head + string(hashlib.sha512(message).digest())
        signed = hashlib.sha256(APPLICATION).digest() + struct.pack(">BI", flags, 7) + hashlib.sha256(tosign).digest()
        if isinstance(self.private, ed25519.Ed25519PrivateKey):
            raw = self.private.sign(signed)
        else:
            r, s = decode_dss_signature(self.private.sign(signed, ec.ECDSA(hashes.SHA256())))
            raw = mpint(r) + mpint(s)
        inner = string(self.type) + string(raw) + struct.pack(">BI", flags, 7)
        return render_armor(b"SSHSIG" + struct.pack(">I", 1) + string(self.blob) + head + string(inner))


def ed25519_key() -> SecurityKey:
    """An sk-ssh-ed25519 key."""
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    name = b"sk-ssh-ed25519@openssh.com"
    return SecurityKey(name, string(name) + string(raw) + string(APPLICATION), private)


def ecdsa_key() -> SecurityKey:
    """An sk-ecdsa-sha2-nistp256 key."""
    private = ec.generate_private_key(ec.SECP256R1())
    point = private.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    name = b"sk-ecdsa-sha2-nistp256@openssh.com"
    return SecurityKey(name, string(name) + string(b"nistp256") + string(point) + string(APPLICATION), private)
