"""Lines of `threegate doctor` about projects."""

from __future__ import annotations

import os
from collections.abc import Iterator

from threegate.core.errors import Refused
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.changes.apply.runner import why_not_now
from threegate.plugins.changes.projects import find_project, project_names
from threegate.runners.backend import DoctorLine, guarded

_PROJECTS = "threegate project list, and docs/projects.md"


def project_lines(workspace: Workspace | None, settings: Settings, probes: bool) -> list[DoctorLine]:
    """For the place `report`; nothing is started, whatever `probes` says."""
    return [] if workspace is None else guarded("projects", lambda: _projects(workspace, settings))


def _projects(workspace: Workspace, settings: Settings) -> Iterator[DoctorLine]:
    """Which projects this account can change, and why it cannot change the others."""
    can = []
    for name in project_names(workspace, settings):
        try:
            place = find_project(workspace, settings, name)
            problem = why_not_now(place)
        except Refused as error:
            problem = str(error)
        if problem is None:
            can.append(f"{name} ({place.path})")
        else:
            yield DoctorLine("projects", "warning", problem, f"its change sets wait or are refused; see: {_PROJECTS}")
    if can:
        yield DoctorLine("projects", "ok", f"uid {os.geteuid()} may change {', '.join(can)}")
