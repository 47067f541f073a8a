"""Passkeys: what is pinned about one, the browser data around its signature, and that signature in OpenSSH's format.

Invariant: a passkey is valid for one origin. ssh-keygen checks neither the origin nor whether the user was verified, so
`check_client_data` checks everything that the browser signed: one spelling of type, challenge and origin, no duplicate
key, no embedded page. Source: WebAuthn level 3 sections 5.8.1 and 6.1, OpenSSH PROTOCOL.u2f.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from dataclasses import dataclass
from typing import Final

from threegate.approval.ssh_wire import (
    SK_ECDSA,
    WEBAUTHN,
    Assertion,
    MalformedError,
    PublicKey,
    WireReader,
    message_to_sign,
    parse_key,
    render_blob,
    string,
)
from threegate.core import canonical, limits
from threegate.core.web_origin import parse_origin

_PIN: Final = re.compile(r"(SHA256:[A-Za-z0-9+/]{43}) ([^ ]+) ([^ ]+) ([A-Za-z0-9_-]+)")
_CURVE: Final = b"nistp256"


@dataclass(frozen=True, slots=True)
class Passkey:
    """The only origin that a passkey may sign for, and the id by which its authenticator knows it."""

    origin: str
    credential: str
    """base64url without padding."""

    @property
    def rp_id(self) -> str:
        """The host name of the origin, never a parent domain. Raises ValueError if it is not an origin."""
        return parse_origin(self.origin)[0]

    def fits(self, key: PublicKey) -> bool:
        """Whether the key is a passkey's, made for this host name."""
        return key.type == SK_ECDSA and key.application == self.rp_id

    def pin(self, key: PublicKey) -> str:
        """The line of operators.passkeys, without its newline."""
        return f"{key.fingerprint} {self.rp_id} {self.origin} {self.credential}"


def parse_pin(text: str) -> tuple[str, Passkey]:
    """Fingerprint and pin of a line of operators.passkeys. Raises MalformedError."""
    match = _PIN.fullmatch(text)
    if match is None:
        raise MalformedError("is not: SHA256:FINGERPRINT RPID ORIGIN CREDENTIAL, with one blank between them")
    passkey = Passkey(match[3], check_credential(match[4]))
    try:
        host = passkey.rp_id
    except ValueError as error:
        raise MalformedError(f"has an origin that {error}") from None
    if host != match[2]:
        raise MalformedError("has an RPID that is not the host name of its origin")
    return match[1], passkey


def check_credential(text: str) -> str:
    """A credential's id in its only accepted spelling. Raises MalformedError."""
    if not 1 <= len(decode_base64url(text)) <= limits.CREDENTIAL_ID_BYTES:
        raise MalformedError(f"does not have a credential id of 1 to {limits.CREDENTIAL_ID_BYTES} bytes")
    return text


def decode_base64url(text: str) -> bytes:
    """base64url without padding, in one spelling. Raises MalformedError."""
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise MalformedError("has something that is not base64url") from None
    # Unused bits of the last character would give one credential several spellings.
    if encode_base64url(data) != text:
        raise MalformedError("has base64url in an unusual spelling")
    return data


def encode_base64url(data: bytes) -> str:
    """base64url without padding, as browsers write it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def check_client_data(assertion: Assertion, challenge: bytes) -> None:
    """Check what the browser signed. `challenge` is what we asked the passkey to sign. Raises MalformedError."""
    data = assertion.client_data
    try:
        value = canonical.loads_strict(data, max_bytes=limits.CLIENT_DATA_BYTES, max_depth=4)
    except canonical.StrictJSONError as error:
        raise MalformedError(f"has client data that is not strict JSON: {error}") from None
    wanted = {"type": "webauthn.get", "challenge": encode_base64url(challenge), "origin": assertion.origin}
    # Browsers write it in exactly this way; ssh-keygen compares these bytes and parses no JSON.
    begins = ",".join(f'"{name}":"{text}"' for name, text in wanted.items())
    if not data.startswith(b"{" + begins.encode()) or any(value[name] != text for name, text in wanted.items()):
        raise MalformedError("is for something other than what was asked, or comes from another origin")
    if value.get("crossOrigin", False) is not False or "topOrigin" in value:
        raise MalformedError("was made inside another site's page")


def passkey_of(spki: bytes, origin: str, credential: str) -> tuple[PublicKey, Passkey]:
    """A passkey that a browser just created. `spki`: its public key as DER. Raises MalformedError; ValueError
    for an invalid origin.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

    try:
        public = load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm):
        raise MalformedError("has no public key") from None
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise MalformedError("has a public key that is not on P-256 (ES256)")
    point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    passkey = Passkey(origin, check_credential(credential))
    fields = (SK_ECDSA.encode(), _CURVE, point, passkey.rp_id.encode())
    return parse_key(b"".join(map(string, fields))), passkey


def passkey_signature(
    key: PublicKey,
    origin: str,
    namespace: str,
    *,
    authenticator_data: bytes,
    client_data: bytes,
    signature: bytes,
) -> bytes:
    """The armored signature from a browser's `credentials.get()`. Raises MalformedError; verifies nothing."""
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    reader = WireReader(authenticator_data)
    reader.take(hashlib.sha256().digest_size)  # of the rpId: the key names it, and the signature covers it
    flags, counter, extensions = reader.number(1), reader.number(), authenticator_data[reader.position :]
    try:
        pair = decode_dss_signature(signature)
    except ValueError:
        raise MalformedError("is not an ECDSA signature") from None
    inner = (
        string(WEBAUTHN.encode())
        + string(b"".join(string(number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in pair))
        + struct.pack(">BI", flags, counter)
        + b"".join(map(string, (origin.encode(), client_data, extensions)))
    )
    return render_blob(key.blob, namespace, inner)


def challenge_of(data: bytes, namespace: str) -> str:
    """The options of `credentials.get()` for a signature over `data`, as base64url."""
    return encode_base64url(message_to_sign(data, namespace))
