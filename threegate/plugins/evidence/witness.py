"""A witness of trails (C2SP tlog-witness): it cosigns a trail checkpoint only if it extends the last one that
it cosigned.

Invariant: for each known log, everything a witness cosigned is one growing history. The state is on disk
before a cosignature is returned (`add`), by one atomic rename. Key and state are one file: a witness that
lost its state has lost its key too, and cannot start again under its old name. A state that its own key did
not sign stops it. Only one process uses a folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.trail import tree
from threegate.trail.checkpoint import NoteSignature, TrailCheckpoint
from threegate.trail.cosignature import AddCheckpoint, WitnessKey, cosign
from threegate.trail.workspace_key import SigningKey, VerifierKey

_FORM: Final = "threegate.witness/1"
_STATE = "witness.json"
SIZE_TYPE: Final = "text/x.tlog.size"
"""Content type of a 409: its body is the size that was cosigned last."""


@dataclass(frozen=True, slots=True)
class WitnessAnswer:
    """One answer of the protocol: HTTP status, body, content type."""

    status: int
    body: str
    line: str
    """What happened, for the witness's log."""
    content_type: str = "text/plain; charset=utf-8"


def _refused(status: int, line: str) -> WitnessAnswer:
    return WitnessAnswer(status, f"{line}\n", line)


@dataclass
class Witness:
    """One witness in this process. `add` is not to be called by two threads at once."""

    folder: Path
    key: SigningKey
    logs: Mapping[str, Sequence[VerifierKey]]
    """The logs that are cosigned, by origin, with the keys that sign each: an adopted workspace may have several."""
    clock: Callable[[], float]
    _lock: int
    """The descriptor that holds the folder."""
    _seen: dict[str, TrailCheckpoint]
    """By origin: the last checkpoint that was cosigned, with our cosignature last."""

    @classmethod
    def open(
        cls, folder: Path, logs: Mapping[str, Sequence[VerifierKey]], clock: Callable[[], float], name: str = ""
    ) -> Witness:
        """Take a witness's folder up, or make one with a new key. `name` is the key's (default: made of the key).

        Raises Unavailable (another process works here, the disk), InvalidInput (the state was changed, or is of another
        name or log key than now).
        """
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o700)
                durable.sync_folder(folder.parent)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # Two witnesses with one key could cosign two histories of one log.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path = folder / _STATE
                key, seen = _read(path) if os.path.lexists(path) else (_new_key(name), {})
                witness = cls(folder, key, logs, clock, lock, seen)
                witness._check_state(name)
                # A disk that takes no state is noticed now, not at the first checkpoint.
                witness._write(seen)
            except BaseException:
                os.close(lock)
                raise
        except BlockingIOError:
            raise Unavailable(f"{folder}: another witness is running here; stop it first") from None
        except OSError as error:
            raise Unavailable(f"{folder}: cannot be used ({error.strerror or error})") from None
        return witness

    def close(self) -> None:
        """Give the folder back."""
        os.close(self._lock)

    @property
    def vkey(self) -> str:
        """The verifier key that others name in their settings."""
        return WitnessKey.of(self.key).render()

    def add(self, body: bytes) -> WitnessAnswer:
        """Answer one `add-checkpoint`; a cosignature is given out only after the state is on disk. Raises Unavailable
        when it cannot be written: nothing was cosigned.
        """
        try:
            asked = AddCheckpoint.parse(body)
        except InvalidInput as error:
            return _refused(400, f"the body {error}")
        note = asked.note
        keys = self.logs.get(note.origin)
        if keys is None:
            return _refused(404, f"{note.origin}: this witness does not know that log")
        try:
            ours = _signatures(note, keys)
        except InvalidInput as error:
            return _refused(403, f"{note.origin}: the checkpoint {error}")
        if asked.old > note.size:
            return _refused(400, f"{note.origin}: the old size {asked.old} is above the checkpoint's {note.size}")
        seen = self._seen.get(note.origin)
        size = seen.size if seen else 0
        if asked.old != size:
            line = f"{note.origin}: {note.size} lines on top of {asked.old}, but {size} were cosigned before"
            return WitnessAnswer(409, f"{size}\n", line, SIZE_TYPE)
        try:
            _check(asked, seen)
        except tree.ProofError as error:
            return _refused(
                422, f"{note.origin}: {note.size} lines do not continue the {size} cosigned before: {error}"
            )
        signature = cosign(self.key, note, int(self.clock()))
        kept = {**self._seen, note.origin: replace(note, signatures=(*ours, signature))}
        # First the disk, then the answer: after a crash, a forgotten cosignature would allow another history.
        try:
            self._write(kept)
        except OSError as error:
            path = self.folder / _STATE
            raise Unavailable(f"{path}: cannot be written ({error.strerror or error})") from None
        self._seen = kept
        return WitnessAnswer(200, signature.render(), f"{note.origin}: cosigned {note.size} lines")

    def last(self, origin_hash: str) -> bytes | None:
        """The last cosigned checkpoint of the log whose origin has this SHA-256 (hex); None if there is none."""
        for origin, note in self._seen.items():
            if hashlib.sha256(origin.encode()).hexdigest() == origin_hash:
                return note.render()
        return None

    # ---- the state

    def _check_state(self, name: str) -> None:
        """Refuse what this key, or the log's, did not sign. Raises InvalidInput."""
        path = self.folder / _STATE
        if name and name != self.key.name:
            raise InvalidInput(f"{path}: this witness is named {self.key.name}; leave --name out")
        for origin, note in self._seen.items():
            try:
                WitnessKey.of(self.key).time_of(note)
                if origin in self.logs:
                    _signatures(note, self.logs[origin])
            except InvalidInput as error:
                raise InvalidInput(
                    f"{path}: the checkpoint of {origin} {error}; restore the file, or name the log's earlier key too"
                ) from None

    def _write(self, seen: Mapping[str, TrailCheckpoint]) -> None:
        value = {
            "form": _FORM,
            "name": self.key.name,
            "key": self.key.private.private_bytes_raw().hex(),
            "logs": {origin: note.render().decode() for origin, note in sorted(seen.items())},
        }
        durable.overwrite(self.folder / _STATE, json.dumps(value, indent=1).encode() + b"\n", 0o600)


def _signatures(note: TrailCheckpoint, keys: Sequence[VerifierKey]) -> list[NoteSignature]:
    """The signatures of a checkpoint by known keys: at least one, and each verifies. Raises InvalidInput."""
    signed = {(item.name, item.key_id): item for item in note.signatures}
    known = [key for key in keys if (key.name, key.key_id) in signed]
    for key in known or keys:
        note.verify(key)
    return [signed[key.name, key.key_id] for key in known]


def _check(asked: AddCheckpoint, seen: TrailCheckpoint | None) -> None:
    """That a checkpoint continues what was cosigned. Returns None or raises ProofError."""
    note = asked.note
    if note.size == 0 and note.root != tree.EMPTY_ROOT:
        raise tree.ProofError("the root is not that of an empty tree")
    if seen is not None and seen.size > 0:
        tree.verify_consistency(seen.size, note.size, asked.proof, seen.root, note.root)
    elif asked.proof:
        raise tree.ProofError("there is nothing to prove")


def _new_key(name: str) -> SigningKey:
    """A key under its name. Raises InvalidInput for a name that no key can have."""
    private = Ed25519PrivateKey.generate()
    short = hashlib.sha256(private.public_key().public_bytes_raw()).hexdigest()[:16]
    key = SigningKey(name or f"threegate.local/witness-{short}", private)
    WitnessKey.parse(WitnessKey.of(key).render())
    return key


def _read(path: Path) -> tuple[SigningKey, dict[str, TrailCheckpoint]]:
    """The key, and the checkpoints by origin. Raises InvalidInput, OSError."""
    try:
        value = json.loads(durable.read_regular(path, max_bytes=limits.WITNESS_STATE_BYTES))
        if value["form"] != _FORM:
            raise ValueError
        key = SigningKey(value["name"], Ed25519PrivateKey.from_private_bytes(bytes.fromhex(value["key"])))
        seen = {origin: TrailCheckpoint.parse(text.encode()) for origin, text in value["logs"].items()}
        if any(note.origin != origin for origin, note in seen.items()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInput):
        raise InvalidInput(
            f"{path}: is not what a witness wrote; restore it, or begin again with another --state"
        ) from None
    return key, seen
