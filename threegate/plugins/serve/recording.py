"""Where the servers write the audit-safe events of their decisions. There is always a place."""

from __future__ import annotations

import os
from pathlib import Path

from threegate.aana import DecisionLog
from threegate.core.errors import Unavailable
from threegate.core.user_state import state_home
from threegate.core.workspace import Workspace


def decision_log(explicit: str, workspace: Workspace | None) -> DecisionLog:
    """The named file, else the workspace's if this process may write to it, else one in the user's state folder.

    Raises Unavailable if it is not writable.
    """
    if explicit:
        path = Path(explicit).absolute()
    elif workspace is not None and os.access(workspace.decisions_file.parent, os.W_OK):
        path = workspace.decisions_file
    else:
        path = state_home() / "threegate" / "decisions.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not can_record(path):
        raise Unavailable(f"{path}: decisions cannot be recorded here; name another file with --log")
    return DecisionLog(path)


def can_record(path: Path) -> bool:
    """Whether a line can be appended: the existing file, or else the folder, is writable."""
    if path.is_symlink():
        return False
    return os.access(path if path.exists() else path.parent, os.W_OK)
