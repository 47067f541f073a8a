"""A run's changes as a request: the draft of an apply request in the run's own inbox, as the door would write
it.

Invariant: the draft is like any other. Gate 1 reads it, a person signs it or not, and until then nothing in
the project has changed.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from threegate.acts.registered_projects import add_project
from threegate.agents.agent_commits import NO_COMMITS, AgentCommits
from threegate.agents.work_changes import remember_proposed
from threegate.changes.change_draft import ChangeDraft, draft_change_set
from threegate.changes.commit_message import commit_lines
from threegate.changes.make import MadeChangeSet
from threegate.changes.projects import DEFAULT, read_projects
from threegate.core.canonical import sha256_hex
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings
from threegate.core.workspace import AgentRun, Workspace


def project_name(workspace: Workspace, settings: Settings, root: Path) -> str:
    """The registered name of a project. Raises InvalidInput with the command that registers it."""
    for place in read_projects(workspace):
        if Path(place.path) == root:
            return place.name
    if settings.project.root and Path(settings.project.root).resolve() == root:
        return DEFAULT
    raise InvalidInput(
        f"{root}: not a registered project, so its changes cannot be proposed; register it with: threegate project add"
    )


def register_project(workspace: Workspace, settings: Settings, root: Path, *, actor: str) -> str:
    """The name of a project; if it has none, it is registered under its base name. Raises InvalidInput,
    TrailError, OSError.
    """
    with suppress(InvalidInput):
        return project_name(workspace, settings, root)
    base = re.sub(r"[^A-Za-z0-9._-]", "-", root.name).lstrip("._-")[:60] or "project"
    taken = {place.name for place in read_projects(workspace)} | {DEFAULT}
    name = next(name for name in (base, *(f"{base}-{number}" for number in range(2, 1000))) if name not in taken)
    return add_project(workspace, name, str(root), actor=actor).name


def draft_changes(
    workspace: Workspace,
    settings: Settings,
    run: AgentRun,
    root: Path,
    made: MadeChangeSet,
    *,
    profile: str,
    purpose: str,
    commits: AgentCommits = NO_COMMITS,
) -> str:
    """Write the draft and its changes.tar; the name of the draft. Raises InvalidInput, OSError."""
    now = datetime.now(UTC)
    name = project_name(workspace, settings, root)

    def drafted(constraints: tuple[str, ...]) -> ChangeDraft:
        return draft_change_set(
            made,
            project=name,
            request_id=f"TR-{now:%Y%m%d-%H%M%SZ}-changes-{secrets.token_hex(3)}",
            requested_by=profile,
            purpose=purpose,
            justification=f"made by the agent {profile} in its work copy, run {run.run_id}",
            now=now,
            settings=settings.request,
            constraints=constraints,
        )

    try:
        draft = drafted((*commit_lines(commits.messages), *commits.left_out()))
    except InvalidInput:
        if not commits.messages:
            raise
        without = f"{len(commits.messages)} commits of the agent: gate 1 refuses the words of a message"
        draft = drafted((without, *commits.left_out()))
    remember_proposed(run, made)
    with workspace.hold(run.files) as files, suppress(FileExistsError):
        files.deliver(sha256_hex(made.data), made.data, 0o644)
    with workspace.hold(run.inbox) as inbox:
        inbox.deliver(draft.name, draft.data, 0o644)
    return draft.name
