"""Who a worker is: its name from its certificate, its own key, and the workspace whose envelopes it takes.

Invariant: a key that others may read is not used; a key for results that is missing is made, never replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.plugins.cluster.seal import WORKER
from threegate.trail.workspace_key import SigningKey, VerifierKey

SIGN_KEY = "sign.key"
WORKSPACE_KEY = "workspace.pub"
_ORIGIN = "threegate.local/"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this worker is, and whose envelopes it takes."""

    name: str
    key: SigningKey
    workspace_id: str
    workspace_key: VerifierKey

    @property
    def mark(self) -> str:
        """By what its containers and processes are known."""
        return f"{self.workspace_id}.{self.name}"


def read_identity(folder: Path) -> Identity:
    """Name from the certificate, keys from files; a missing signing key is made. Raises Unavailable, InvalidInput."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / "tls.pem").read_bytes())
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        text = durable.read_regular(folder / WORKSPACE_KEY, max_bytes=limits.KEY_FILE_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a certificate or key"
        raise Unavailable(
            f"{folder}: tls.pem or {WORKSPACE_KEY}: {reason}; make them with: threegate settings cluster DIR"
        ) from None
    name = str(names[0].value).partition("@")[0] if len(names) == 1 else ""  # NAME, or NAME@VHOST
    if not WORKER.fullmatch(name):
        raise InvalidInput(
            f"{folder / 'tls.pem'}: its common name is not a worker's name (a-z, 0-9 and -, at most 32 characters)"
        )
    workspace = VerifierKey.parse(text)
    if not workspace.name.startswith(_ORIGIN):
        raise InvalidInput(f"{folder / WORKSPACE_KEY}: is not a workspace's key; take audit/workspace.pub")
    return Identity(name, signing_key(folder / SIGN_KEY, name), workspace.name[len(_ORIGIN) :], workspace)


def signing_key(path: Path, name: str) -> SigningKey:
    """The key for results, made if it is missing (mode 0600). Raises Unavailable, OSError."""
    try:
        if path.stat().st_mode & 0o077:
            raise Unavailable(f"{path}: others may read it; chmod 600")
        text = durable.read_regular(path, max_bytes=limits.KEY_FILE_BYTES)
        return SigningKey(name, Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.decode("ascii").strip())))
    except FileNotFoundError:
        private = Ed25519PrivateKey.generate()
        durable.deliver(path, private.private_bytes_raw().hex().encode() + b"\n", 0o600)
        return SigningKey(name, private)
    except (OSError, ValueError):
        raise Unavailable(f"{path}: cannot be read, or is not a key; move it away to get a new one") from None
