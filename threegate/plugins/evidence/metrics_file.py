"""The daemon's numbers as a file for node_exporter ([metrics] extra), written in a separate thread.

Invariant: the file is always complete; a number that cannot be collected or written stops nothing and is
reported once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from threegate.core import durable
from threegate.core.errors import ThreeGateError
from threegate.core.extras import missing_extra
from threegate.core.workspace import Workspace
from threegate.daemon.log import Log
from threegate.plugins.evidence.section import MetricsSettings

if TYPE_CHECKING:
    from threegate.plugins.serve.gauge import WorkspaceGauge

_MODE = 0o644
_IDLE_SECONDS = 5.0


class MetricsFile:
    """Writes in its own thread, as often as the current settings say; nothing while they name no file."""

    def __init__(self, workspace: Workspace, log: Log, settings: Callable[[], MetricsSettings]) -> None:
        self._workspace = workspace
        self._log = log
        self._settings = settings
        self._gauge: WorkspaceGauge | None = None
        self._reported: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Start as soon as the settings name a file. Called at each turn of the loop."""
        if self._thread is None and self._settings().textfile:
            self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write one last time, with the daemon marked as not running."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._write(self._settings(), running=False)

    def _work(self) -> None:
        while not self._stop.is_set():
            settings = self._settings()
            self._write(settings, running=True)
            self._stop.wait(settings.interval if settings.textfile else _IDLE_SECONDS)

    def _write(self, settings: MetricsSettings, *, running: bool) -> None:
        if not settings.textfile:
            return
        problem = missing_extra("metrics.textfile", "metrics")
        try:
            if problem is None:
                if self._gauge is None:
                    # Here, in this thread: prometheus-client takes 0.1 s to import, and is not there without the extra.
                    from threegate.plugins.serve.gauge import WorkspaceGauge

                    self._gauge = WorkspaceGauge(self._workspace)
                text = self._gauge.text(daemon_runs=running)
                durable.overwrite(Path(settings.textfile), text, _MODE)
        except OSError as error:
            problem = f"{settings.textfile}: not written ({error.strerror or error})"
        except ThreeGateError as error:
            problem = f"{settings.textfile}: not written ({error})"
        if problem is not None and problem != self._reported:
            self._log.say("metrics", what=problem)
        self._reported = problem
