"""Apply a change set to a project, completely or not at all.

Invariant: this runs as the project's owner and never as root; everything is opened relative to one descriptor
of the project (no link, no mount, no other owner is crossed); a path that is not exactly the "before" of the
table stops the change, and a stopped change is reverted in reverse order. Nothing in the project is opened
for writing: each step is one rename (apply_journal.py), so after a crash each path is either old or new, and
the next start reverts all of them. Source: docs/spec/8-agents.md, "Apply".
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Final, Literal

from threegate.core import durable, removal
from threegate.core.held_folder import HeldFolder, open_inside
from threegate.plugins.changes.action import ProjectPlace
from threegate.plugins.changes.apply.apply_journal import STAGE, ApplyPlan, ApplyStep, Do, write_plan
from threegate.plugins.changes.change_tar import ChangeSet, write_change_tar
from threegate.plugins.changes.checks import check_project, check_undo, moved_on
from threegate.plugins.changes.commit_chain import CarriedCommit
from threegate.plugins.changes.table import EXECUTABLE, FOLDER, LINK, ChangeSetError, Row
from threegate.plugins.changes.trees import ABSENT, HeldTree, TreeChanged, folder_inside, node_of

_FEW: Final = 8
"""Up to this many files and folders are synced one by one; for more, their whole file system is synced."""
_MEANWHILE: Final = "changed while the change was made; nothing was changed"
LATER: Final = "and what it did cannot be reverted now: the next start of the daemon does"
Ending = Literal["succeeded", "project_changed", "project_not_writable", "failed", "cancelled", "timed_out"]


@dataclass(frozen=True, slots=True)
class Done:
    """The result. Unless ``succeeded``, the project is unchanged, except for `left`: paths that someone else
    changed before they could be reverted, which stay unchanged, with their originals in the stage folder.

    With `halfway` it is not reverted yet, because its owner or the disk does not let it happen: the journal is needed.
    """

    status: Ending
    message: str
    left: tuple[str, ...] = ()
    halfway: bool = False


class ChangeStopped(Exception):
    """The change cannot continue: the status, and one line."""

    def __init__(self, status: Ending, message: str) -> None:
        super().__init__(message)
        self.status: Ending = status


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs of a change: the change set in its archive, and where journal and originals are written.

    `exact` is for an undo: permission bits and group of restored paths. `originals` is None for an undo,
    whose originals are the change set that it reverts. `stop` is called before each step and may return a
    status to stop with.
    """

    change: ChangeSet
    archive: BinaryIO
    journal: int
    token: str
    originals: BinaryIO | None
    exact: Mapping[str, tuple[int, int]]
    stop: Callable[[], Ending | None] = lambda: None
    commits: tuple[CarriedCommit, ...] = ()
    """What is delivered one by one instead of the change set as one commit."""


def carry_out(project: HeldFolder, place: ProjectPlace, work: Work) -> Done:
    """Make the change. On `succeeded` the stage folder still has what was replaced: `forget` removes it,
    `take_back` reverts everything. Never raises because of the project or the disk.
    """
    if os.geteuid() != place.uid or place.uid == 0:
        return Done("project_not_writable", "only its owner's account may change a project, and never root")
    try:
        return _take_steps(project, _prepare(project, place, work), work)
    except ChangeStopped as error:
        return Done(error.status, str(error))
    except ChangeSetError as error:
        return Done("project_changed", str(error))
    except TreeChanged as error:
        return Done("project_changed", f"{error.filename}: {error.strerror}")
    except OSError as error:
        return Done(_status_of(error), _line_of(error))


def _status_of(error: OSError) -> Ending:
    refused = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV)
    return "project_not_writable" if error.errno in refused else "failed"


def _line_of(error: OSError, what: str = "the project") -> str:
    return f"{what} could not be changed ({error.strerror or error}); nothing was changed"


def _prepare(project: HeldFolder, place: ProjectPlace, work: Work) -> ApplyPlan:
    """Check everything, keep the originals, stage what is new, write the plan. Changes no path of the project.

    Raises Stopped, ChangeSetError, OSError; then the stage folder is gone.
    """
    tree = HeldTree(project)
    moved = moved_on(tree, work.change.rows)
    if moved:
        more = f" and {len(moved) - 1} more" if len(moved) > 1 else ""
        what = "differs from what the change was made from; nothing was changed"
        raise ChangeStopped("project_changed", f"{moved[0]}{more}: {what}")
    check_project(tree, work.change, place.uid)
    if work.originals is not None:
        _keep_originals(tree, work.change, work.originals)
    try:
        durable.make_folder_at(project.fileno(), STAGE, project.path / STAGE)
    except FileExistsError:
        raise ChangeStopped(
            "project_not_writable",
            f"{STAGE}/ already exists: another change is in progress or was interrupted (start the daemon)",
        ) from None
    try:
        with project.folder(STAGE) as stage:
            # The token before anything else: only by it, or empty, is a stage folder known as ours and removed.
            os.close(durable.create_at(stage.fileno(), work.token, stage.path / work.token))
            durable.sync_folder_at(project.fileno(), project.path)
            plan = _plan(project, stage, work)
            durable.sync_folder_at(stage.fileno(), stage.path)
        # Only now, so that what the journal lists is on disk, with the inodes by which recovery sees how far it got.
        write_plan(work.journal, plan, "journal")
        return plan
    except BaseException:
        with suppress(OSError):  # leftovers are identified by its token
            forget(project, work.token)
        raise


def _keep_originals(tree: HeldTree, change: ChangeSet, target: BinaryIO) -> None:
    """Write the change that reverts this one, with the current bytes. Raises ChangeSetError, OSError, TreeChanged."""
    check_undo(tree, change.rows)
    turned = [row.turned() for row in change.rows]

    def content(row: Row) -> bytes:
        assert row.after is not None
        data = tree.target(row.path) if row.after.mode == LINK else b"".join(tree.chunks(row.path))
        if hashlib.sha256(data).hexdigest() != row.after.sha256:
            raise TreeChanged(errno.EAGAIN, "changed while it was copied", row.path)
        return data

    write_change_tar(turned, content, target)
    target.flush()
    durable.sync_fd(target.fileno(), "originals")


def _plan(project: HeldFolder, stage: HeldFolder, work: Work) -> ApplyPlan:
    """Write the steps, and everything new, into the stage folder, on disk. Raises OSError, Stopped."""
    steps: list[ApplyStep] = []
    kept: dict[str, tuple[int, int]] = {}
    many = len(work.change.rows) > _FEW
    for number, (do, row) in enumerate(_ordered(work.change.rows)):
        inode = 0
        if row.before is not None:
            facts = _stat(project, row.path)
            kept[row.path] = (stat.S_IMODE(facts.st_mode), facts.st_gid)
        if row.after is not None:
            try:
                inode = _stage_one(project, stage, work, row, str(number), kept.get(row.path), settled=not many)
            except OSError as error:
                raise ChangeStopped(_status_of(error), _line_of(error, row.path)) from None
        old, new = ((node.mode, node.sha256) if node else ("", "") for node in (row.before, row.after))
        steps.append(ApplyStep(number, do, row.path, inode, old, new))
    if many:
        durable.sync_all(stage.fileno(), stage.path)
    return ApplyPlan(tuple(steps), kept)


def _ordered(rows: tuple[Row, ...]) -> list[tuple[Do, Row]]:
    """Entries in a possible order of steps: removals (deepest first), replacements, additions."""
    gone = [row for row in rows if row.after is None]
    turns = [row for row in rows if row.change == "type"]
    comes = [row for row in rows if row.before is None]
    others = [row for row in rows if row.change in ("modify", "mode")]
    # A folder is empty before it goes, and is there before what is in it comes.
    gone.sort(key=lambda row: (-len(row.parts), row.parts))
    turns.sort(key=lambda row: (0 if row.before and row.before.folder else 1, -len(row.parts), row.parts))
    comes.sort(key=lambda row: (len(row.parts), row.parts))
    ordered: list[tuple[Do, Row]] = [("out", row) for row in gone]
    ordered += [("swap", row) for row in (*turns, *others)]
    return ordered + [("in", row) for row in comes]


def _stage_one(
    project: HeldFolder,
    stage: HeldFolder,
    work: Work,
    row: Row,
    name: str,
    old: tuple[int, int] | None,
    *,
    settled: bool,
) -> int:
    """Create the new entry in the stage folder, with its final mode and group; return its inode."""
    assert row.after is not None
    path, folder = stage.path / name, stage.fileno()
    if row.after.mode == LINK:
        durable.make_link_at(folder, name, path, work.change.targets[row.path])
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    mode, gid = _mode_of(project, row, work, old)
    if row.after.folder:
        durable.make_folder_at(folder, name, path)
        descriptor = open_inside(folder, name, os.O_RDONLY | os.O_DIRECTORY)
    else:
        descriptor = durable.create_at(folder, name, path, 0o600)
    try:
        if not row.after.folder:
            content = work.change.read(work.archive, row.path)
            if hashlib.sha256(content).hexdigest() != row.after.sha256:
                raise ChangeStopped("failed", "changes.tar changed while it was read; nothing was changed")
            durable.write_fd(descriptor, content, path)
            _copy_attributes(project, row, descriptor)
        if gid is not None and os.fstat(descriptor).st_gid != gid:
            try:
                os.fchown(descriptor, -1, gid)
            except PermissionError:
                raise PermissionError(errno.EPERM, f"its owner is not a member of the group {gid}") from None
        # After the group: with another one its bits would let other people in.
        os.fchmod(descriptor, mode)
        if settled:
            durable.sync_fd(descriptor, path)
        return os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _copy_attributes(project: HeldFolder, row: Row, target: int) -> None:
    """Keep other attributes of the replaced file. Raises ChangeStopped for what its owner cannot set on another."""
    if row.before is None or not row.before.file:
        return
    source = open_inside(project.fileno(), row.path)
    try:
        for name in os.listxattr(source):
            if name.startswith("user."):
                os.setxattr(target, name, os.getxattr(source, name))
            elif name != "security.selinux":
                what = "has an access list or capabilities; change it by hand"
                raise ChangeStopped("project_not_writable", f"{row.path}: {what}")
    finally:
        os.close(source)


def _mode_of(project: HeldFolder, row: Row, work: Work, old: tuple[int, int] | None) -> tuple[int, int | None]:
    """Permission bits and group of a new entry. Group and others never get more than the file or its folder grants."""
    assert row.after is not None
    if row.path in work.exact:
        return work.exact[row.path]
    executable = row.after.mode in (EXECUTABLE, FOLDER)
    folder = _nearest_folder(project, row)
    given = folder.st_mode & 0o055
    if old is None or row.before is None or not (row.before.file and row.after.file):
        inherits = folder.st_mode & stat.S_ISGID
        mode = (0o755 if executable else 0o644) & (0o700 | given) | (inherits if row.after.folder else 0)
        return mode, folder.st_gid if inherits else None
    mode, gid = old
    if (row.before.mode == EXECUTABLE) == executable:
        return mode & 0o777, gid
    if not executable:
        return mode & 0o666, gid
    return (mode & 0o777) | 0o100 | ((mode & 0o444) >> 2 & given), gid


def _nearest_folder(project: HeldFolder, row: Row) -> os.stat_result:
    """The nearest existing folder above a path: new entries get what it grants to group and others."""
    parts = row.parts[:-1]
    while parts:
        with suppress(OSError):
            facts = _stat(project, "/".join(parts))
            if stat.S_ISDIR(facts.st_mode):
                return facts
        parts = parts[:-1]
    return os.fstat(project.fileno())


def _take_steps(project: HeldFolder, plan: ApplyPlan, work: Work) -> Done:
    """Run all steps, or revert those that were run."""
    try:
        with project.folder(STAGE) as stage:
            for step in plan.steps:
                status = work.stop()
                if status is not None:
                    raise ChangeStopped(status, "was stopped before it was complete; nothing was changed")
                _take(project, stage, step)
            _sync_folders(project, plan)
            durable.sync_folder_at(stage.fileno(), stage.path)
    except ChangeStopped as error:
        return _reverted(project, plan, work.token, error.status, str(error))
    except OSError as error:
        return _reverted(project, plan, work.token, _status_of(error), _line_of(error))
    except BaseException:
        take_back(project, plan, work.token)
        raise
    return Done("succeeded", f"{len(plan.steps)} paths of the project were changed")


def _reverted(project: HeldFolder, plan: ApplyPlan, token: str, status: Ending, message: str) -> Done:
    """The result of a change that failed, which is reverted. `message` says that nothing was changed."""
    try:
        return Done(status, message, take_back(project, plan, token))
    except OSError:
        return Done(status, f"{message.removesuffix('; nothing was changed')}, {LATER}", halfway=True)


def _sync_folders(project: HeldFolder, plan: ApplyPlan) -> None:
    """Make the names durable in every folder where one changed and that still exists. Raises OSError."""
    folders = dict.fromkeys(step.path.rpartition("/")[0] for step in plan.steps)
    if len(folders) > _FEW:
        durable.sync_all(project.fileno(), project.path)
        return
    for folder in folders:
        try:
            with folder_inside(project.fileno(), folder) as descriptor:
                durable.sync_folder_at(descriptor, project.path / folder)
        except OSError as error:
            if error.errno not in ABSENT:
                raise


def _take(project: HeldFolder, stage: HeldFolder, step: ApplyStep) -> None:
    """One rename, and a check of what it moved out. Raises ChangeStopped, OSError; the step may have been done then."""
    above = step.path.rpartition("/")[0]
    try:
        with folder_inside(project.fileno(), above) as folder:
            path, staged = project.path / step.path, stage.path / step.staged
            if step.do == "in":
                durable.rename_at(stage.fileno(), staged, folder, path)
                return
            if step.do == "swap":
                durable.rename_at(stage.fileno(), staged, folder, path, exchange=True)
            else:
                durable.rename_at(folder, path, stage.fileno(), staged)
    except OSError as error:
        if error.errno in (*ABSENT, errno.EEXIST, errno.ENOTEMPTY):
            raise ChangeStopped("project_changed", f"{step.path}: {_MEANWHILE}") from None
        raise ChangeStopped(_status_of(error), _line_of(error, step.path)) from None
    # Between the check of the whole project and this rename its owner may have written there.
    if not _is(stage.fileno(), step.staged, step.old):
        raise ChangeStopped("project_changed", f"{step.path}: {_MEANWHILE}")


def _is(folder: int, name: str, wanted: tuple[str, str]) -> bool:
    """Whether a name has this mode and sha256; a folder matches only while it is empty. Raises OSError."""
    tree = HeldTree(folder)
    entry = tree.look(name)
    if entry is None or entry.kind not in ("file", "folder", "link") or entry.links != 1 or entry.mode != wanted[0]:
        return False
    try:
        return node_of(tree, name, entry).sha256 == wanted[1] and not tree.names(name)
    except TreeChanged:
        return False


def take_back(project: HeldFolder, plan: ApplyPlan, token: str) -> tuple[str, ...]:
    """Revert, in reverse order, every step that was done; can be repeated after a crash. Raises OSError if the stage
    folder cannot be opened, or what was reverted not synced.

    Returns the paths that stay because someone else changed them since: their originals are then in the stage
    folder, which stays too. One such path does not keep the others from being reverted.
    """
    left: list[str] = []
    try:
        stage = project.folder(STAGE)
    except FileNotFoundError:
        return ()  # already forgotten: no step was done, or all were reverted
    with stage:
        if not _is_ours(stage, token):
            return ()
        for step in reversed(plan.steps):  # one path that stays does not keep the others from being reverted
            try:
                if not _taken_back(project, stage, step):
                    left.append(step.path)
            except OSError:
                left.append(step.path)
        _sync_folders(project, plan)
    if not left:
        with suppress(OSError):
            forget(project, token)
    return tuple(left)


def _taken_back(project: HeldFolder, stage: HeldFolder, step: ApplyStep) -> bool:
    """Revert one step, if it was done. False: the path has changed since."""
    try:
        staged = os.stat(step.staged, dir_fd=stage.fileno(), follow_symlinks=False).st_ino
    except FileNotFoundError:
        staged = 0
    taken = staged == 0 if step.do == "in" else staged not in (0, step.inode)
    if not taken:
        return True
    above, _, name = step.path.rpartition("/")
    path, place = project.path / step.path, stage.path / step.staged
    try:
        with folder_inside(project.fileno(), above) as folder:
            if step.do == "out":
                durable.rename_at(stage.fileno(), place, folder, path)
                return True
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            # By inode and by content: what someone wrote, or put here, since then is not ours to move.
            if facts.st_ino != step.inode or not _is(folder, name, step.new):
                return False
            if step.do == "in":
                durable.rename_at(folder, path, stage.fileno(), place)
            else:
                durable.rename_at(stage.fileno(), place, folder, path, exchange=True)
            return True
    except (FileNotFoundError, NotADirectoryError):
        # Gone already: reverted before a crash, or removed by someone. What was moved out must be restored.
        return step.do == "in"


def forget(project: HeldFolder, token: str) -> None:
    """Remove the stage folder with everything in it: the change stands, or none of it was made. Raises OSError.

    A stage folder of another change is left alone.
    """
    try:
        stage = project.folder(STAGE)
    except FileNotFoundError:
        return
    with stage:
        if not _is_ours(stage, token):
            return
        _empty(stage, last=token)  # so that a crash leaves no folder without an owner
    durable.remove_folder_at(project.fileno(), STAGE, project.path / STAGE)
    durable.sync_folder_at(project.fileno(), project.path)


def _is_ours(stage: HeldFolder, token: str) -> bool:
    """Whether the stage folder has this token, or is empty: then it contains no change either."""
    with stage.entries() as entries:
        names = {entry.name for entry in entries}
    return not names or token in names


def _empty(folder: HeldFolder, last: str = "") -> None:
    with folder.entries() as entries:
        names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    for name in (name for name, is_folder in names.items() if is_folder):
        with folder.folder(name) as inner:
            _empty(inner)
        durable.remove_folder_at(folder.fileno(), name, folder.path / name)
    files = [name for name, is_folder in names.items() if not is_folder and name != last]
    removal.unlink_all_at(folder.fileno(), files, folder.path)
    if last in names:
        durable.unlink_at(folder.fileno(), last, folder.path / last)


def _stat(project: HeldFolder, path: str) -> os.stat_result:
    above, _, name = path.rpartition("/")
    with folder_inside(project.fileno(), above) as folder:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
