"""What `threegate audit prune` must know about proposals."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from threegate.audit.prune import PluginFiles
from threegate.core.workspace import Workspace
from threegate.plugins.proposals.in_workspace import unneeded


class _ProposalFiles(PluginFiles):
    def unneeded(self, workspace: Workspace) -> list[Path]:
        """Files of drafts that are gone."""
        return unneeded(workspace)


FILES: Final = _ProposalFiles()
