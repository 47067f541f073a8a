"""Signed trail checkpoints (C2SP tlog-checkpoint, a signed note) and proofs (C2SP tlog-proof), read strictly.

Invariant: ``parse(x).render() == x`` for everything that parses; a checkpoint counts only with a signature by
the expected key. Sources: c2sp.org/signed-note, c2sp.org/tlog-checkpoint, c2sp.org/tlog-proof, RFC 6962.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.trail import tree
from threegate.trail.workspace_key import SigningKey, VerifierKey

PROOF_MAGIC: Final = "c2sp.org/tlog-proof@v1"
_SIGNATURE = r"\u2014 [!-*,-~]{1,255} [A-Za-z0-9+/]+={0,2}"
_SIGNATURE_LINE = re.compile(_SIGNATURE)
_NOTE = re.compile(
    r"(?P<origin>[!-*,-~]{1,255})\n(?P<size>0|[1-9][0-9]{0,15})\n(?P<root>[A-Za-z0-9+/]{43}=)\n\n"
    rf"(?P<signatures>(?:{_SIGNATURE}\n){{1,16}})"
)
_PROOF = re.compile(
    rf"{re.escape(PROOF_MAGIC)}\nextra (?P<line>[A-Za-z0-9+/]+={{0,2}})\nindex (?P<index>0|[1-9][0-9]{{0,15}})\n"
    r"(?P<hashes>(?:[A-Za-z0-9+/]{43}=\n){0,63})\n(?P<note>(?s:.+))"
)


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: the key's name, the four bytes of its id, the signature."""

    name: str
    key_id: bytes
    signature: bytes

    def render(self) -> str:
        """The line, with its newline."""
        return f"\u2014 {self.name} {base64.b64encode(self.key_id + self.signature).decode()}\n"


def parse_signature_line(line: str) -> NoteSignature:
    """One signature line, without its newline. Raises InvalidInput."""
    if _SIGNATURE_LINE.fullmatch(line) is None:
        raise InvalidInput("has a line that is not a signature line of a note")
    _, name, encoded = line.split(" ")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise InvalidInput("has a signature that is not base64") from None
    return NoteSignature(name, raw[:4], raw[4:])


@dataclass(frozen=True, slots=True)
class TrailCheckpoint:
    """Origin, number of lines and root of the tree over them, with at least one signature."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[NoteSignature, ...]

    @property
    def body(self) -> bytes:
        """What is signed."""
        return render_body(self.origin, self.size, self.root)

    def render(self) -> bytes:
        """The signed note."""
        return self.body + b"\n" + "".join(item.render() for item in self.signatures).encode()

    @classmethod
    def parse(cls, data: bytes) -> TrailCheckpoint:
        """Read a signed note, whole. Raises InvalidInput."""
        try:
            match = _NOTE.fullmatch(data.decode("utf-8")) if len(data) <= limits.TRAIL_CHECKPOINT_BYTES else None
            if match is None:
                raise InvalidInput("is not a signed trail checkpoint (origin, size, root, blank line, signatures)")
        except UnicodeDecodeError:
            raise InvalidInput("is not a signed trail checkpoint (not UTF-8)") from None
        signatures = tuple(map(parse_signature_line, match["signatures"].splitlines()))
        result = cls(match["origin"], int(match["size"]), base64.b64decode(match["root"]), signatures)
        if result.render() != data:
            raise InvalidInput("is not a signed trail checkpoint in its only form (base64 with spare bits)")
        return result

    def verify(self, key: VerifierKey) -> None:
        """Check that `key` signed this under its own name as origin. Returns None or raises InvalidInput."""
        if self.origin != key.name:
            raise InvalidInput(f"is of origin {self.origin}, not of {key.name}")
        ours = [item for item in self.signatures if item.name == key.name and item.key_id == key.key_id]
        if not ours:
            raise InvalidInput(f"has no signature by {key.name}+{key.key_id.hex()}")
        # All of them, so that nobody can put a forged signature beside the valid one.
        if not all(key.verify(item.signature, self.body) for item in ours):
            raise InvalidInput("has a signature that does not verify")


def render_body(origin: str, size: int, root: bytes) -> bytes:
    """The note text of a checkpoint."""
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n".encode()


def sign_trail_checkpoint(key: SigningKey, size: int, root: bytes) -> TrailCheckpoint:
    """A checkpoint signed by the workspace's key."""
    signature = key.sign(render_body(key.name, size, root))
    return TrailCheckpoint(key.name, size, root, (NoteSignature(key.name, key.public.key_id, signature),))


@dataclass(frozen=True, slots=True)
class LineProof:
    """Verify that a line is at its position in the tree of a checkpoint; needs only the verifier key."""

    line: bytes
    index: int
    """Position from 0: the event's seq less one."""
    hashes: tuple[bytes, ...]
    checkpoint: TrailCheckpoint

    def render(self) -> bytes:
        """The proof in the C2SP form; `extra` is the line itself."""
        hashes = "".join(f"{base64.b64encode(item).decode()}\n" for item in self.hashes)
        head = f"{PROOF_MAGIC}\nextra {base64.b64encode(self.line).decode()}\nindex {self.index}\n{hashes}\n"
        return head.encode() + self.checkpoint.render()

    @classmethod
    def parse(cls, data: bytes) -> LineProof:
        """Read a proof, whole. Raises InvalidInput."""
        try:
            match = _PROOF.fullmatch(data.decode("utf-8")) if len(data) <= 4 * limits.TRAIL_CHECKPOINT_BYTES else None
        except UnicodeDecodeError:
            match = None
        if match is None:
            raise InvalidInput("is not a proof of the form c2sp.org/tlog-proof@v1 with its line as extra")
        try:
            line = base64.b64decode(match["line"], validate=True)
        except binascii.Error:
            raise InvalidInput("is not a proof: its line is not base64") from None
        hashes = tuple(base64.b64decode(item) for item in match["hashes"].splitlines())
        result = cls(line, int(match["index"]), hashes, TrailCheckpoint.parse(match["note"].encode()))
        if result.render() != data:
            raise InvalidInput("is not a proof in its only form (base64 with spare bits)")
        return result

    def verify(self, key: VerifierKey) -> None:
        """Check signature and inclusion. Returns None or raises InvalidInput."""
        self.checkpoint.verify(key)
        try:
            tree.verify_inclusion(
                tree.leaf_hash(self.line), self.index, self.checkpoint.size, self.hashes, self.checkpoint.root
            )
        except tree.ProofError as error:
            raise InvalidInput(f"does not verify: {error}") from None
