"""Sign trail checkpoints, prove lines, rotate the trail.

Invariant: a checkpoint is recorded by an event before its file appears, and signs the tree before that event;
a file of the trail is closed only together with a checkpoint of everything in it.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, TrailError
from threegate.trail import tree
from threegate.trail.checkpoint import LineProof, TrailCheckpoint, sign_trail_checkpoint
from threegate.trail.payloads import Rotated, TrailCheckpointSigned
from threegate.trail.trail import LockedTrail, Trail
from threegate.trail.verify import trail_checkpoint_folder
from threegate.trail.workspace_key import load_key


def write_trail_checkpoint(held: LockedTrail, *, actor: str) -> tuple[Path, TrailCheckpoint]:
    """Sign the tree as it is now and keep the note in ``audit/checkpoints/<size>``. Raises Unavailable, TrailError,
    OSError.
    """
    note = _signed_now(held)
    held.append(TrailCheckpointSigned(size=note.size, root=note.root.hex()), actor=actor)
    held.keep_head()
    return _keep(held, note), note


def complete_trail_checkpoint(trail: Trail) -> Path | None:
    """Write the note that the last `checkpoint` or `rotated` event announced and a crash kept from its folder.

    It is a function of the event, so these are the bytes that were announced. The path, or None when nothing was
    missing. Raises Unavailable (no key here), TrailError, OSError.
    """
    with trail.locked() as held:
        size, root = held.index.last_checkpoint, held.index.last_checkpoint_root
        if root is None or os.path.lexists(trail_checkpoint_path(held, size)):
            return None
        held.refuse_mismatch()
        # Whoever can write to the trail's file, and has no key, could have any root signed that an event only claims.
        frontier = tree.Frontier()
        for event in islice(trail.events(), max(size, 0)):
            frontier.add(event.line)
        if (frontier.size, frontier.root().hex()) != (size, root):
            announced = f"the trail checkpoint of {size} events is not of the lines before it"
            raise TrailError(f"{held.workspace.trail_file}: {announced}; look with: threegate audit verify")
        return _keep(held, sign_trail_checkpoint(load_key(held.index.workspace_id), size, frontier.root()))


def read_trail_checkpoint(path: Path) -> TrailCheckpoint:
    """This workspace's checkpoint in this file. Raises InvalidInput, OSError."""
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
    note = _signed_now(held)
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


def _signed_now(held: LockedTrail) -> TrailCheckpoint:
    """The tree as it is now, signed. Raises Unavailable, TrailError."""
    held.refuse_mismatch()
    frontier = held.index.frontier
    return sign_trail_checkpoint(load_key(held.index.workspace_id), frontier.size, frontier.root())


def trail_checkpoint_path(held: LockedTrail, size: int) -> Path:
    """Where the checkpoint of this size is kept."""
    return trail_checkpoint_folder(held.workspace) / f"{size:012d}"


def _keep(held: LockedTrail, note: TrailCheckpoint) -> Path:
    folder = trail_checkpoint_folder(held.workspace)
    if not folder.is_dir():
        durable.make_folder(folder, 0o700)
    path = trail_checkpoint_path(held, note.size)
    durable.overwrite(path, note.render(), 0o644)
    return path
