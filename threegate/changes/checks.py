"""Whether a change set may be applied to the current project: checked by `approve`, and again right before
applying.

Invariant: pure except for reading the project relative to an open folder. `moved_on` says whether the project
is still what the change was made from; any other problem refuses the change set whatever the project becomes.
Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

from collections.abc import Sequence

from threegate.changes.change_tar import ChangeSet
from threegate.changes.make import looks_bare
from threegate.changes.path_rules import collision_key, link_parts
from threegate.changes.table import LINK, ChangeSetError, Row
from threegate.changes.trees import Tree, TreeEntry, node_of


def moved_on(project: Tree, rows: Sequence[Row]) -> tuple[str, ...]:
    """The paths whose "before" is not what the project has now. Raises OSError, TreeChanged."""
    return tuple(row.path for row in rows if not _is_before(project, row))


def _is_before(project: Tree, row: Row) -> bool:
    present = project.look(row.path)
    if present is None or row.before is None:
        return present is None and row.before is None
    if present.kind not in ("file", "folder", "link") or present.mode != row.before.mode:
        return False
    return node_of(project, row.path, present) == row.before


def check_project(project: Tree, change: ChangeSet, uid: int) -> None:
    """Refuse what depends on the project. `uid` is the project's owner. Raises ChangeSetError, OSError.

    Refused: a path over or onto a link, another owner's or special file, one with several names, a name that
    differs from an existing one only in case or Unicode form, a link over another link, a path in a bare
    repository, a folder that becomes one.
    """
    after = _After(project, change)
    folders: dict[str, None] = {}
    for row in change.rows:
        _check_place(project, row, uid, after)
        if after.in_repository(row.parts):
            raise ChangeSetError(f"{row.path}: is in a bare repository")
        if row.before is None:
            folders[row.path.rpartition("/")[0]] = None
        if row.after is not None and row.after.mode == LINK:
            _check_link(row.path, change.targets[row.path], after)
        if row.change in ("delete", "type") and row.before is not None and row.before.folder:
            for name in after.names(row.path):
                raise ChangeSetError(f"{row.path}: has {name!r} in it, which stays")
    for folder in folders:
        names = after.names(folder)
        spelled: dict[str, str] = {}
        for name in sorted(names):
            key = collision_key(name)
            if key in spelled and {name, spelled[key]} & after.added(folder):
                raise ChangeSetError(f"{folder}/{name}: differs from another name in case or Unicode form only")
            spelled[key] = name
        if looks_bare(names) and not looks_bare(project.names(folder)):
            raise ChangeSetError(f"{folder or '.'}: would be a repository afterwards")


def _check_place(project: Tree, row: Row, uid: int, after: _After) -> None:
    """What is at the path, and the folders above it that are there."""
    present = project.look(row.path)
    if present is not None and row.before is not None:
        if present.uid != uid:
            raise ChangeSetError(f"{row.path}: belongs to another account than the project")
        if present.why or present.kind in ("other", "whiteout"):
            raise ChangeSetError(f"{row.path}: {present.why}")
        if present.kind == "file" and present.links > 1:
            raise ChangeSetError(f"{row.path}: has several names (hard links); change it by hand")
    for depth in range(1, len(row.parts)):
        above = "/".join(row.parts[:depth])
        if above in after.changed or above in after.seen:
            continue
        after.seen.add(above)
        entry = project.look(above)
        if entry is None or entry.kind != "folder":
            raise ChangeSetError(f"{row.path}: its parent is not a folder in the project (a link, or nothing)")
        if entry.uid != uid:
            raise ChangeSetError(f"{row.path}: is in a folder of another account than the project's")


def _check_link(path: str, target: str, after: _After) -> None:
    parts = link_parts(path, target)
    for depth in range(1, len(parts) + 1):
        if after.is_link("/".join(parts[:depth])):
            raise ChangeSetError(f"{path}: is a link over another link")


class _After:
    """The project as it would be after the change."""

    def __init__(self, project: Tree, change: ChangeSet) -> None:
        self._project = project
        self.changed = {row.path: row for row in change.rows}
        self.seen: set[str] = set()
        """Folders of the project that were looked at."""
        self._bare: dict[str, bool] = {}
        self._below: dict[str, list[Row]] = {}
        for row in change.rows:
            self._below.setdefault(row.path.rpartition("/")[0], []).append(row)

    def is_link(self, path: str) -> bool:
        """Whether a path is a symlink afterwards."""
        row = self.changed.get(path)
        if row is not None:
            return row.after is not None and row.after.mode == LINK
        present = self._project.look(path)
        return present is not None and present.kind == "link"

    def in_repository(self, parts: Sequence[str]) -> bool:
        """Whether a path is in a folder that is a bare repository in the project as it is."""
        return any(self._is_bare("/".join(parts[:depth])) for depth in range(len(parts)))

    def _is_bare(self, folder: str) -> bool:
        if folder not in self._bare:
            self._bare[folder] = looks_bare(self._project.names(folder))
        return self._bare[folder]

    def names(self, folder: str) -> dict[str, TreeEntry]:
        """What a folder has in it afterwards."""
        found = dict(self._project.names(folder))
        for row in self._below.get(folder, ()):
            name = row.parts[-1]
            if row.after is None:
                found.pop(name, None)
            else:
                found[name] = TreeEntry("file")
        return found

    def added(self, folder: str) -> frozenset[str]:
        """The names that the change adds to a folder."""
        return frozenset(row.parts[-1] for row in self._below.get(folder, ()) if row.before is None)
