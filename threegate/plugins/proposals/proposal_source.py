"""Proposals as a source of drafts: which files of an inbox they are, and what makes and checks the drafts of them.

Invariant: it imports nothing of what judges proposals, because every list of requests may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from threegate.plugins.proposals.in_workspace import check_proposal_draft, sweep
from threegate.review.draft_sources import DraftSource, Say, TakeFile

if TYPE_CHECKING:
    from pathlib import Path

    from threegate.core.settings import Settings
    from threegate.core.workspace import Workspace
    from threegate.trail.payloads.payload import Owner
    from threegate.trail.trail import Trail


def _proposer(workspace: Workspace, trail: Trail, say: Say, settings: Callable[[], Settings]) -> TakeFile:
    sweep(workspace)

    def take(path: Path, data: bytes, owner: Owner) -> None:
        from threegate.plugins.proposals.proposer import Proposer

        Proposer(workspace, trail, say, settings)(path, data, owner)

    return take


SOURCE: Final = DraftSource(
    takes="AP-*.json",
    what="proposal",
    explain=("validate", "--as", "proposal"),
    taker=_proposer,
    check=check_proposal_draft,
)
