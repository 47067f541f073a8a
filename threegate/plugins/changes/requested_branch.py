"""The commits that an apply request becomes, where its project's changes are delivered as a branch.

Invariant: the branch names the run that owns the draft, which no text of the draft decides; the tree is computed from
the verified bytes and HEAD.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from threegate.core.errors import Refused
from threegate.plugins.changes.action import JobBranch, ProjectPlace
from threegate.plugins.changes.branch_plan import BRANCHES, planned
from threegate.plugins.changes.change_tar import ChangeSet
from threegate.plugins.changes.commit_chain import CarriedCommit
from threegate.plugins.changes.commit_message import commit_message, one_message
from threegate.plugins.changes.project_repository import BranchRefused, ProjectRepository
from threegate.plugins.changes.projects import hold_project
from threegate.plugins.changes.trees import HeldTree
from threegate.request.model import Request
from threegate.trail.payloads.payload import Owner


def requested_branch(
    place: ProjectPlace,
    request: Request,
    change: ChangeSet,
    archive: BinaryIO,
    owner: Owner | None,
    commits: Sequence[CarriedCommit] = (),
) -> JobBranch:
    """The branch with one commit, or with the agent's `commits`. Raises Refused (project_changed, input_unfit)."""
    run = owner if isinstance(owner, str) else ""
    name = _name(run or request.request_id)
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


def _name(text: str) -> str:
    """A name for a branch (git, check-ref-format): no two dots, none at either end, and not `.lock`."""
    return re.sub(r"\.(?=\.|lock$|$)", "-", text.lstrip("."))
