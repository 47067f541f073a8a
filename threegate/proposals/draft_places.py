"""Where drafts made from proposals, and their files, are stored in tool-exec/drafts/."""

from __future__ import annotations

from pathlib import Path

from threegate.core.workspace import Workspace


def draft_inputs_folder(workspace: Workspace) -> Path:
    """The folder of the input files of drafts made from proposals, by sha256; not readable by CORE (mode
    0700).
    """
    return workspace.drafts / "files"


def proposal_file(draft: Path) -> Path:
    """The path of a draft's proposal: next to it."""
    return draft.with_name(f"{draft.name}.proposal.json")
