"""The drafts that an operator can decide on, for screens that go through them."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from threegate.core.workspace import Workspace
from threegate.review.placed_drill import read_drill


def drafts_of(workspace: Workspace, *, drill: bool = False) -> list[Path]:
    """All drafts, sorted by name, oldest first; with `drill`, including the open drill, for a caller who will
    ask an operator.
    """
    placed = read_drill(workspace) if drill else None
    found = [placed.listed(workspace)] if placed is not None else []
    for place in workspace.draft_folders():
        with workspace.hold(place) as held, held.entries() as entries:
            found += [
                place / entry.name
                for entry in entries
                if fnmatch(entry.name, "TR-*.md") and entry.is_file(follow_symlinks=False)
            ]
    return sorted(found, key=lambda path: path.name)
