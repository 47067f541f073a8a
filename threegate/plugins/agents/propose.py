"""A run's changes as a request: the draft of an apply request in the run's own inbox.

Invariant: the draft is like any other. Gate 1 reads it, a person signs it or not, and until then nothing in the project
has changed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput
from threegate.core.settings import Settings
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.agent_commits import NO_COMMITS, AgentCommits, read_commits
from threegate.plugins.agents.carried_commits import carry_commits
from threegate.plugins.agents.runs import RunFacts, copy_of, read_frozen
from threegate.plugins.agents.work_changes import keep_bases, read_changes, remember_proposed, was_proposed
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.plugins.changes.change_draft import ChangeDraft, draft_change_set, left_out_lines
from threegate.plugins.changes.commit_message import commit_lines
from threegate.plugins.changes.make import MadeChangeSet
from threegate.plugins.changes.projects import DEFAULT, read_projects
from threegate.plugins.changes.registered_projects import add_project
from threegate.plugins.changes.section import ProjectSettings


def propose_again(
    workspace: Workspace,
    settings: Settings,
    run: AgentRun,
    facts: RunFacts,
    *,
    paths: tuple[str, ...] = (),
) -> tuple[str, MadeChangeSet]:
    """Draft the changes of a run's kept copy, or of some paths in it, as the project is now: the name of the draft and
    the change set. What both sides changed is merged if it can be, else left out by name. A live run is paused.

    Raises InvalidInput if there is nothing to propose or a path has no change, Unavailable, OSError.
    """
    if facts.continued:
        raise InvalidInput(f"{run.run_id}: its copy is that of the run {facts.continued} now; propose that one")
    copy = copy_of(run, facts)
    made, commits = read_frozen(run, lambda: read_proposed(copy, paths))
    for path in paths:
        named = [*(row.path for row in made.rows), *(item.path for item in made.left_out)]
        if not any(name == path or name.startswith(f"{path}/") for name in named):
            raise InvalidInput(
                f"--only {path}: no change there that could be proposed; see: threegate agent show {run.run_id}"
            )
    if not made.rows:
        left = "; ".join(left_out_lines(made))
        raise InvalidInput(f"{run.run_id}: nothing in its copy is left to propose{f' ({left})' if left else ''}")
    if was_proposed(run, made.sha256) and _waits(run, made.sha256):
        raise InvalidInput(f"{run.run_id}: a draft of exactly these changes is waiting; see: threegate review")
    keep_bases(copy, made.rows)
    name = draft_changes(
        workspace,
        settings,
        run,
        copy.root,
        made,
        profile=facts.profile,
        purpose=f"Changes that {facts.profile} made in {facts.project or facts.root}",
        commits=NO_COMMITS if paths else commits,
    )
    return name, made


def read_proposed(copy: WorkCopy, paths: tuple[str, ...] = ()) -> tuple[MadeChangeSet, AgentCommits]:
    """The change set of a copy, or of some paths in it, and its commits; all of them can be delivered one by one, or
    none. Raises as `read_changes`.
    """
    made, commits = read_changes(copy, paths=paths), read_commits(copy)
    return made, commits if paths else carry_commits(copy, commits, made)


def _waits(run: AgentRun, sha256: str) -> bool:
    """Whether a draft of a change set is in the run's inbox."""
    with suppress(OSError):
        for name in sorted(os.listdir(run.inbox))[: limits.AGENT_INBOX_ENTRIES]:
            if name.endswith(".md"):
                with suppress(OSError):
                    text = durable.read_regular(run.inbox / name, max_bytes=limits.REQUEST_BYTES)
                    if f"- digest: sha256:{sha256}\n".encode() in text:
                        return True
    return False


def project_name(workspace: Workspace, settings: Settings, root: Path) -> str:
    """The registered name of a project. Raises InvalidInput with the command that registers it."""
    for place in read_projects(workspace):
        if Path(place.path) == root:
            return place.name
    if settings.section(ProjectSettings).root and Path(settings.section(ProjectSettings).root).resolve() == root:
        return DEFAULT
    raise InvalidInput(
        f"{root}: not a registered project, so its changes cannot be proposed; register it with: "
        f"threegate project add NAME {root}"
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
    announce: Callable[[str], None] = lambda name: None,
) -> str:
    """Write the draft of a run's changes and its `changes.tar`; the name of the draft. `announce` is called with it
    before anything is written. Raises InvalidInput, OSError.
    """
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
            commits=commits.archive,
        )

    try:
        draft = drafted((*commit_lines(commits.messages), *commits.as_one(), *commits.left_out()))
    except InvalidInput:  # a message may have words that gate 1 refuses in a request
        if not commits.messages:
            raise
        without = f"{len(commits.messages)} commits of the agent: gate 1 refuses the words of a message"
        draft = drafted((without, *commits.left_out()))
    announce(draft.name)
    remember_proposed(run, made)  # first: the daemon may apply the draft as soon as it is there
    with workspace.hold(run.files) as files:
        for data in filter(None, (made.data, commits.archive)):
            files.deliver_content(data)
    with workspace.hold(run.inbox) as inbox:
        inbox.deliver(draft.name, draft.data, 0o644)
    return draft.name
