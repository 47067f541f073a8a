"""The projects that may be changed: `tool-exec/projects.json`, and the setting `project.root` as `default`.

Invariant: a name means one folder, by real path, device, inode and owner. The file belongs to the operator,
is written only by `threegate project`, and its digest is in the trail; it is not part of the policy, because
each Job and each card name the folder itself. Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

import json
import os
import pwd
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Refused
from threegate.core.held_folder import HeldFolder, hold_path
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace, default_workspace
from threegate.plugins.changes.action import DELIVERIES, Deliver, ProjectPlace
from threegate.plugins.changes.section import ProjectSettings

DEFAULT: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def render_projects(projects: Iterable[ProjectPlace]) -> bytes:
    """The file's bytes: sorted by name."""
    rows = [item.to_json() for item in sorted(projects, key=lambda item: item.name)]
    return json.dumps({"projects": rows}, indent=2, ensure_ascii=False).encode() + b"\n"


def read_projects(workspace: Workspace) -> tuple[ProjectPlace, ...]:
    """The registered projects, without `default`. Raises InvalidInput for a file that we did not write."""
    path = workspace.projects_file
    try:
        data = durable.read_regular(path, max_bytes=limits.PROJECTS_FILE_BYTES)
        rows = canonical.loads_strict(data, max_bytes=limits.PROJECTS_FILE_BYTES)["projects"]
        found = tuple(ProjectPlace(**row) for row in rows)
        if any(item.deliver not in DELIVERIES for item in found):
            raise ValueError("a project is delivered in an unknown way")
        rendered = render_projects(found)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error}); restore it, or register the projects again") from None
    # The trail has the digest of exactly what we render.
    if rendered != data:
        raise InvalidInput(f"{path}: was changed by hand; restore it, or register the projects again")
    return found


def look_at_project(name: str, path: str, deliver: Deliver = "tree") -> ProjectPlace:
    """A folder as a project, as it is now. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r}: not a project name; use 1 to 64 of A-Z a-z 0-9 . _ -")
    if not Path(path).is_absolute():
        raise InvalidInput(f"{path}: is not an absolute path")
    real = os.path.realpath(path)
    shown = os.fsencode(real).decode("utf-8", "backslashreplace")
    if shown != real:
        raise InvalidInput(f"{shown}: its path is not UTF-8; rename it, or name a folder elsewhere")
    try:
        facts = os.lstat(real)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISDIR(facts.st_mode):
        raise InvalidInput(f"{path}: is not a folder")
    return ProjectPlace(name, real, facts.st_dev, facts.st_ino, facts.st_uid, deliver)


def project_names(workspace: Workspace, settings: Settings) -> tuple[str, ...]:
    """The names that requests may use, `default` first where it is set. Raises InvalidInput."""
    first = (DEFAULT,) if settings.section(ProjectSettings).root else ()
    return (*first, *(item.name for item in read_projects(workspace)))


def find_project(workspace: Workspace, settings: Settings, name: str) -> ProjectPlace:
    """The project of a name, as it is now. Raises Refused: unknown, or another folder than the one registered."""
    try:
        if name == DEFAULT:
            if not settings.section(ProjectSettings).root:
                raise Refused(
                    "project_unknown",
                    "no project is set; set project.root, or register one: threegate project add NAME DIR",
                )
            return look_at_project(name, settings.section(ProjectSettings).root)
        registered = next((item for item in read_projects(workspace) if item.name == name), None)
        if registered is None:
            raise Refused("project_unknown", f"{name}: not a registered project; see: threegate project list")
        present = look_at_project(name, registered.path, registered.deliver)
    except InvalidInput as error:
        raise Refused("project_unknown", str(error)) from None
    if present != registered:
        raise Refused(
            "project_changed",
            f"{registered.path}: is another folder than the one that was registered; if it is yours: threegate project "
            f"remove {name}, then threegate project add {name} {registered.path}",
        )
    return present


def project_problem(workspace: Workspace, name: str) -> tuple[str, str] | None:
    """Rule and words about a project that a request names and that cannot be changed; None: it can be opened."""
    try:
        hold_project(find_project(workspace, workspace.load_settings(), name)).close()
    except (Refused, InvalidInput) as error:
        return "TG914", str(error)
    return None


def groups_of(place: ProjectPlace, project: int) -> tuple[int, list[int]]:
    """The group of the project's owner, and all groups that the account is a member of. An account without an entry has
    the group of the open `project`. Raises OSError.
    """
    try:
        entry = pwd.getpwuid(place.uid)
        return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)
    except KeyError:
        return os.fstat(project).st_gid, []


def hold_project(place: ProjectPlace) -> HeldFolder:
    """The open project, if it is the one that is bound. Raises Refused (project_changed)."""
    try:
        held = hold_path(place.path)
    except OSError as error:
        raise Refused("project_changed", f"{place.path}: cannot be opened ({error.strerror})") from None
    facts = held.facts()
    if (facts.st_dev, facts.st_ino, facts.st_uid) != (place.device, place.inode, place.uid):
        held.close()
        raise Refused("project_changed", f"{place.path}: is another folder now, or belongs to another account")
    return held


def check_new(workspace: Workspace, place: ProjectPlace) -> None:
    """Whether a folder may be registered. Raises InvalidInput: it holds, or is in, what is never to be changed."""
    real = Path(place.path)
    if place.uid == 0:
        raise InvalidInput(
            f"{real}: belongs to root; nothing is changed as root, so give it to the account that works in it"
        )
    root = Path(os.path.realpath(workspace.root))
    if real == root:
        raise InvalidInput(
            f"{real}: is the workspace itself; make one that is a folder of its own in it: threegate init .threegate"
        )
    if root in real.parents:
        raise InvalidInput(f"{real}: is in the workspace; a project is a folder elsewhere")
    default = Path(os.path.realpath(default_workspace().parent))
    if default in (real, *real.parents) or real in default.parents:
        raise InvalidInput(f"{real}: is in, or contains, your own workspace; a project is a folder elsewhere")
    home = Path(os.path.realpath(Path.home()))
    if real == home or real in home.parents:
        raise InvalidInput(f"{real}: is or contains the home folder; a project is a folder below it")
