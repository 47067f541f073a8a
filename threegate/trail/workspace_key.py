"""The workspace's own Ed25519 key: it signs trail checkpoints, never approvals.

The private half is stored outside the workspace (the user's state folder); the public half is in the first
event of the trail and in ``audit/workspace.pub`` as a C2SP verifier key.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.secretscan.scan import has_secret
from threegate.core.user_state import UserState

if TYPE_CHECKING:  # loaded where a key is used: most commands use none
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_VKEY = re.compile(r"([^\s+\ud800-\udfff]{1,128})\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})")


def origin_of(workspace_id: str) -> str:
    """The trail checkpoint origin and key name of a workspace."""
    return f"threegate.local/{workspace_id}"


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A C2SP signed-note verifier key for Ed25519: name and 32 raw bytes."""

    name: str
    raw: bytes

    algorithm: ClassVar[bytes] = b"\x01"
    """The byte of signed-note that says what the key signs, and how."""
    source: ClassVar[str] = "workspace.pub"
    """Where a person finds such a key."""

    @property
    def key_id(self) -> bytes:
        """First four bytes of SHA-256(name, newline, algorithm, key)."""
        return hashlib.sha256(self.name.encode() + b"\n" + self.algorithm + self.raw).digest()[:4]

    def render(self) -> str:
        """``name+id+base64(algorithm key)``."""
        encoded = base64.b64encode(self.algorithm + self.raw).decode()
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a verifier key, strictly. Raises InvalidInput."""
        match = _VKEY.fullmatch(text)
        if match is None:
            raise InvalidInput(f"the verifier key is not of the form name+id+base64; take it from {cls.source}")
        raw = base64.b64decode(match[3])
        key = cls(match[1], raw[1:])
        if raw[:1] != cls.algorithm or key.render() != text:
            raise InvalidInput(
                f"the verifier key does not fit its own id, or is of another kind; take it from {cls.source} again"
            )
        return key

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is this key's over the message."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The private half."""

    name: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> VerifierKey:
        """The public half."""
        return VerifierKey(self.name, self.private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return self.private.sign(message)


def make_key(workspace_id: str) -> SigningKey:
    """Make the workspace's key and keep it outside, mode 0600. Raises OSError, FileExistsError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    while has_secret(SigningKey(origin_of(workspace_id), private).public.render()):
        # One public key in 150,000 looks like a token of a hosting service, and the trail would mask it.
        private = Ed25519PrivateKey.generate()
    path = UserState.of(workspace_id).key_file
    _make_folders(path.parent)
    durable.deliver(path, private.private_bytes_raw().hex().encode() + b"\n", 0o600)
    return SigningKey(origin_of(workspace_id), private)


def load_key(workspace_id: str) -> SigningKey:
    """The workspace's key of this user. Raises Unavailable when it is not here or is not a key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = UserState.of(workspace_id).key_file
    try:
        text = durable.read_regular(path, max_bytes=limits.KEY_FILE_BYTES)
        private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.decode("ascii").strip()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not a key"
        raise Unavailable(
            f"{path}: the workspace's key cannot be read ({reason}); it is kept by the user who ran init"
        ) from None
    return SigningKey(origin_of(workspace_id), private)


def _make_folders(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    durable.sync_folder(folder.parent)
