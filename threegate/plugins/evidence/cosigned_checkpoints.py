"""Cosignatures of trail checkpoints: which is wanted next, how an answer is recorded and kept.

Invariant: a cosignature is announced by an event before its file appears; the file follows from the event and the
checkpoint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from threegate.audit.trail_checkpoints import read_trail_checkpoint, trail_checkpoint_path
from threegate.core import durable
from threegate.core.errors import InvalidInput
from threegate.plugins.evidence.kinds import Witnessed, cosigned_path
from threegate.trail.checkpoint import NoteSignature, TrailCheckpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.trail import LockedTrail, Trail
from threegate.trail.verify import trail_checkpoint_folder

_ACTOR = "daemon"


def newest_trail_checkpoint(trail: Trail, witness: str) -> TrailCheckpoint | None:
    """The newest checkpoint that this witness has not cosigned, or None. Raises InvalidInput, TrailError, OSError."""
    with trail.locked() as held:
        _complete(held)
        size = held.index.last_checkpoint
        if not size or os.path.lexists(_cosigned_place(held, size, witness)):
            return None
        return read_trail_checkpoint(trail_checkpoint_path(held, size))


def record_cosignature(
    trail: Trail, name: str, key: WitnessKey, note: TrailCheckpoint, *, unless: Callable[[], bool]
) -> Path | None:
    """Announce the cosignature of a checkpoint, which is its last signature, and keep it in
    ``audit/checkpoints/<size>.<name>``.

    None: it is there already, or `unless` says so under the lock. Raises Unavailable (no space), TrailError, OSError.
    """
    with trail.locked() as held:
        # The settings may have dropped this witness while it was answering.
        if unless() or os.path.lexists(_cosigned_place(held, note.size, name)):
            return None
        # The index knows only the last cosignature, so the file of that one must exist before the next.
        _complete(held)
        signature = note.signatures[-1]
        cosigned = Witnessed(
            size=note.size,
            witness=name,
            vkey=key.render(),
            cosignature=(signature.key_id + signature.signature).hex(),
            files={cosigned_path(note.size, name): hashlib.sha256(note.render()).hexdigest()},
        )
        held.append(cosigned, actor=_ACTOR)
        # The event reaches the disk first: a file without an event would be a finding of `audit verify`.
        held.sync()
        return _complete(held)


def record_refusal(
    trail: Trail, name: str, key: WitnessKey, size: int, reason: str, *, unless: Callable[[], bool]
) -> None:
    """Announce that a witness refused to cosign a checkpoint. Raises Unavailable (no space), TrailError."""
    with trail.locked() as held:
        if not unless():
            held.append(Witnessed(size=size, witness=name, vkey=key.render(), reason=reason), actor=_ACTOR)


def complete_cosignature(trail: Trail) -> Path | None:
    """Write the file that the last `witnessed` event announced and a crash kept from its folder; its path, or None
    when it is there. Raises TrailError, OSError.
    """
    with trail.locked() as held:
        return _complete(held)


def _complete(held: LockedTrail) -> Path | None:
    """When the checkpoint is not there or was changed, nothing is written: `audit verify` names both."""
    cosigned = Witnessed.read(held.index.cosigned)
    if cosigned is None or cosigned.size is None:
        return None
    path = _cosigned_place(held, cosigned.size, cosigned.witness or "")
    if os.path.lexists(path):
        return None
    try:
        note = read_trail_checkpoint(trail_checkpoint_path(held, cosigned.size))
        key = WitnessKey.parse(cosigned.vkey or "")
        raw = bytes.fromhex(cosigned.cosignature or "")
    except (InvalidInput, FileNotFoundError, ValueError):
        return None
    signatures = (*note.signatures, NoteSignature(key.name, raw[:4], raw[4:]))
    durable.overwrite(path, replace(note, signatures=signatures).render(), 0o644)
    return path


def _cosigned_place(held: LockedTrail, size: int, witness: str) -> Path:
    return trail_checkpoint_folder(held.workspace) / f"{size:012d}.{witness}"
