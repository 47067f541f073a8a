"""Whether a change set may be applied to the current project: checked by `approve`, and again right before applying.

Invariant: pure except for reading the project relative to an open folder. `moved_on` says whether the project is still
what the change was made from; any other problem refuses the change set whatever the project becomes. For the rows that
`fitting_rows` returns, nothing is found while the project stays as it is. Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from threegate.core import limits
from threegate.plugins.changes.change_tar import ChangeSet, carried_bytes
from threegate.plugins.changes.path_rules import BARE, is_workspace, link_parts, looks_bare, spelling_problems
from threegate.plugins.changes.project_paths import collision_key
from threegate.plugins.changes.table import LINK, ChangeSetError, Row, folders_above
from threegate.plugins.changes.trees import Tree, TreeEntry, node_of
from threegate.request.characters import has_hidden

_NO_UNDO: Final = "which an undo could not make again"


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


def standing_folders(project: Tree, rows: Sequence[Row]) -> dict[str, str]:
    """The folders that rows delete and in which something else is, each with the name of that. Raises OSError."""
    gone = {row.path for row in rows if row.after is None}
    stays: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: -len(row.parts)):
        if row.after is None and row.before is not None and row.before.folder:
            for name in sorted(project.names(row.path)):
                if (path := f"{row.path}/{name}") not in gone or path in stays:
                    stays[row.path] = name
                    break
    return stays


def check_project(project: Tree, change: ChangeSet, uid: int) -> None:
    """Refuse what depends on the project. `uid` is the project's owner. Raises ChangeSetError, OSError.

    Refused: a path over or onto a link, another owner's or special file, one with several names, a name that
    differs from an existing one only in case or Unicode form, a link over another link, a path in a bare
    repository or a workspace, a folder that becomes a repository.
    """
    for path, problem in project_problems(project, change.rows, change.targets, uid):
        raise ChangeSetError(f"{path or '.'}: {problem}")


def project_problems(
    project: Tree, rows: Sequence[Row], targets: Mapping[str, str], uid: int
) -> Iterator[tuple[str, str]]:
    """The paths that `check_project` refuses, each with the reason. `targets` is link → target. Raises OSError."""
    after = _After(project, rows)
    folders: dict[str, list[str]] = {}
    for row in rows:
        if row.before is None:
            folders.setdefault(row.path.rpartition("/")[0], []).append(row.path)
        try:
            problem = _row_problem(project, row, targets, uid, after)
        except OSError as error:
            problem = f"cannot be read in the project ({error.strerror or error})"
        if problem is not None:
            yield row.path, problem
    for folder, added in folders.items():  # once each: a change of many files adds most of them to few folders
        try:
            yield from _folder_problems(project, folder, added, after)
        except OSError as error:
            yield from ((path, f"its folder cannot be read ({error.strerror or error})") for path in added)


def _row_problem(project: Tree, row: Row, targets: Mapping[str, str], uid: int, after: _After) -> str | None:
    if (problem := _place_problem(project, row, uid, after)) is not None:
        return problem
    if (closed := after.closed(row.parts)) is not None:
        return f"is in {closed}"
    if row.after is not None and row.after.mode == LINK:
        try:
            _check_link(row.path, targets[row.path], after)
        except ChangeSetError as error:
            return str(error).removeprefix(f"{row.path}: ")
    if row.change in ("delete", "type") and row.before is not None and row.before.folder:
        for name in after.names(row.path):
            return f"has {name!r} in it, which stays; move it elsewhere first"
    return None


def _folder_problems(project: Tree, folder: str, added: Sequence[str], after: _After) -> Iterator[tuple[str, str]]:
    """What is wrong with the names of a folder to which some are added."""
    names, new = after.names(folder), after.added(folder)
    spelled: dict[str, str] = {}
    for name in sorted(names):
        other = spelled.setdefault(collision_key(name), name)
        if other != name and {name, other} & new:
            clash = name if name in new else other
            yield f"{folder}/{clash}" if folder else clash, "differs from another name in case or Unicode form only"
    if looks_bare(names) and not looks_bare(project.names(folder)):
        for path in added:
            if collision_key(path.rpartition("/")[2]) in BARE:
                yield path, "would make its folder a repository, with the names beside it"


def _place_problem(project: Tree, row: Row, uid: int, after: _After) -> str | None:
    """What is wrong with what is at the path, or with the folders above it that are there."""
    present = project.look(row.path)
    if present is not None and row.before is not None:
        if present.uid != uid:
            return "belongs to another account than the project"
        if present.why or present.kind in ("other", "whiteout"):
            return present.why
        # A rename gives the new content to one of its names, and the others would keep the old.
        if present.kind == "file" and present.links > 1:
            return "has several names (hard links); change it by hand"
    for above in folders_above(row.path):
        if above in after.changed:
            continue
        if above not in after.seen:
            entry = project.look(above)
            after.seen[above] = None
            if entry is None or entry.kind != "folder":
                after.seen[above] = "its parent is not a folder in the project (a link, or nothing)"
            elif entry.uid != uid:
                after.seen[above] = "is in a folder of another account than the project's"
        if (problem := after.seen[above]) is not None:
            return problem
    return None


def _check_link(path: str, target: str, after: _After) -> None:
    parts = link_parts(path, target)
    for depth in range(1, len(parts) + 1):
        if after.is_link("/".join(parts[:depth])):
            raise ChangeSetError(f"{path}: is a link over another link")
    if after.is_workspace("/".join(parts)) or (after.closed(parts) or "").endswith("workspace"):
        raise ChangeSetError(f"{path}: is a link into a workspace")


def link_problem(tree: Tree, path: str) -> str | None:
    """Why a link of a tree cannot be in a change set. Raises OSError."""
    try:
        target = tree.target(path).decode("utf-8")
        parts = link_parts(path, target)
    except UnicodeDecodeError:
        return "is a link to a name that is not UTF-8"
    except ChangeSetError as error:
        return str(error).partition(": ")[2]
    if has_hidden(target) or {"\n", "\t", "\\"} & set(target) or len(target) > limits.TAR_PATH_BYTES // 4:
        return "is a link to a name with hidden characters, or to a long one"
    for depth in range(1, len(parts) + 1):
        passed = tree.look("/".join(parts[:depth]))
        if passed is not None and passed.kind == "link":
            return "is a link over another link"
    return None


def undo_problems(project: Tree, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """The paths of what is in the project and could not be in the change set of an undo, each with the reason. Raises
    OSError.
    """
    keys: dict[str, Counter[str]] = {}
    for row in rows:
        if row.before is None:
            continue
        if row.before.mode == LINK and (problem := link_problem(project, row.path)) is not None:
            yield row.path, f"{problem} in the project, {_NO_UNDO}"
        if row.after is None:
            folder, _, name = row.path.rpartition("/")
            if folder not in keys:
                keys[folder] = Counter(map(collision_key, project.names(folder)))
            if keys[folder][collision_key(name)] > 1:
                yield row.path, f"differs from another name in case or Unicode form only, {_NO_UNDO}"


def check_undo(project: Tree, rows: Sequence[Row]) -> None:
    """Refuse a change of files that could not be undone. Raises ChangeSetError, OSError."""
    for path, problem in undo_problems(project, rows):
        raise ChangeSetError(f"{path}: {problem}")
    kept = 0
    for row in rows:
        present = project.look(row.path) if row.before is not None and row.before.file else None
        kept += 0 if present is None else present.size
        if kept > carried_bytes():
            raise ChangeSetError(
                f"{row.path}: what is replaced and deleted has more than {carried_bytes() // limits.MIB} MiB, which "
                "are not kept for an undo; change it by hand"
            )


class _After:
    """The project as it would be after the change."""

    def __init__(self, project: Tree, rows: Sequence[Row]) -> None:
        self._project = project
        self.changed = {row.path: row for row in rows}
        self.seen: dict[str, str | None] = {}
        """Folders of the project that were checked, with what is wrong with the paths in them."""
        self._closed: dict[str, str | None] = {}
        self._below: dict[str, list[Row]] = {}
        for row in rows:
            self._below.setdefault(row.path.rpartition("/")[0], []).append(row)

    def is_link(self, path: str) -> bool:
        """Whether a path is a symlink afterwards."""
        row = self.changed.get(path)
        if row is not None:
            return row.after is not None and row.after.mode == LINK
        present = self._project.look(path)
        return present is not None and present.kind == "link"

    def closed(self, parts: Sequence[str]) -> str | None:
        """What a path is in that no change set changes: a bare repository or a workspace of the project as it is."""
        found = (self._why_closed("/".join(parts[:depth])) for depth in range(len(parts)))
        return next(filter(None, found), None)

    def is_workspace(self, folder: str) -> bool:
        """Whether a path of the project is a workspace itself."""
        return self._why_closed(folder) == "a workspace"

    def _why_closed(self, folder: str) -> str | None:
        if folder not in self._closed:
            names = self._project.names(folder)
            self._closed[folder] = None
            if is_workspace(names) or looks_bare(names):
                self._closed[folder] = "a workspace" if is_workspace(names) else "a bare repository"
        return self._closed[folder]

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
        found = (
            dict(spelling_problems(fitting, targets))
            or dict(project_problems(project, fitting, targets, uid))
            or dict(undo_problems(project, fitting))
        )
        if not found:
            break
    else:
        raise ChangeSetError("its paths depend on each other in too many ways; propose it in parts")
    above = {folder for row in fitting if row.after for folder in folders_above(row.path)}
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
            stays.update(folders_above(row.path))
    kept: list[Row] = []
    held: list[str] = []
    for row in rows:  # a folder comes before what is in it
        if row.path in gone:
            continue
        if row.after is not None and not gone.isdisjoint(folders_above(row.path)):
            gone.add(row.path)
        elif row.path in stays and row.change in ("delete", "type"):
            gone.add(row.path)
            held += [row.path] * (row.change == "type")
        else:
            kept.append(row)
    return tuple(kept), held
