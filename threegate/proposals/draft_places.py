"""Where drafts that were made from proposals, and what belongs to them, are in tool-exec/drafts/."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace


def draft_inputs_folder(workspace: Workspace) -> Path:
    """Where the input files of drafts made from proposals lie, by sha256; not for CORE's eyes (mode 0700)."""
    return workspace.drafts / "files"


def proposal_file(draft: Path) -> Path:
    """Where the proposal of a draft lies: beside it."""
    return draft.with_name(f"{draft.name}.proposal.json")
