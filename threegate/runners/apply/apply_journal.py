"""The journal of one change of a project: what recovery needs, and nothing that it would have to believe.

Invariant: the first line names the project and is on disk before anything is made in it; the second one names each step and
is on disk before the first step is taken. How far the steps came is not written: it is read off the staged names, whose
inodes the journal has. So there is no state in between that the journal does not explain.

A step is one rename between a path of the project and a name in the stage folder:
`in` (the stage has the new thing, the path is free), `out` (the path has the old thing, the stage name is free),
`swap` (both are there and change places).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from threegate.core import canonical, durable, limits
from threegate.request.job import ProjectPlace

STAGE: Final = ".threegate-apply"
"""The folder in the project's root that holds what is on its way in or out; there only while a change is made."""
Do = Literal["in", "out", "swap"]


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One rename. `inode` is that of the staged thing (0 for `out`): where it is says whether the step was taken.

    What comes out of the project must be `old`, as mode and sha256 of a table; what a step brought in is `new`. Both are
    two empty texts where there is nothing.
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
class ApplyPlan:
    """All steps in order, and of each path that goes or is replaced its exact permission bits and group."""

    steps: tuple[ApplyStep, ...]
    kept: Mapping[str, tuple[int, int]]


def first_line(place: ProjectPlace, token: str) -> bytes:
    """The journal's first line. `token` is the name of a file in the stage folder: whose that folder is."""
    return canonical.canonical_bytes({"journal": 1, "project": place.to_json(), "token": token}) + b"\n"


def write_plan(journal: int, plan: ApplyPlan, path: str) -> None:
    """Append the second line to the open journal and sync it. `path` is only told to observers. Raises OSError."""
    value = {
        "steps": [[step.number, step.do, step.path, step.inode, *step.old, *step.new] for step in plan.steps],
        "kept": {name: list(facts) for name, facts in plan.kept.items()},
    }
    os.lseek(journal, 0, os.SEEK_END)
    durable.write_fd(journal, canonical.canonical_bytes(value) + b"\n", path)
    durable.sync_fd(journal, path)


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal that was read. `plan` is None where no step was taken: its line never became whole."""

    place: ProjectPlace
    token: str
    plan: ApplyPlan | None


def read_journal(data: bytes) -> Journal:
    """Raises ValueError for what is no journal."""
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
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"is no journal of a change ({type(error).__name__})") from None
    return Journal(place, token, ApplyPlan(steps, kept))
