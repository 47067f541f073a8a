"""`threegate audit verify`: the trail, its checkpoints, and everything that it speaks of.

Invariant: a workspace that verifies has a trail whose every byte is as it was written and folders that say the
same as the trail; each problem names its place.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from threegate.core.workspace import Workspace
from threegate.records.folder_audit import FolderAudit
from threegate.trail.verify import verify_trail
from threegate.trail.verify_report import Verification
from threegate.trail.workspace_key import VerifierKey


@contextmanager
def standing_still(workspace: Workspace) -> Iterator[None]:
    """Keep everybody from changing a state meanwhile; a copy that cannot be locked is taken as it is."""
    try:
        lock = os.open(workspace.audit / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def verify_workspace(
    workspace: Workspace,
    *,
    external: Iterable[tuple[str, bytes]] = (),
    key: VerifierKey | None = None,
) -> Verification:
    """Verify everything. `external` are trail checkpoints kept elsewhere (name, bytes). Raises OSError for unreadable folders."""
    notes = list(external)
    folders = Verification()
    folder_audit = FolderAudit(workspace, folders)
    result = verify_trail(workspace, external=notes, key=key, on_event=folder_audit.see)
    agreed = folder_audit.finish()
    # Somebody may have been at work between the event and the file: what is found counts when everything stands still.
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
    return result
