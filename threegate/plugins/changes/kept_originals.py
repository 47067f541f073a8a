"""What `threegate audit prune` must know about changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from threegate.audit.prune import PluginFiles
from threegate.core.workspace import Workspace
from threegate.plugins.changes.apply.runner import JOURNAL
from threegate.plugins.changes.section import ApplySettings
from threegate.trail.history import RequestHistory


class _ChangesFiles(PluginFiles):
    def keeps(self, workspace: Workspace, history: RequestHistory, now: datetime) -> bool:
        """What a change replaced, also of one that was delivered as a branch, until `apply.keep` has passed."""
        journal = workspace.run_folder(history.request_id) / JOURNAL
        keep_from = now - timedelta(seconds=workspace.load_settings().section(ApplySettings).keep)
        return history.end is not None and history.end.when >= keep_from and journal.exists()


FILES: Final = _ChangesFiles()
