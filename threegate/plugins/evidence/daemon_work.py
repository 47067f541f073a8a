"""What the daemon does for evidence: it has trail checkpoints cosigned, and writes the file of metrics.

Invariant: the loop waits for neither; both have threads of their own.
"""

from __future__ import annotations

from threegate.core import limits
from threegate.daemon.plugin_work import DaemonParts, Recovered, Work
from threegate.launch.context import Context
from threegate.plugins.evidence.cosigned_checkpoints import complete_cosignature
from threegate.plugins.evidence.metrics_file import MetricsFile
from threegate.plugins.evidence.section import MetricsSettings, WitnessSettings
from threegate.plugins.evidence.witness_requests import WitnessRequests


class EvidenceWork(Work):
    """The witnesses and the file. While launches are stopped, the file is written on."""

    def __init__(self, daemon: DaemonParts) -> None:
        super().__init__(daemon)
        self._witnesses = WitnessRequests(daemon.trail, daemon.log)
        self._metrics = MetricsFile(daemon.workspace, daemon.log, self._metrics_settings)

    def recover(self, context: Context) -> Recovered:
        """Write a cosignature that was announced and is missing. Raises TrailError, OSError."""
        complete_cosignature(context.trail)
        return Recovered()

    def turn(self, context: Context, *, off: bool) -> int:
        """Follow the settings."""
        self._witnesses.follow({} if off else context.policy.settings.section(WitnessSettings).named)
        return 0

    def look(self) -> None:
        self._metrics.turn()

    def checkpoint_signed(self) -> None:
        self._witnesses.ask()

    def close(self, *, wait: bool) -> None:
        self._metrics.close()
        self._witnesses.close(limits.WITNESS_SECONDS if wait else 0.0)

    def _metrics_settings(self) -> MetricsSettings:
        settings = self._daemon.settings()
        return MetricsSettings() if "evidence" in settings.plugins.off else settings.section(MetricsSettings)
