"""Signed notes between a daemon and its workers: one line of canonical JSON, a newline, an Ed25519 signature in hex.

Invariant: `unseal` returns only what the expected key signed as exactly these bytes, of exactly the type that was asked
for; a note of one type never counts as another, and never as anything else that the same key signs (the prefix).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Container, Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

from threegate.core import canonical, limits
from threegate.core.errors import Refused
from threegate.trail.workspace_key import SigningKey, VerifierKey

_PREFIX: Final = b"threegate-cluster/1\n"
_SIGNATURE: Final = re.compile(rb"[0-9a-f]{128}")
WORKER: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
"""A worker's name: the common name of its certificate, and part of its queues' names."""
NONCE: Final = re.compile(r"[0-9a-f]{32}")


def _decoded(value: object) -> object:
    return base64.b64decode(value, validate=True) if isinstance(value, str) else value


Base64 = Annotated[
    bytes,
    BeforeValidator(_decoded),
    PlainSerializer(lambda data: base64.b64encode(data).decode(), when_used="json"),
]
"""Bytes in a model of a note: base64 in its JSON."""


def seal(key: SigningKey, type: str, value: Mapping[str, Any]) -> bytes:
    """The signed note. Raises ValueError for a value that has no canonical JSON form."""
    payload = canonical.canonical_bytes({"type": type, **value})
    return payload + b"\n" + key.sign(_PREFIX + payload).hex().encode()


def unseal(
    data: bytes,
    key: VerifierKey,
    types: str | Container[str],
    *,
    max_bytes: int = limits.CLUSTER_SEALED_BYTES,
) -> dict[str, Any]:
    """The value of a note that `key` signed. Raises Refused (envelope_invalid): the text never repeats the value."""
    payload, _, signature = data.rpartition(b"\n")
    if len(data) > max_bytes or not _SIGNATURE.fullmatch(signature):
        raise Refused("envelope_invalid", "the note is not a signed note")
    if not key.verify(bytes.fromhex(signature.decode()), _PREFIX + payload):
        raise Refused("envelope_invalid", "the note's signature is not that of the expected key")
    try:
        value = canonical.loads_strict(payload, max_bytes=max_bytes)
        same = canonical.canonical_bytes(value) == payload
    except ValueError:
        raise Refused("envelope_invalid", "the note is not strict JSON") from None
    wanted = {types} if isinstance(types, str) else types
    if not same or not isinstance(value, dict) or type(of := value.get("type")) is not str or of not in wanted:
        raise Refused("envelope_invalid", "the note is of another type, or not its own canonical rendering")
    return value
