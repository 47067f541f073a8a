"""A passkey in software: what an authenticator and a browser would give, with anything of it changed."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from threegate.approval.operators import Operator, render_operator
from threegate.approval.passkey import challenge_of, encode_base64url, passkey_of, passkey_signature
from threegate.approval.ssh_wire import NAMESPACE_APPROVAL

ORIGIN = "https://approve.example.org:8443"
FLAGS = 0x1D
"""What Chromium's virtual authenticator sets: present, verified, may be backed up, is."""


@dataclass
class SoftPasskey:
    """One credential for one origin."""

    origin: str = ORIGIN
    credential: bytes = b"credential-1"
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.key, self.passkey = passkey_of(self.spki, self.origin, encode_base64url(self.credential))

    @property
    def spki(self) -> bytes:
        """The public key as `getPublicKey()` gives it."""
        return self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def line(self, name: str = "operator") -> str:
        """Its line of the operators file."""
        import base64

        entry = Operator(name, self.key, passkey=self.passkey)
        return render_operator(entry, base64.b64encode(self.key.blob).decode()) + "\n"

    def pin(self) -> str:
        """Its line of operators.passkeys."""
        return self.passkey.pin(self.key) + "\n"

    def client_data(self, data: bytes, namespace: str, rest: str = ',"crossOrigin":false') -> bytes:
        """clientDataJSON as Chromium writes it."""
        challenge = challenge_of(data, namespace)
        return f'{{"type":"webauthn.get","challenge":"{challenge}","origin":"{self.origin}"{rest}}}'.encode()

    def get(
        self, client_data: bytes, *, flags: int = FLAGS, rp_id: str = "", extensions: bytes = b""
    ) -> tuple[bytes, bytes]:
        """Authenticator data and signature."""
        host = rp_id or self.passkey.rp_id
        head = hashlib.sha256(host.encode()).digest() + struct.pack(">BI", flags, 9) + extensions
        signed = head + hashlib.sha256(client_data).digest()
        return head, self.private.sign(signed, ec.ECDSA(hashes.SHA256()))

    def sign(
        self,
        data: bytes,
        namespace: str = NAMESPACE_APPROVAL,
        *,
        client_data: bytes | None = None,
        origin: str = "",
        flags: int = FLAGS,
        rp_id: str = "",
        extensions: bytes = b"",
    ) -> bytes:
        """The armored signature."""
        given = self.client_data(data, namespace) if client_data is None else client_data
        head, signature = self.get(given, flags=flags, rp_id=rp_id, extensions=extensions)
        return passkey_signature(
            self.key,
            origin or self.origin,
            namespace,
            authenticator_data=head,
            client_data=given,
            signature=signature,
        )
