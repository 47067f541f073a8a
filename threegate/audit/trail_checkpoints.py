"""Sign trail checkpoints, prove lines, rotate the trail.

Invariant: a checkpoint is recorded by an event before its file appears, and signs the tree before that event;
a file of the trail is closed only together with a checkpoint of everything in it. The same applies to a
cosignature, whose file follows from its event and the checkpoint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.launch.completion import still_open
from threegate.plugins.evidence.kinds import Witnessed, cosigned_path
from threegate.trail import tree
from threegate.trail.checkpoint import LineProof, NoteSignature, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.payloads import Rotated, TrailCheckpointSigned
from threegate.trail.trail import LockedTrail, Trail
from threegate.trail.verify import trail_checkpoint_folder
from threegate.trail.workspace_key import SigningKey, load_key


def write_trail_checkpoint(held: LockedTrail, *, actor: str) -> tuple[Path, TrailCheckpoint]:
    """Sign the tree as it is now and keep the note in ``audit/checkpoints/<size>``. Raises Unavailable, TrailError,
    OSError.
    """
    key, note = _signed_now(held)
    held.append(TrailCheckpointSigned(size=note.size, root=note.root.hex()), actor=actor)
    held.keep_head()
    path = _keep(held, note)
    held.keep_index(key, lambda history: still_open(held.workspace, history))
    return path, note


def complete_trail_checkpoint(trail: Trail) -> Path | None:
    """Write the note that the last `checkpoint` or `rotated` event announced and a crash kept from its folder.

    It is a function of the event, so these are the bytes that were announced. The path, or None when nothing was
    missing. Raises Unavailable (no key here), TrailError, OSError.
    """
    with trail.locked() as held:
        index, path = held.index, None
        if index.last_checkpoint_root is not None and not os.path.lexists(_place(held, index.last_checkpoint)):
            root = bytes.fromhex(index.last_checkpoint_root)
            note = sign_trail_checkpoint(load_key(index.workspace_id), index.last_checkpoint, root)
            path = _keep(held, note)
        _complete_cosignature(held)
        return path


def newest_trail_checkpoint(trail: Trail, witness: str) -> TrailCheckpoint | None:
    """The newest checkpoint, as long as this witness has not cosigned it; else None. Raises InvalidInput,
    TrailError, OSError.
    """
    with trail.locked() as held:
        _complete_cosignature(held)
        size = held.index.last_checkpoint
        if not size or os.path.lexists(_cosigned_place(held, size, witness)):
            return None
        return _read(_place(held, size))


def record_cosignature(
    trail: Trail, name: str, key: WitnessKey, note: TrailCheckpoint, *, actor: str, unless: Callable[[], bool]
) -> Path | None:
    """Announce the cosignature of a checkpoint, which is its last signature, and keep it in
    ``audit/checkpoints/<size>.<name>``.

    None: it is there already, or `unless` says so under the lock. Raises Unavailable (no space), TrailError, OSError.
    """
    with trail.locked() as held:
        if unless() or os.path.lexists(_cosigned_place(held, note.size, name)):
            return None
        _complete_cosignature(held)
        signature = note.signatures[-1]
        cosigned = Witnessed(
            size=note.size,
            witness=name,
            vkey=key.render(),
            cosignature=(signature.key_id + signature.signature).hex(),
            files={cosigned_path(note.size, name): hashlib.sha256(note.render()).hexdigest()},
        )
        held.append(cosigned, actor=actor)
        held.sync()
        return _complete_cosignature(held)


def record_refusal(
    trail: Trail,
    name: str,
    key: WitnessKey,
    size: int,
    reason: str,
    *,
    actor: str,
    unless: Callable[[], bool],
) -> None:
    """Announce that a witness refused to cosign a checkpoint. Raises Unavailable (no space), TrailError."""
    with trail.locked() as held:
        if not unless():
            held.append(Witnessed(size=size, witness=name, vkey=key.render(), reason=reason), actor=actor)


def _complete_cosignature(held: LockedTrail) -> Path | None:
    """Write the file that the last `witnessed` event announced, unless it is there: it is a function of event and
    checkpoint.

    When the checkpoint is not there or was changed, nothing is written: `audit verify` names both. Raises OSError.
    """
    cosigned = Witnessed.read(held.index.cosigned)
    if cosigned is None or cosigned.size is None:
        return None
    path = _cosigned_place(held, cosigned.size, cosigned.witness or "")
    if os.path.lexists(path):
        return None
    try:
        note = _read(_place(held, cosigned.size))
        key = WitnessKey.parse(cosigned.vkey or "")
        raw = bytes.fromhex(cosigned.cosignature or "")
    except (InvalidInput, FileNotFoundError, ValueError):
        return None
    signatures = (*note.signatures, NoteSignature(key.name, raw[:4], raw[4:]))
    durable.overwrite(path, replace(note, signatures=signatures).render(), 0o644)
    return path


def _read(path: Path) -> TrailCheckpoint:
    """A checkpoint of ours. Raises InvalidInput, OSError."""
    try:
        return TrailCheckpoint.parse(durable.read_regular(path, max_bytes=limits.TRAIL_CHECKPOINT_BYTES))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}; look with: threegate audit verify") from None


def trail_checkpoint_due(held: LockedTrail, every: int) -> bool:
    """Whether there were `audit.checkpoint_every` events since the last checkpoint; the witnesses' answers do
    not count.
    """
    index = held.index
    return index.head.seq - index.last_checkpoint - index.answers >= every


def trail_checkpoint_when_due(trail: Trail, every: int, *, actor: str) -> Path | None:
    """Sign a checkpoint if one is due; its path, or None. Raises Unavailable (no key here, no space), TrailError,
    OSError.
    """
    with trail.locked() as held:
        return write_trail_checkpoint(held, actor=actor)[0] if trail_checkpoint_due(held, every) else None


def rotate(held: LockedTrail, *, actor: str) -> tuple[Path, TrailCheckpoint]:
    """Close the trail's file with a checkpoint and begin the next one. Raises Unavailable, TrailError, OSError."""
    _, note = _signed_now(held)
    held.rotate(Rotated(size=note.size, root=note.root.hex()), actor=actor)
    held.keep_head()
    return _keep(held, note), note


def prove_line(trail: Trail, seq: int, *, note: TrailCheckpoint | None = None) -> LineProof:
    """That event `seq` is in the tree of `note` (default: a fresh checkpoint of now). Raises InvalidInput,
    TrailError.
    """
    leaves: list[bytes] = []
    line = b""
    workspace_id = ""
    for event in trail.events():
        if event.seq == seq:
            line = event.line
        leaves.append(tree.leaf_hash(event.line))
        if event.seq == 1:
            workspace_id = event.prev
    if note is None:
        note = sign_trail_checkpoint(load_key(workspace_id), len(leaves), tree.root_of(leaves))
    if not line or seq > note.size:
        raise InvalidInput(f"event {seq} is not among the {min(note.size, len(leaves))} events; name an earlier one")
    if note.size > len(leaves) or tree.root_of(leaves[: note.size]) != note.root:
        raise InvalidInput("the checkpoint is not one of this trail: something before it was changed or cut off")
    return LineProof(line, seq - 1, tuple(tree.inclusion_proof(seq - 1, leaves[: note.size])), note)


def _signed_now(held: LockedTrail) -> tuple[SigningKey, TrailCheckpoint]:
    """The tree as it is now, signed, and the key. Raises Unavailable, TrailError."""
    held.refuse_mismatch()
    key = load_key(held.index.workspace_id)
    return key, sign_trail_checkpoint(key, held.index.frontier.size, held.index.frontier.root())


def _place(held: LockedTrail, size: int) -> Path:
    return trail_checkpoint_folder(held.workspace) / f"{size:012d}"


def _cosigned_place(held: LockedTrail, size: int, witness: str) -> Path:
    return trail_checkpoint_folder(held.workspace) / f"{size:012d}.{witness}"


def _keep(held: LockedTrail, note: TrailCheckpoint) -> Path:
    folder = trail_checkpoint_folder(held.workspace)
    if not folder.is_dir():
        durable.make_folder(folder, 0o700)
    path = _place(held, note.size)
    durable.overwrite(path, note.render(), 0o644)
    return path
