"""What the daemon does for tool servers when it starts."""

from __future__ import annotations

from threegate.daemon.plugin_work import DaemonParts, Recovered, Work
from threegate.launch.context import Context
from threegate.plugins.tools.manifest import settle_manifests


class ToolsWork(Work):
    """Nothing in turns: a call is made by its runner."""

    def __init__(self, parts: DaemonParts) -> None:
        pass

    def recover(self, context: Context) -> Recovered:
        """Complete changes of manifests that were cut off."""
        with context.trail.locked() as held:
            settle_manifests(context.workspace, held)
        return Recovered()
