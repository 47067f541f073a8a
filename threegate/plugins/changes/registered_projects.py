"""Which projects may be changed: add and remove them.

Invariant: the trail's event with the digest of `projects.json` is on disk before the file changes, and a file
that `threegate project` did not write is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from threegate.core import canonical, durable
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.plugins.changes.action import DELIVERIES, Deliver, ProjectPlace
from threegate.plugins.changes.apply.runner import why_not_now
from threegate.plugins.changes.kinds import ProjectAdded, ProjectRemoved
from threegate.plugins.changes.project_repository import BranchRefused, ProjectRepository
from threegate.plugins.changes.projects import DEFAULT, check_new, look_at_project, read_projects, render_projects
from threegate.trail import moves
from threegate.trail.trail import Trail

_MODE = 0o600


def add_project(workspace: Workspace, name: str, path: str, *, actor: str, deliver: Deliver = "tree") -> ProjectPlace:
    """Register a folder under a name. `deliver` says what approved changes become there.

    Raises InvalidInput, also for `branch` without a repository that has a commit; TrailError, OSError.
    """
    if name == DEFAULT:
        raise InvalidInput(f"{DEFAULT}: is project.root of threegate.toml; choose another name")
    if deliver not in DELIVERIES:
        raise InvalidInput(f"--deliver {deliver}: must be one of {', '.join(DELIVERIES)}")
    place = look_at_project(name, path, deliver)
    check_new(workspace, place)
    if deliver == "branch":
        try:
            ProjectRepository.of(Path(place.path), place.uid).head()
        except BranchRefused as error:
            raise InvalidInput(f"--deliver branch: {error}") from None
    trail = Trail(workspace)
    with trail.locked() as held:
        known = read_projects(workspace)
        if any(item.name == name for item in known):
            raise InvalidInput(f"{name}: already registered; remove it first: threegate project remove {name}")
        data = render_projects((*known, place))
        added = ProjectAdded(
            project=name,
            path=place.path,
            uid=place.uid,
            deliver=place.deliver,
            files={"projects.json": canonical.sha256_hex(data)},
        )
        moves.announce(held, added, actor=actor)
        durable.overwrite(workspace.projects_file, data, _MODE)
    return place


def project_remarks(workspace: Workspace, place: ProjectPlace) -> Iterator[str]:
    """What a person has to know of a project before anyone works on it, one line each: whether a signed change could be
    applied now, and whether the workspace is in it.
    """
    why = why_not_now(place)
    if why is not None:
        yield f"signed changes cannot be applied now: {why}"
    inside = Path(os.path.realpath(workspace.root))
    if Path(place.path) in inside.parents:
        name = inside.relative_to(place.path)
        yield f"the workspace {name}/ is in the project: agents do not see it, and no change touches it"


def typed_path(path: Path) -> Path:
    """A path as the person typed it, made absolute without following links: below the shell's folder, whose name may
    have a link in it.
    """
    here = Path(os.environ.get("PWD", ""))
    if not here.is_absolute() or os.path.realpath(here) != os.getcwd():
        here = Path.cwd()
    return Path(os.path.normpath(here / path))


def remove_project(workspace: Workspace, name: str, *, actor: str) -> ProjectPlace:
    """Remove a project from the list; nothing in its folder is touched. Raises InvalidInput, TrailError, OSError."""
    trail = Trail(workspace)
    with trail.locked() as held:
        known = read_projects(workspace)
        place = next((item for item in known if item.name == name), None)
        if place is None:
            raise InvalidInput(f"{name}: not a registered project; see: threegate project list")
        data = render_projects(item for item in known if item.name != name)
        removed = ProjectRemoved(project=name, files={"projects.json": canonical.sha256_hex(data)})
        moves.announce(held, removed, actor=actor)
        durable.overwrite(workspace.projects_file, data, _MODE)
    return place
