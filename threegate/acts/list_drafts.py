"""The drafts that an operator can decide on, for the screens that walk through them."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from threegate.core.workspace import Workspace


def drafts_of(workspace: Workspace) -> list[Path]:
    """All drafts, oldest name first."""
    found = []
    for place in workspace.draft_folders():
        with workspace.hold(place) as held, held.entries() as entries:
            found += [
                place / entry.name
                for entry in entries
                if fnmatch(entry.name, "TR-*.md") and entry.is_file(follow_symlinks=False)
            ]
    return sorted(found, key=lambda path: path.name)
