"""What the daemon's unit needs for changes: the projects that its account may write to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from threegate.core.errors import Refused
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.changes.project_repository import BranchRefused, ProjectRepository
from threegate.plugins.changes.projects import find_project, project_names
from threegate.setup.service_unit import UnitNeeds


def unit_needs(workspace: Workspace, settings: Settings, uid: int | None, era: bool) -> UnitNeeds:
    """The projects of the account, and a note about each other one. Raises InvalidInput."""
    found, notes = [], []
    for name in project_names(workspace, settings):
        try:
            place = find_project(workspace, settings, name)
        except Refused as error:
            notes.append(f"project {name}: {error}")
            continue
        if place.uid == uid != 0:
            found.append(Path(place.path))
            # A linked worktree's repository is elsewhere, and who approves may choose a branch.
            with suppress(BranchRefused):
                common = ProjectRepository.of(Path(place.path), place.uid).common
                found += [] if common.is_relative_to(place.path) else [common]
        elif place.uid == 0 or not era:
            notes.append(
                f"project {name}: belongs to uid {place.uid}, so its change sets will wait (project_not_writable); "
                f"{'give it to another account' if place.uid == 0 else 'give --user that account'}"
            )
    return UnitNeeds(projects=tuple(found), notes=tuple(notes))
