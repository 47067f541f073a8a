"""Where a draft's proposal is stored in tool-exec/drafts/."""

from __future__ import annotations

from pathlib import Path


def proposal_file(draft: Path) -> Path:
    """The path of a draft's proposal: next to it."""
    return draft.with_name(f"{draft.name}.proposal.json")
