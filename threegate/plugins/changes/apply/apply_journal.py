"""The journal of one change of a project: what recovery needs, and nothing that it would have to trust.

Invariant: the first line names the project and is on disk before anything is created in it; the second one lists the
steps and is on disk before the first step. Progress is not recorded: it is derived from the staged names, whose inodes
are in the journal. So the journal explains every intermediate state.

A change that is delivered as a branch has no steps: its second line names the branch and the commit that it is put at,
or, for an undo, was at. Where the branch is says whether it was done.

A step is one rename between a path of the project and a name in the stage folder: `in` (the stage has the new entry,
the path is free), `out` (the path has the old entry, the stage name is free), `swap` (both exist and change places).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from threegate.core import canonical, durable, limits
from threegate.plugins.changes.action import ProjectPlace

STAGE: Final = ".threegate-apply"
"""The folder in the project's root for entries being moved in or out; it exists only while a change is made."""
Do = Literal["in", "out", "swap"]


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One rename. `inode` is that of the staged entry (0 for `out`): its location shows whether the step was done.

    An entry moved out of the project must be `old`, as mode and sha256 of a table; the one moved in is `new`. Both are
    two empty strings if there is no entry.
    """

    number: int
    do: Do
    path: str
    inode: int
    old: tuple[str, str]
    new: tuple[str, str]

    @property
    def staged(self) -> str:
        """Its name in the stage folder."""
        return str(self.number)


@dataclass(frozen=True, slots=True)
class BranchStep:
    """One reference, without `refs/heads/`, that is made at a commit, or removed from there."""

    do: Literal["make", "remove"]
    name: str
    commit: str


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """All steps in order, and the exact permission bits and group of each removed or replaced path."""

    steps: tuple[ApplyStep, ...]
    kept: Mapping[str, tuple[int, int]]
    branch: BranchStep | None = None


def first_line(place: ProjectPlace, token: str) -> bytes:
    """The journal's first line. `token` is the name of a file in the stage folder: it identifies the folder's owner."""
    return canonical.canonical_bytes({"journal": 1, "project": place.to_json(), "token": token}) + b"\n"


def write_plan(journal: int, plan: ApplyPlan, path: str) -> None:
    """Append the second line to the open journal and sync it. `path` is only passed to observers. Raises OSError."""
    value = {
        "steps": [[step.number, step.do, step.path, step.inode, *step.old, *step.new] for step in plan.steps],
        "kept": {name: list(facts) for name, facts in plan.kept.items()},
        "branch": None if plan.branch is None else [plan.branch.do, plan.branch.name, plan.branch.commit],
    }
    os.lseek(journal, 0, os.SEEK_END)
    durable.write_fd(journal, canonical.canonical_bytes(value) + b"\n", path)
    durable.sync_fd(journal, path)


@dataclass(frozen=True, slots=True)
class Journal:
    """A parsed journal. `plan` is None if no step was done: its line was never complete."""

    place: ProjectPlace
    token: str
    plan: ApplyPlan | None


def read_journal(data: bytes) -> Journal:
    """Raises ValueError if this is not a journal."""
    head, _, rest = data.partition(b"\n")
    try:
        first = canonical.loads_strict(head, max_bytes=limits.KEY_TEXT_BYTES)
        place, token = ProjectPlace(**first["project"]), str(first["token"])
        if not rest.endswith(b"\n"):
            return Journal(place, token, None)
        value = canonical.loads_strict(rest[:-1], max_bytes=limits.APPLY_JOURNAL_BYTES)
        steps = tuple(
            ApplyStep(number, do, path, inode, (old, old_sha256), (new, new_sha256))
            for number, do, path, inode, old, old_sha256, new, new_sha256 in value["steps"]
        )
        kept = {name: (int(mode), int(gid)) for name, (mode, gid) in value["kept"].items()}
        branch = None
        if value["branch"] is not None:
            do, name, commit = value["branch"]
            if do not in ("make", "remove"):
                raise ValueError(do)
            branch = BranchStep(do, str(name), str(commit))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not a journal of a change ({type(error).__name__})") from None
    return Journal(place, token, ApplyPlan(steps, kept, branch))
