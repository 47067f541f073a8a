"""The change set of an apply request in its workspace: read from the pinned or drafted bytes, against the
registered project.

Invariant: an apply request whose change set was not read completely has no Job; every error is a refusal with
a code (`input_unfit`, `project_unknown`, `project_changed`, `part_unknown`). A branch names the run that owns the
draft, which no text of the draft decides; its tree is computed from the verified bytes and HEAD.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from threegate.core.errors import InvalidInput, Refused
from threegate.core.held_folder import HeldFolder
from threegate.plugins.changes.action import BoundChange, JobBranch, JobChange, ProjectChange, ProjectPlace
from threegate.plugins.changes.branch_plan import BRANCHES, planned
from threegate.plugins.changes.change_facts import ChangedPath, changed_paths, check_said, job_change
from threegate.plugins.changes.change_tar import ChangeSet, read_change_set
from threegate.plugins.changes.changes_section import COMMITS
from threegate.plugins.changes.checks import check_project, check_undo, moved_on
from threegate.plugins.changes.commit_chain import CarriedCommit, read_commits_tar
from threegate.plugins.changes.commit_message import commit_message, one_message
from threegate.plugins.changes.project_repository import BranchRefused, ProjectRepository
from threegate.plugins.changes.projects import find_project, groups_of, hold_project
from threegate.plugins.changes.protected_paths import ProtectedPaths
from threegate.plugins.changes.section import AgentsSettings
from threegate.plugins.changes.table import ChangeSetError, Row
from threegate.plugins.changes.taken_parts import job_part
from threegate.plugins.changes.trees import HeldTree
from threegate.request.backend import Binding, Bound
from threegate.request.model import CHOICES, Delivery, Request
from threegate.request.shown_whole import OpenInput
from threegate.trail.payloads.payload import Owner


@dataclass(frozen=True, kw_only=True)
class RequestedChange(Bound):
    """What an apply request would do: the change set, each path with its facts, and what the Job binds."""

    action: BoundChange
    change: ChangeSet
    paths: tuple[ChangedPath, ...]
    ways: tuple[Delivery, ...] = ("tree",)
    """What a person may choose from. A branch among them may still be refused (`unfit`)."""
    commits: tuple[tuple[CarriedCommit, tuple[ChangedPath, ...]], ...] = ()
    """The agent's commits with the facts of each path, where they are delivered one by one."""

    @property
    def job(self) -> JobChange:
        """What the Job has of it."""
        return self.action.change

    def why_unfit(self) -> Refused | None:
        """Why the change cannot be made in its project now."""
        try:
            refuse_unfit(self, "; have it proposed again, or see: threegate project redraft --help", undone=False)
        except Refused as error:
            return error
        return None


def change_of(name: str, bound: Bound) -> RequestedChange:
    """What is known of the draft of this name, which must change a project. Raises InvalidInput."""
    if not isinstance(bound, RequestedChange):
        raise InvalidInput(f"{name} changes no project: nothing of it can be merged or taken in part")
    return bound


def requested_change(binding: Binding) -> RequestedChange:
    """What an apply request would do. Raises Refused, OSError for the input's bytes."""
    settings, request, open_input = binding.settings, binding.request, binding.open_input
    asked = request.action
    assert isinstance(asked, ProjectChange)
    place = find_project(binding.workspace, settings, asked.project)
    way: Delivery = request.deliver or place.deliver
    place = replace(place, deliver="tree" if way == "tree" else "branch")
    with open_input(request.inputs[0]) as stream:
        try:
            change = read_change_set(stream)
            check_said(asked.changes, change)
            _refuse_protected(change, settings.section(AgentsSettings).protected)
        except ChangeSetError as error:
            raise Refused("input_unfit", f"changes.tar: {error}") from None
        paths = tuple(changed_paths(change, stream))
        commits, unfit = _commits(request, way, open_input, settings.section(AgentsSettings).protected), None
        job = job_change((*paths, *(path for _, some in commits for path in some)), change, place)
        if asked.derived_from:
            with binding.trail.locked() as held:
                part = job_part(held.index, request.request_id, asked.derived_from, change.sha256, binding.owner)
            job = replace(job, part=part)
        if place.deliver == "branch":
            try:
                if way == "commits" and not commits:
                    raise Refused(
                        "input_unfit", "has no commits that could be delivered one by one; see its constraints"
                    )
                carried = [commit for commit, _ in commits]
                job = replace(job, branch=_branch(place, request, change, stream, binding.owner, carried))
            except Refused as error:
                unfit = error
    action, ways = asked.bound(job), _ways(place, request)
    return RequestedChange(action=action, change=change, paths=paths, unfit=unfit, way=way, ways=ways, commits=commits)


def _commits(
    request: Request, way: Delivery, open_input: OpenInput, protected: Sequence[str]
) -> tuple[tuple[CarriedCommit, tuple[ChangedPath, ...]], ...]:
    """The agent's commits, if they are wanted one by one. Raises Refused, OSError."""
    item = next((item for item in request.inputs if item.name == COMMITS), None)
    if way != "commits" or item is None:
        return ()
    try:
        with open_input(item) as stream:
            commits = read_commits_tar(stream)
        for commit in commits:
            _refuse_protected(commit.change, protected)
        return tuple((one, tuple(changed_paths(one.change, io.BytesIO(one.data)))) for one in commits)
    except ChangeSetError as error:
        raise Refused("input_unfit", f"{COMMITS}: {error}") from None


def _ways(place: ProjectPlace, request: Request) -> tuple[Delivery, ...]:
    """What a change of this project can become, as far as is seen without git."""
    if not os.path.lexists(os.path.join(place.path, ".git")):
        return ("tree",)
    return CHOICES if any(item.name == COMMITS for item in request.inputs) else CHOICES[:2]


def _refuse_protected(change: ChangeSet, patterns: Sequence[str]) -> None:
    """Raises ChangeSetError for a path that the settings protect from agents."""
    if not patterns:
        return
    protected = ProtectedPaths(patterns)
    for row in change.rows:
        if protected.has(row.path):
            raise ChangeSetError(f"{row.path}: is protected by agents.protected")


def refuse_unfit(requested: RequestedChange, advice: str = "", *, undone: bool) -> None:
    """Refuse what could not be applied to the project as it is now. Raises Refused (project_changed, input_unfit).

    `advice` says what to do where the project moved on. An undo (`undone`) cannot be undone itself.
    """
    change = requested.change
    refuse_unfit_change(requested.job.project, change.rows, lambda: change, advice=advice, undone=undone)
    if requested.unfit is not None:
        raise requested.unfit


def refuse_unfit_change(
    place: ProjectPlace,
    rows: Sequence[Row],
    read: Callable[[], ChangeSet],
    *,
    what: str = "changes.tar",
    advice: str,
    undone: bool = False,
) -> None:
    """The same for the rows of a change set, which is only read where the project has not moved on. `what` is said
    before why it does not fit.
    """
    with hold_project(place) as held:
        tree = HeldTree(held)
        try:
            moved = moved_on(tree, rows)
            if not moved:
                check_project(tree, read(), place.uid)
                if place.deliver == "tree":
                    _check_groups(held, rows, place)
                    if not undone:
                        check_undo(tree, rows)
        except ChangeSetError as error:
            raise Refused("input_unfit", f"{what}: {error}") from None
        except OSError as error:
            raise Refused("project_changed", f"{place.path}: cannot be read ({error.strerror or error})") from None
    if moved:
        more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
        raise Refused("project_changed", f"{moved[0]}{more}: the project moved on since the change was made{advice}")


def _check_groups(project: HeldFolder, rows: Sequence[Row], place: ProjectPlace) -> None:
    """Refuse to replace a file whose group its owner cannot give to the new one. Raises ChangeSetError, OSError."""
    gid, groups = groups_of(place, project.fileno())
    allowed = {gid, *groups, *(os.getgroups() if place.uid == os.geteuid() else ())}
    replaced = (row for row in rows if row.before is not None and row.after is not None and row.after.file)
    for row in replaced:
        present = HeldTree(project).look(row.path)
        if present is not None and present.kind == "file" and present.gid not in allowed:
            raise ChangeSetError(f"{row.path}: its owner is not a member of its group ({present.gid}); change that")


def _branch(
    place: ProjectPlace,
    request: Request,
    change: ChangeSet,
    archive: BinaryIO,
    owner: Owner | None,
    commits: Sequence[CarriedCommit] = (),
) -> JobBranch:
    """The branch with one commit, or with the agent's `commits`. Raises Refused (project_changed, input_unfit)."""
    run = owner if isinstance(owner, str) else ""
    name = _branch_name(run or request.request_id)
    try:
        repository = ProjectRepository.of(Path(place.path), place.uid)
        if BRANCHES in repository.branches(BRANCHES):
            raise BranchRefused(
                f"the branch {BRANCHES} is in the way of {BRANCHES}/{name}; rename it: git branch -m {BRANCHES} NAME"
            )
        said = {"run": run, "request_id": request.request_id}
        with (
            hold_project(place) as held,
            planned(repository, HeldTree(held), change, archive, commits=commits) as (plan, _),
        ):
            return JobBranch(
                f"{BRANCHES}/{name}",
                plan.base,
                plan.tree,
                f"ThreeGate {'run' if run else 'request'} {name} <{name}@threegate.invalid>",
                "" if commits else commit_message(request.purpose, request.constraints, **said),
                plan.notes,
                tuple((item.tree, one_message(item.commit.message, **said)) for item in plan.commits),
            )
    except BranchRefused as error:
        raise Refused("project_changed" if error.moved else "input_unfit", f"as a branch: {error}") from None
    except OSError as error:
        raise Refused("project_changed", f"{place.path}: cannot be read ({error.strerror or error})") from None


def _branch_name(text: str) -> str:
    """A name for a branch (git, check-ref-format): no two dots, none at either end, and not `.lock`."""
    return re.sub(r"\.(?=\.|lock$|$)", "-", text.lstrip("."))
