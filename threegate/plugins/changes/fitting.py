"""Which rows can be a change set of a project: those that its gates refuse are left out with their reasons.

Invariant: for the rows that come out, `check_paths` and `check_project` find nothing while the project stays as it is.
Nothing is added. A row that needs one that was left out goes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from threegate.core import limits
from threegate.plugins.changes.checks import project_problems
from threegate.plugins.changes.path_rules import spelling_problems
from threegate.plugins.changes.table import LINK, ChangeSetError, Row
from threegate.plugins.changes.trees import Tree

Leave = Callable[[str, str], object]
"""Called with the path of a row that is left out, and the reason."""


def fitting_rows(
    project: Tree,
    rows: Sequence[Row],
    target: Callable[[str], str],
    leave: Leave,
    *,
    without: Mapping[str, str] | None = None,
) -> tuple[Row, ...]:
    """The rows that can be made, sorted. `target` has the target of a link, `without` paths that are left out in any
    case, with the reasons. Raises ChangeSetError where they depend on each other in too many ways, or are in too many
    folders; OSError.
    """
    owner = project.look("")
    uid = -1 if owner is None else owner.uid
    fitting = tuple(sorted(rows, key=lambda row: row.parts))
    found = dict(without or {})
    for _ in range(limits.CHANGE_FITTINGS):
        for path, reason in found.items():
            leave(path, reason)
        if found:
            fitting, held = _without(fitting, found)
            for path in held:
                leave(path, "would replace a folder in which something stays")
        targets = {row.path: target(row.path) for row in fitting if row.after is not None and row.after.mode == LINK}
        found = dict(spelling_problems(fitting, targets)) or dict(project_problems(project, fitting, targets, uid))
        if not found:
            break
    else:
        raise ChangeSetError("its paths depend on each other in too many ways; propose it in parts")
    above = {"/".join(row.parts[:depth]) for row in fitting if row.after for depth in range(1, len(row.parts))}
    if len(above) + len(fitting) + 1 >= limits.TAR_ENTRIES:
        raise ChangeSetError(f"the change is in more than {limits.TAR_ENTRIES} folders; propose it in parts")
    return fitting


def _without(rows: Sequence[Row], left_out: Container[str]) -> tuple[tuple[Row, ...], list[str]]:
    """The rows that can be made without some, and the paths of folders that cannot be replaced because of them. What is
    below an added folder goes with it, and a folder to be deleted stays while something in it does.
    """
    gone, stays = set[str](), set[str]()
    for row in rows:
        if row.path in left_out:
            gone.add(row.path)
            stays.update(_above(row.path))
    kept: list[Row] = []
    held: list[str] = []
    for row in rows:  # a folder comes before what is in it
        if row.path in gone:
            continue
        if row.after is not None and not gone.isdisjoint(_above(row.path)):
            gone.add(row.path)
        elif row.path in stays and row.change in ("delete", "type"):
            gone.add(row.path)
            held += [row.path] * (row.change == "type")
        else:
            kept.append(row)
    return tuple(kept), held


def _above(path: str) -> Iterator[str]:
    """The folders that a path is in, without the project's root."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))
