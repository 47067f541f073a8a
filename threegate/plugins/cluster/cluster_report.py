"""What `threegate doctor` asks the plugin for. It loads nothing heavy where there is no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.core.settings import Settings
from threegate.plugins.cluster.section import ClusterSettings

if TYPE_CHECKING:
    from threegate.core.workspace import Workspace
    from threegate.runners.backend import DoctorLine


def report(workspace: Workspace | None, settings: Settings, probes: bool) -> list[DoctorLine]:
    """Lines about broker, certificates and workers; none without a cluster."""
    if workspace is None or not settings.section(ClusterSettings).broker:
        return []
    from threegate.plugins.cluster.cluster_doctor import cluster_lines  # imported here: it loads Celery's libraries

    return cluster_lines(workspace, settings)
