"""What a suggested grant has to keep to in this workspace, above all the folders that none leaves open: the top of the
file system, homes, projects and the workspace.

Invariant: a folder that is one of these, or above one of them, is too wide, by its own name and by where its links
lead.
"""

from __future__ import annotations

import json
import os
import pwd
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import Workspace
from threegate.launch.context import Context
from threegate.plugins.grants.section import GrantSettings
from threegate.plugins.grants.standing_grants import list_grants
from threegate.plugins.grants.suggestion import Bounds
from threegate.request.strict_texts import path_parts

_REPOSITORY: Final = (".git", ".hg", ".svn")


def bounds_here(context: Context) -> Bounds:
    """As settings, trail and machine are now. Raises TrailError, InvalidInput."""
    settings, wide = context.policy.settings, wide_folders(context.workspace)
    with context.trail.locked() as held:
        now = held.now
        over = {run.run for run in held.index.runs if run.ended}
    return Bounds(
        now=now,
        quorum=lambda job: int(getattr(settings.approval.quorum, job.effective_risk)),
        why_wide=lambda folder: why_wide(folder, wide),
        why_over=lambda owner: "its agent run has ended, and each run needs its own" if owner in over else None,
        allow_write=settings.section(GrantSettings).allow_write,
        live=[
            standing.grant
            for standing in list_grants(context.workspace, context.trail)
            if standing.live
            and standing.grant.policy_sha256 == context.policy.standing
            and standing.grant.expires_utc > now
        ],
    )


def wide_folders(workspace: Workspace) -> dict[str, str]:
    """Folders that no suggestion contains, and what each is: homes, projects, the workspace. Raises InvalidInput."""
    found = {os.path.realpath(workspace.root): "the workspace"}
    found |= dict.fromkeys(_projects(workspace), "the root of a project")
    homes = {str(Path.home()), *(account.pw_dir for account in pwd.getpwall())}
    found |= {path: "a home" for path in homes if path.startswith("/")}
    return found


def _projects(workspace: Workspace) -> list[str]:
    """The folders of projects, whether or not their plugin is here. Raises InvalidInput."""
    said = tomllib.loads(workspace.settings_bytes().decode()).get("project", {})
    found = [said.get("root", "")]
    path = workspace.projects_file
    try:
        data = durable.read_regular(path, max_bytes=limits.PROJECTS_FILE_BYTES)
        found += [str(row["path"]) for row in json.loads(data)["projects"]]
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path}: cannot be read ({error}); restore it, or register the projects again") from None
    return found


def why_wide(folder: str, wide: Mapping[str, str]) -> str | None:
    """What a folder is that is too wide for a grant; None for one that is not."""
    parts = path_parts(folder)
    if parts is None:
        return "not a folder in one plain spelling"
    if not folder.startswith("/"):
        return None  # where it starts only the tool knows; at least its first name is given
    real = os.path.realpath(folder)
    if len(parts) < 3 or real.count("/") < 2:
        return "a folder at the top"
    for place in (folder, real):
        if len(names := place.split("/")) == 3 and names[1] in ("home", "Users"):
            return "a home"
        if any(os.path.lexists(os.path.join(place, name)) for name in _REPOSITORY):
            return "the root of a project"
        for path, what in wide.items():
            if path == place:
                return what
            if path.startswith(f"{place}/"):
                return f"above {what}"
    return None
