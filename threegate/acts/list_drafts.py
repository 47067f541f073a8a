"""The drafts that an operator can decide on, for screens that go through them."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace
from threegate.review.draft_sources import placed_drafts


def drafts_of(workspace: Workspace, *, placed: bool = False) -> list[Path]:
    """All drafts, sorted by name, oldest first; with `placed`, including those that are never signed, for a caller who
    will ask an operator.
    """
    found = [draft.listed(workspace) for draft in placed_drafts(workspace)] if placed else []
    return sorted(found + workspace.draft_paths(), key=lambda path: path.name)
