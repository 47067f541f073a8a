"""What the files of a key tell before anyone is asked: the public key, and what the private one would ask.

Invariant: files are read, with a bound; nothing is started, and no private value is kept. Source: OpenSSH PROTOCOL.key
and PROTOCOL.u2f, RFC 1421 section 4.6 and RFC 7468 section 11 (PEM).
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from threegate.approval.ssh_wire import SK_ECDSA, MalformedError, PublicKey, WireReader, decode_base64, parse_key
from threegate.core import durable, limits

Asks = Literal["nothing", "touch", "passphrase"]
"""What a signature asks the person for. `passphrase` includes the PIN of a token: both are typed on the terminal."""

_KEY: Final = rb"PRIVATE KEY-----"
_BEGIN: Final = re.compile(rb"-----BEGIN ((?:[A-Z]+ )*)" + _KEY + rb"\s")
_OPENSSH: Final = re.compile(rb"-----BEGIN OPENSSH " + _KEY + rb"(.+)-----END OPENSSH " + _KEY, re.DOTALL)
_MAGIC: Final = b"openssh-key-v1\0"
_VERIFICATION: Final = 0x04
"""SSH_SK_USER_VERIFICATION_REQD: the token asks for its PIN at every signature."""


@dataclass(frozen=True, slots=True)
class PublicLine:
    """A line of a .pub file, or of what `ssh-add -L` prints."""

    key: PublicKey
    text: str
    """Type and base64."""
    comment: str
    """Printable ASCII, or empty."""


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """A private key's file. `public` is None in PEM, which does not tell it without the passphrase."""

    asks: Asks
    public: PublicKey | None


def line_of(key: PublicKey) -> PublicLine:
    """The line of a plain key that has no .pub file."""
    return PublicLine(key, f"{key.type} {base64.b64encode(key.blob).decode()}", "")


def parse_line(line: str) -> PublicLine | None:
    """Read one public key or certificate. None unless it is one of a type that may approve."""
    parts = line.split(None, 2)
    try:
        key = parse_key(decode_base64(parts[1]))
    except (IndexError, MalformedError):
        return None
    comment = parts[2].strip() if len(parts) > 2 else ""
    plain = comment.isascii() and comment.isprintable() and len(comment) <= limits.KEY_COMMENT_CHARS
    return PublicLine(key, f"{parts[0]} {parts[1]}", comment if plain else "")


def read_public(path: Path) -> PublicLine | None:
    """The public key in a .pub file. None unless it can be read and is one."""
    try:
        data = durable.read_regular(path.resolve(), max_bytes=limits.KEY_TEXT_BYTES)
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError
        return None
    return parse_line(data.decode("utf-8", "replace"))


def read_private(path: Path) -> PrivateFile | None:
    """What a private key's file tells. None unless it can be read and is one."""
    try:
        data = durable.read_regular(path.resolve(), max_bytes=limits.PRIVATE_KEY_BYTES)
    except (OSError, RuntimeError):
        return None
    begin = _BEGIN.match(data)
    if begin is None:
        return None
    if begin[1] == b"OPENSSH ":
        return _openssh(data)
    encrypted = begin[1] == b"ENCRYPTED " or b"\nProc-Type: 4,ENCRYPTED" in data.replace(b"\r", b"")
    return PrivateFile("passphrase" if encrypted else "nothing", None)


def _openssh(data: bytes) -> PrivateFile | None:
    """A key in OpenSSH's own format, whose head and public key are not encrypted."""
    armored = _OPENSSH.match(data)
    try:
        reader = WireReader(base64.b64decode(armored[1]) if armored else b"")
        if reader.take(len(_MAGIC)) != _MAGIC:
            return None
        cipher = reader.text()
        reader.string()  # the function that derives the cipher's key
        reader.string()  # its options
        if reader.number() != 1:
            return None
        public = parse_key(reader.string())
        if cipher != "none":
            return PrivateFile("passphrase", public)
        if not public.hardware:
            return PrivateFile("nothing", public)
        return PrivateFile("passphrase" if _token_flags(reader.string(), public) & _VERIFICATION else "touch", public)
    except ValueError:  # MalformedError, or no base64
        return None


def _token_flags(private: bytes, public: PublicKey) -> int:
    """The flags of a FIDO key's private part, which is not encrypted. Raises MalformedError."""
    reader = WireReader(private)
    reader.take(8)  # twice the same number
    for _ in range(4 if public.type == SK_ECDSA else 3):  # type, the curve for ECDSA, point, application
        reader.string()
    return reader.number(1)
