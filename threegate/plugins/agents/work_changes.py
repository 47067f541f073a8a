"""What an agent changed in its work copy, as the change set of a request. Called only while it is frozen or gone.

Invariant: entries in the copy are opened relative to directory descriptors and through no link (`changes/trees.py`);
nothing of it is run, and git never reads it. Only paths that the agent touched are compared, so changes that others
make in the project meanwhile are not attributed to the agent. If the project already has what this run proposed, the
agent's further changes are compared with that.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import HeldFolder, hold_path, open_inside
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.git_index import read_index
from threegate.plugins.agents.held_paths import parent_of
from threegate.plugins.agents.names_layer import NamesTree, StartTree
from threegate.plugins.agents.project_ignores import read_ignoring
from threegate.plugins.agents.project_survey import Original, is_within
from threegate.plugins.agents.work_copy import INDEX, WorkCopy
from threegate.plugins.changes.ignored import IgnoreRules
from threegate.plugins.changes.make import LeftOut, MadeChangeSet, make_change_set, refuse_exhausted, utf_8
from threegate.plugins.changes.merge import MergedFile, MergedTree, base_name, merge_files
from threegate.plugins.changes.path_rules import is_repository
from threegate.plugins.changes.project_repository import BranchRefused, ObjectStore, ProjectRepository
from threegate.plugins.changes.protected_paths import ProtectedPaths
from threegate.plugins.changes.table import ChangeSetError, Row, TableNode, read_table, render_table
from threegate.plugins.changes.trees import HeldTree, OverlayTree, Tree, TreeEntry, node_of

_MOVED: Final = "changed in the project too since the run began"
_SECOND: Final = 1_000_000_000


def read_changes(
    copy: WorkCopy,
    *,
    paths: tuple[str, ...] = (),
    instead: Callable[[Tree], tuple[Tree, list[str]]] | None = None,
) -> MadeChangeSet:
    """The change set of a work copy, or of some paths in it. A file that also changed in the project since the start is
    merged if that can be, for which the bytes of the start must be there; any other such path is left out by name.
    `instead` makes another tree of the project than the files of the copy, and names what differs.

    Raises InvalidInput for a change that is too large, Unavailable if it cannot be read or keeps changing.
    """
    paths = tuple(path.rstrip("/") for path in paths)
    ignoring = read_ignoring(copy.run)
    try:
        with _trees(copy) as (project, work, touched):
            if instead is not None:
                work, touched = instead(project)
            ours = _proposed(copy.run)
            touched += [path for path in ours if work.look(path) is None and project.look(path) is not None]
            candidates, moved = _sorted_out(copy, project, work, touched, ours)
            if paths:
                inner = [asked for asked in paths if any(asked.startswith(f"{path}/") for path in candidates)]
                candidates, moved = ([path for path in some if is_within(path, paths)] for some in (candidates, moved))
                candidates += inner
            again = _merged_once(copy, candidates, ours)
            merged = _merged(copy, project, work, [*moved, *again])
            moved = [path for path in (*moved, *again) if path not in merged]
            candidates = [path for path in candidates if path not in again]
            made = make_change_set(
                project,
                MergedTree(work, merged),
                candidates=[*candidates, *merged],
                hidden=_Unseen(copy, project, ours),
                protected=ProtectedPaths(copy.start.protected).has,
                ignoring=ignoring,
            )
            rules = IgnoreRules(project, work, ignoring)
            left = [path for path in moved if rules.leaves_out(path) is None]
    except ChangeSetError as error:
        raise InvalidInput(f"the agent's changes: {error}") from None
    except OSError as error:
        raise Unavailable(f"the agent's changes cannot be read ({error.strerror or error})") from None
    named = [LeftOut(utf_8(path), _MOVED) for path in left[: limits.CHANGE_LEFT_OUT]]
    more = Counter(made.more_left_out)
    more.update([_MOVED] * (len(left) - len(named)))
    return replace(
        made,
        left_out=(*named, *made.left_out),
        more_left_out=more,
        ignored=made.ignored + len(moved) - len(left),
    )


def remember_proposed(run: AgentRun, made: MadeChangeSet) -> None:
    """Record what a run proposed, so that further changes build on it once it is applied. Raises OSError."""
    if not run.proposed.is_dir():
        durable.make_folder(run.proposed, 0o700)
    durable.overwrite(run.proposed / made.sha256, render_table(made.rows))


def was_proposed(run: AgentRun, sha256: str) -> bool:
    """Whether a change set of this digest was drafted for the run."""
    return (run.proposed / sha256).is_file()


def keep_bases(copy: WorkCopy, rows: tuple[Row, ...]) -> None:
    """Keep the project's bytes of changed files in the run's `base`, if they are still those of the start: for merging,
    which goes without what cannot be kept.
    """
    kept = set(os.listdir(copy.run.base))

    def bases(top: HeldFolder) -> Iterator[tuple[str, bytes]]:
        for row in rows:
            entry, name = copy.start.entries.get(row.path), base_name(row.path)
            if entry is None or entry.kind != "file" or name in kept or entry.size > limits.AGENT_BASE_BYTES:
                continue
            data = None
            with suppress(OSError):
                descriptor = open_inside(top.fileno(), row.path)
                try:
                    if Original.of(os.fstat(descriptor)) == entry:
                        data = durable.read_regular_fd(descriptor, Path(row.path), max_bytes=limits.AGENT_BASE_BYTES)
                finally:
                    os.close(descriptor)
            if data is not None:
                yield name, data

    with suppress(OSError), hold_path(copy.root) as top:
        durable.deliver_together(copy.run.base, bases(top))


class _Unseen(Container[str]):
    """The paths that the agent was not given: what was hidden from it, and names that the project has got since."""

    def __init__(self, copy: WorkCopy, project: Tree, ours: Collection[str]) -> None:
        self._start = copy.start
        self._project = project
        self._ours = ours

    def __contains__(self, path: object) -> bool:
        if path in self._start.hidden:
            return True
        if path in self._start.entries or path in self._ours:
            return False
        return isinstance(path, str) and self._project.look(path) is not None


@contextmanager
def _trees(copy: WorkCopy) -> Iterator[tuple[Tree, Tree, list[str]]]:
    """The project, the work copy, and the paths that the agent touched. Raises OSError."""
    if copy.account.is_own:  # its top may have any mode by now; it is the agent's alone and named by no one
        os.chmod(copy.top, stat.S_IMODE(os.stat(copy.top).st_mode) | 0o700)
    with hold_path(copy.root) as root, hold_path(copy.top) as top:
        project, mine = HeldTree(root), HeldTree(top)
        touched = list(_touched(copy, mine, top))
        if copy.kind == "overlay":
            yield project, OverlayTree(mine, NamesTree(StartTree(copy.start, project), project)), touched
        else:
            yield project, mine, touched


def _touched(copy: WorkCopy, tree: HeldTree, top: HeldFolder) -> Iterator[str]:
    """In an overlay every entry of the upper folder, which was copied up, created or whited out; a folder counts only
    if it is new or hides the project's. In a plain copy the entries that are not the copied ones, or are gone.
    """
    start, overlay = copy.start, copy.kind == "overlay"
    seen, closed, left = {""}, list[str](), [""]
    while left:
        folder = left.pop()
        try:
            found = tree.names(folder)
        except OSError as error:  # the folder itself is what is left out, by name
            refuse_exhausted(error)
            yield folder
            closed.append(f"{folder}/")
            continue
        for name, entry in found.items():
            path = f"{folder}/{name}" if folder else name
            if path == ".git" or (is_repository(name) and path in start.hidden):
                continue
            seen.add(path)
            known = start.entries.get(path)
            if known is not None and entry.kind == known.kind == "folder" and not (overlay and _hides(tree, path)):
                left.append(path)
            elif overlay or known is None or not _is_copied(copy, top, path):
                yield path
    if not overlay:
        gone = (path for path in start.entries if path not in seen)
        yield from (path for path in gone if _above(path) in seen and not path.startswith(tuple(closed)))


def _hides(upper: HeldTree, path: str) -> bool:
    """Whether a folder hides the project's; one that cannot be read counts as one."""
    try:
        return upper.opaque(path)
    except OSError as error:
        refuse_exhausted(error)
        return True


def _is_copied(copy: WorkCopy, top: HeldFolder, path: str) -> bool:
    """Whether an entry of a plain copy is the one that was copied; one that cannot be read is not."""
    try:
        facts = _facts(top, path)
    except OSError as error:
        refuse_exhausted(error)
        return False
    # By the time of the last change of its inode, which nobody can set: size and mtime an agent can restore.
    return facts is not None and (facts.st_ctime_ns, facts.st_ino) == copy.start.copied.get(path)


def _above(path: str) -> str:
    return path.rpartition("/")[0]


_Proposed = Mapping[str, Mapping[TableNode | None, TableNode | None]]
"""What a run proposed for each path, with what it was to replace."""


def _proposed(run: AgentRun) -> _Proposed:
    """Everything that was drafted for a run. Raises OSError, ChangeSetError."""
    ours: dict[str, dict[TableNode | None, TableNode | None]] = {}
    for table in sorted(run.proposed.glob("*")):
        for row in read_table(durable.read_regular(table, max_bytes=limits.CHANGE_TABLE_BYTES)):
            ours.setdefault(row.path, {})[row.after] = row.before
    return ours


def _sorted_out(
    copy: WorkCopy, project: Tree, work: Tree, touched: list[str], ours: _Proposed
) -> tuple[list[str], list[str]]:
    """Of the touched paths those that can be compared, and those that changed in the project. Raises OSError."""
    candidates, moved = [], []
    left = touched
    while left:
        path = left.pop()
        if path in copy.start.hidden or not _moved_on(copy, path):
            candidates.append(path)
            continue
        try:
            now, mine = project.look(path), work.look(path)
        except OSError as error:
            refuse_exhausted(error)
            candidates.append(path)  # and left out by name, when it is compared
            continue
        if now is not None and mine is not None and now.identity == mine.identity:
            continue  # the project's own entry, seen through the overlay
        if now is not None and mine is not None and now.kind == mine.kind == "folder":
            try:
                below = {f"{path}/{name}" for name in work.names(path)}
            except OSError as error:
                refuse_exhausted(error)
                candidates.append(path)
                continue
            left += below | {known for known in ours if _above(known) == path}
        elif _is_ours(project, path, now, ours):
            candidates.append(path)
        else:
            moved.append(path)
    return sorted(set(candidates)), sorted(set(moved))


def _is_ours(project: Tree, path: str, now: TreeEntry | None, ours: _Proposed) -> bool:
    """Whether the project has at a path what the run proposed."""
    if now is None:
        return None in ours.get(path, ())
    try:
        return path in ours and now.kind in ("file", "link") and node_of(project, path, now) in ours[path]
    except OSError as error:
        refuse_exhausted(error)
        return False


def _merged_once(copy: WorkCopy, candidates: list[str], ours: _Proposed) -> set[str]:
    """Of the paths at which the project has what the run proposed, those of files that were merged for it: the copy
    does not have what came from the person, so the two are merged again.
    """
    foreign = {
        path: {old.sha256 for old in ours[path].values() if old is not None and old not in ours[path]}
        for path in candidates
        if path in ours and path in copy.start.entries
    }
    known = _bases(copy, [path for path, old in foreign.items() if old])
    return {path for path, data in known.items() if foreign[path] - {sha256(data).hexdigest()}}


def _bases(copy: WorkCopy, paths: list[str]) -> dict[str, bytes]:
    """The bytes that files had at the start: those that were kept when they were proposed, and those that git has."""
    found: dict[str, bytes] = {}
    left: dict[str, Original] = {}
    for path in paths:
        start = copy.start.entries.get(path)
        if start is None or start.kind != "file" or start.size > limits.AGENT_BASE_BYTES:
            continue
        try:
            found[path] = durable.read_regular(copy.run.base / base_name(path), max_bytes=limits.AGENT_BASE_BYTES)
        except OSError as error:
            refuse_exhausted(error)
            left[path] = start
    return found | start_bytes(copy.run, left)


def start_bytes(run: AgentRun, files: Mapping[str, Original]) -> dict[str, bytes]:
    """The bytes at the start of a run of those of some files that were clean then, and that git stores as they are;
    none without git.
    """
    found: dict[str, bytes] = {}
    try:
        wanted = dict(_clean(run, files)) if files else {}
        if wanted:
            with ObjectStore(ProjectRepository.at(run.git), next(iter(wanted.values())), {}) as store:
                for path, oid in wanted.items():
                    kind, data = store.read(oid, limits.AGENT_BASE_BYTES)
                    if kind == "blob" and len(data) == files[path].size:
                        found[path] = data
    except (BranchRefused, OSError, ValueError, IndexError):  # then what has no bytes is left out by name
        return found
    return found


def _clean(run: AgentRun, files: Mapping[str, Original]) -> Iterator[tuple[str, str]]:
    """The path and the blob of each file that was as the index had it. Raises OSError, ValueError, IndexError."""
    for entry in read_index(durable.read_regular(run.git / INDEX, max_bytes=limits.SNAPSHOT_BYTES)):
        path = os.fsdecode(entry.path)
        start = files.get(path)
        if start is not None and entry.is_of(start.mtime_ns // _SECOND, start.inode, start.size):
            yield path, entry.oid


def _merged(copy: WorkCopy, project: Tree, work: Tree, moved: list[str]) -> dict[str, MergedFile]:
    """Of the paths that both sides changed, those that can be merged; none without git."""
    merged = {}
    for path, base in _bases(copy, moved).items():
        before = copy.start.entries[path]
        try:
            now, mine = project.look(path), work.look(path)
            kinds = {before and before.kind, now and now.kind, mine and mine.kind}
            if kinds != {"file"} or not (before and now and mine):
                continue
            if max(now.size, mine.size) > limits.AGENT_BASE_BYTES:
                continue
            data = merge_files(b"".join(project.chunks(path)), base, b"".join(work.chunks(path)))
        except OSError as error:
            refuse_exhausted(error)
            continue
        except Unavailable:
            break
        if data is not None:
            was = bool(before.mode & stat.S_IXUSR)
            merged[path] = MergedFile(data, now.executable if mine.executable == was else mine.executable)
    return merged


def _moved_on(copy: WorkCopy, path: str) -> bool:
    """Whether the project's entry at a path differs from the one at the start; a folder's own entry is not compared."""
    try:
        with hold_path(copy.root) as top:
            facts = _facts(top, path)
    except OSError:
        return True
    before = copy.start.entries.get(path)
    now = None if facts is None else Original.of(facts)
    if before is None or now is None or before.kind == now.kind == "folder":
        return (before is None) != (facts is None)
    return before != now


def _facts(top: HeldFolder, path: str) -> os.stat_result | None:
    """What `lstat` returns for a path below a held folder; None if nothing is there. Raises OSError."""
    try:
        with parent_of(top.fileno(), path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
