"""The drafts that an operator can decide on, for screens that go through them."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from threegate.core.workspace import Workspace
from threegate.review.draft_sources import placed_drafts


def drafts_of(workspace: Workspace, *, placed: bool = False) -> list[Path]:
    """All drafts, sorted by name, oldest first; with `placed`, including those that are never signed, for a caller who
    will ask an operator.
    """
    found = [draft.listed(workspace) for draft in placed_drafts(workspace)] if placed else []
    for place in workspace.draft_folders():
        with workspace.hold(place) as held, held.entries() as entries:
            found += [
                place / entry.name
                for entry in entries
                if fnmatch(entry.name, "TR-*.md") and entry.is_file(follow_symlinks=False)
            ]
    return sorted(found, key=lambda path: path.name)
