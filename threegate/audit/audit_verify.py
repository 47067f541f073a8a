"""`threegate audit verify`: the trail, its trail checkpoints, and everything they refer to.

Invariant: a workspace that verifies has a trail with every byte as it was written and folders that match the
trail; each problem names its location.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from threegate.audit.folder_audit import FolderAudit
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.trail.checkpoint import TrailCheckpoint
from threegate.trail.cosignature import WitnessKey
from threegate.trail.payloads import TreeAnnounced
from threegate.trail.verify import Verification, standing_still, trail_checkpoint_folder, verify_trail
from threegate.trail.workspace_key import VerifierKey, origin_of


def verify_workspace(
    workspace: Workspace,
    *,
    external: Iterable[tuple[str, bytes]] = (),
    key: VerifierKey | None = None,
    witnesses: Iterable[WitnessKey] = (),
) -> Verification:
    """Verify everything. `external` are trail checkpoints kept elsewhere (name, bytes); each of the `witnesses` must
    have cosigned the newest trail checkpoint. Raises OSError for unreadable folders.
    """
    notes = list(external)
    folders = Verification()
    folder_audit = FolderAudit(workspace, folders)
    result = verify_trail(workspace, external=notes, key=key, on_event=folder_audit.see)
    agreed = folder_audit.finish()
    # Another process may have been between the event and the file: findings count only when nothing is
    # changing.
    if result.ok and (not agreed or not folders.ok):
        with standing_still(workspace):
            folders = Verification()
            exact = FolderAudit(workspace, folders, exact=True)
            verify_trail(workspace, key=key, on_event=exact.see)
            exact.finish()
    for problem in folders.problems:
        result.add(problem.place, problem.line, problem.message)
    result.notes += folders.notes
    result.problem_count += folders.problem_count - len(folders.problems)
    for witness in witnesses:
        _check_witness(workspace, result, folder_audit.newest, witness, notes)
    return result


def _check_witness(
    workspace: Workspace,
    result: Verification,
    newest: TreeAnnounced | None,
    witness: WitnessKey,
    external: Sequence[tuple[str, bytes]],
) -> None:
    """Whether a witness cosigned the newest trail checkpoint of the trail, in one of its files or of those kept
    elsewhere.
    """
    if newest is None or newest.size is None or newest.root is None:
        what = f"has no trail checkpoint, so {witness.name} cosigned none; sign one with: threegate audit checkpoint"
        result.add(workspace.trail_file, 0, what)
        return
    name = trail_checkpoint_folder(workspace) / f"{newest.size:012d}"
    tree = (origin_of(result.workspace_id), newest.size, newest.root)
    why = f"has no cosignature by {witness.name}+{witness.key_id.hex()}; is the daemon running, and its witness?"
    for data in [*_cosigned(name), *(data for _, data in external)]:
        try:
            note = TrailCheckpoint.parse(data)
            if (note.origin, note.size, note.root.hex()) != tree or all(
                item.name != witness.name for item in note.signatures
            ):
                continue
            time = datetime.fromtimestamp(witness.time_of(note), UTC)
        except (InvalidInput, ValueError, OSError, OverflowError) as error:
            why = str(error)
            continue
        result.cosigned.append((witness.name, newest.size, f"{time:%Y-%m-%dT%H:%M:%SZ}"))
        return
    result.add(name, 0, why)


def _cosigned(checkpoint: Path) -> Iterator[bytes]:
    """The files of the cosignatures of a checkpoint; that they are those that were announced, the folder audit says."""
    for path in sorted(checkpoint.parent.glob(f"{checkpoint.name}.*")):
        with suppress(OSError):
            yield durable.read_regular(path, max_bytes=limits.TRAIL_CHECKPOINT_BYTES)
