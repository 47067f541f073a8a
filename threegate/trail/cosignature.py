"""Cosignatures of trail checkpoints, and the request that asks a witness for one.

Invariant: a cosignature counts only when it verifies under the key that was named beforehand, over this very checkpoint
and the time in it. Sources: c2sp.org/tlog-cosignature (Ed25519, `cosignature/v1`), c2sp.org/tlog-witness
(`add-checkpoint`).
"""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from threegate.core.canonical import INTEGER_MAX
from threegate.core.errors import InvalidInput
from threegate.trail.checkpoint import NoteSignature, TrailCheckpoint, parse_signature_line
from threegate.trail.workspace_key import SigningKey, VerifierKey

PROOF_HASHES: Final = 63
"""Consistency proof lines of one request, by tlog-witness."""
_TIME: Final = struct.Struct(">Q")
_ED25519: Final = 64
"""Length of a signature."""
_REQUEST = re.compile(
    rf"old (?P<old>0|[1-9][0-9]{{0,15}})\n(?P<proof>(?:[A-Za-z0-9+/]{{43}}=\n){{0,{PROOF_HASHES}}})\n(?P<note>(?s:.+))"
)


@dataclass(frozen=True, slots=True)
class WitnessKey(VerifierKey):
    """The verifier key of a witness: a C2SP vkey of the type of timestamped Ed25519 cosignatures."""

    algorithm: ClassVar[bytes] = b"\x04"
    source: ClassVar[str] = "what `threegate serve witness` prints"

    @classmethod
    def of(cls, key: SigningKey) -> WitnessKey:
        """The public half of a witness's own key."""
        return cls(key.name, key.public.raw)

    def time_of(self, note: TrailCheckpoint) -> int:
        """When this witness cosigned the checkpoint (POSIX seconds). Raises InvalidInput when it did not, or it does
        not verify.
        """
        ours = [item for item in note.signatures if (item.name, item.key_id) == (self.name, self.key_id)]
        if not ours:
            raise InvalidInput(f"has no cosignature by {self.name}+{self.key_id.hex()}")
        times = [self._time(item.signature, note) for item in ours]
        return min(times)

    def _time(self, signature: bytes, note: TrailCheckpoint) -> int:
        if len(signature) == _TIME.size + _ED25519:
            (time,) = _TIME.unpack_from(signature)
            if 0 < time <= INTEGER_MAX and self.verify(signature[_TIME.size :], signed_message(note, time)):
                return int(time)
        raise InvalidInput(f"has a cosignature by {self.name} that does not verify")


def signed_message(note: TrailCheckpoint, time: int) -> bytes:
    """What a witness signs: header line, time line, and the whole text of the checkpoint."""
    return b"cosignature/v1\ntime %d\n" % time + note.body


def cosign(key: SigningKey, note: TrailCheckpoint, time: int) -> NoteSignature:
    """The cosignature of a checkpoint at a time (POSIX seconds)."""
    signature = _TIME.pack(time) + key.sign(signed_message(note, time))
    return NoteSignature(key.name, WitnessKey.of(key).key_id, signature)


def with_cosignature(note: TrailCheckpoint, key: WitnessKey, lines: bytes) -> TrailCheckpoint:
    """The checkpoint with the one valid cosignature of `key` among signature lines; all others are left out. Raises
    InvalidInput.
    """
    try:
        text = lines.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("is not a list of signature lines (not UTF-8)") from None
    if not text.endswith("\n"):
        raise InvalidInput("is not a list of signature lines (its end is missing)")
    found = [parse_signature_line(line) for line in text.removesuffix("\n").split("\n")]
    ours = tuple(item for item in found if (item.name, item.key_id) == (key.name, key.key_id))
    key.time_of(replace(note, signatures=ours))
    return replace(note, signatures=(*note.signatures, ours[0]))


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """The body of a POST to ``<prefix>/add-checkpoint``."""

    old: int
    """Size of the checkpoint that the witness cosigned last, 0 when it cosigned none of this log."""
    proof: tuple[bytes, ...]
    """The consistency proof from there."""
    note: TrailCheckpoint

    def render(self) -> bytes:
        """The body in its only form."""
        lines = "".join(f"{base64.b64encode(item).decode()}\n" for item in self.proof)
        return f"old {self.old}\n{lines}\n".encode() + self.note.render()

    @classmethod
    def parse(cls, data: bytes) -> AddCheckpoint:
        """Read a body, whole. Raises InvalidInput."""
        try:
            match = _REQUEST.fullmatch(data.decode("utf-8"))
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise InvalidInput("is not a request of the form: old SIZE, proof lines, blank line, checkpoint")
        proof = tuple(base64.b64decode(item) for item in match["proof"].splitlines())
        result = cls(int(match["old"]), proof, TrailCheckpoint.parse(match["note"].encode()))
        if result.render() != data:
            raise InvalidInput("is not a request in its only form (base64 with spare bits)")
        return result
