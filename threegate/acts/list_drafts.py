"""The drafts that an operator can decide on, for the screens that walk through them."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace


def drafts_of(workspace: Workspace) -> list[Path]:
    """All drafts, oldest name first."""
    found = [
        path
        for place in (workspace.inbox, workspace.drafts)
        for path in place.glob("TR-*.md")
        if path.is_file() and not path.is_symlink()
    ]
    return sorted(found, key=lambda path: path.name)
