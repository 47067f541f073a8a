"""Signing trail checkpoints, proving lines, rotating the trail.

Invariant: a checkpoint is announced by an event before its file appears, and signs the tree before that event;
a file of the trail is closed only together with a checkpoint of everything in it.
"""

from __future__ import annotations

from pathlib import Path

from threegate.core import durable
from threegate.core.errors import InvalidInput
from threegate.launch.completion import still_open
from threegate.trail import LockedTrail, Trail, tree
from threegate.trail.checkpoint import LineProof, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.payloads import CheckpointSigned, Rotated
from threegate.trail.verify import trail_checkpoint_folder
from threegate.trail.workspace_key import load_key


def write_trail_checkpoint(held: LockedTrail, *, actor: str) -> tuple[Path, TrailCheckpoint]:
    """Sign the tree as it is now and keep the note in ``audit/checkpoints/<size>``. Raises Unavailable, TrailError, OSError."""
    held.refuse_mismatch()
    key = load_key(held.index.workspace_id)
    size, root = held.index.frontier.size, held.index.frontier.root()
    note = sign_trail_checkpoint(key, size, root)
    held.append(CheckpointSigned(size=size, root=root.hex()), actor=actor)
    held.keep_head()
    path = _keep(held, note)
    held.keep_index(key, lambda history: still_open(held.workspace, history))
    return path, note


def trail_checkpoint_due(held: LockedTrail, every: int) -> bool:
    """Whether `audit.checkpoint_every` events came since the last checkpoint."""
    return held.index.head.seq - held.index.last_checkpoint >= every


def trail_checkpoint_when_due(trail: Trail, every: int, *, actor: str) -> Path | None:
    """Sign a checkpoint if one is due; its path, or None. Raises Unavailable (no key here, no space), TrailError, OSError."""
    with trail.locked() as held:
        return write_trail_checkpoint(held, actor=actor)[0] if trail_checkpoint_due(held, every) else None


def rotate(held: LockedTrail, *, actor: str) -> tuple[Path, TrailCheckpoint]:
    """Close the trail's file with a checkpoint and begin the next one. Raises Unavailable, TrailError, OSError."""
    held.refuse_mismatch()
    key = load_key(held.index.workspace_id)
    size, root = held.index.frontier.size, held.index.frontier.root()
    note = sign_trail_checkpoint(key, size, root)
    held.rotate(Rotated(size=size, root=root.hex()), actor=actor)
    held.keep_head()
    return _keep(held, note), note


def prove_line(trail: Trail, seq: int, *, note: TrailCheckpoint | None = None) -> LineProof:
    """That event `seq` stands in the tree of `note` (default: a fresh checkpoint of now). Raises InvalidInput, TrailError."""
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
        raise InvalidInput(
            f"event {seq} is not among the {min(note.size, len(leaves))} events; name an earlier one"
        )
    if note.size > len(leaves) or tree.root_of(leaves[: note.size]) != note.root:
        raise InvalidInput(
            "the checkpoint is not one of this trail: something before it was changed or cut off"
        )
    return LineProof(line, seq - 1, tuple(tree.inclusion_proof(seq - 1, leaves[: note.size])), note)


def prove_consistency(trail: Trail, old: int, new: int) -> list[bytes]:
    """The RFC 6962 consistency proof between two sizes. Raises InvalidInput, TrailError."""
    leaves = [tree.leaf_hash(event.line) for event in trail.events()]
    if not 0 < old <= new <= len(leaves):
        raise InvalidInput(f"sizes must be 1 to {len(leaves)}, the older first")
    return tree.consistency_proof(old, leaves[:new])


def _keep(held: LockedTrail, note: TrailCheckpoint) -> Path:
    folder = trail_checkpoint_folder(held.workspace)
    if not folder.is_dir():
        durable.make_folder(folder, 0o700)
    path = folder / f"{note.size:012d}"
    durable.overwrite(path, note.render(), 0o644)
    return path
