"""What an agent changed in its work copy, read while it is frozen or gone.

Invariant: whatever is in the copy is reached beneath a held descriptor, entry by entry, and no link is followed; nothing of it is
run, and no git looks at it. What was hidden at the start, what is below a `.git`, and what cannot be carried is never a change.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from threegate.agents.project_survey import Original
from threegate.agents.work_copy import OPAQUE, TREE, UPPER, WorkCopy
from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import HeldFolder
from threegate.proposals.project import Project, ProjectError

_PIECE: Final = 1 << 20
_SETID: Final = stat.S_ISUID | stat.S_ISGID

ChangeKind = Literal["add", "modify", "delete", "mode", "type"]


@dataclass(slots=True)
class Changes:
    """What differs from the project at the start, by path."""

    paths: dict[str, ChangeKind] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """What cannot be carried, with the reason."""
    git: int = 0
    """Entries below `.git`, which are never carried."""


@contextmanager
def held_copy(copy: WorkCopy) -> Iterator[HeldFolder]:
    """The folder of the copy that the agent could write, held open. Raises Unavailable."""
    path = copy.run.work / (UPPER if copy.kind == "overlay" else TREE)
    try:
        folder = HeldFolder(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC), path)
    except OSError as error:
        raise Unavailable(f"{path}: the work copy cannot be read ({error.strerror})") from None
    with folder:
        yield folder


def read_changes(copy: WorkCopy) -> Changes:
    """What differs. Only while nothing of the agent lives, or all of it is frozen.

    Raises InvalidInput for more than AGENT_CHANGED_PATHS, Unavailable.
    """
    reading = _Reading(copy)
    with held_copy(copy) as top:
        try:
            reading.folder(top, "")
        except OSError as error:
            raise Unavailable(f"{copy.run.work}: the work copy cannot be read ({error.strerror})") from None
    if copy.kind == "plain":
        reading.gone("")
    found = reading.found
    return Changes(dict(sorted(found.paths.items())), dict(sorted(found.left_out.items())), found.git)


def open_changed(top: HeldFolder, path: str) -> int:
    """A descriptor of a changed regular file beneath the held copy, through no link. The caller closes it. Raises OSError."""
    *folders, name = path.split("/")
    held = HeldFolder(os.dup(top.fileno()), top.path)
    for part in folders:
        with held:
            held = held.folder(part)
    with held:
        return held.open_regular(name)[0]


def keep_bases(copy: WorkCopy, changes: Changes) -> None:
    """Keep the project's bytes of changed files in the run's `base`, where they are still those of the start."""
    project = Project(copy.root)
    for path in changes.paths:
        entry, kept = copy.start.entries.get(path), copy.run.base / base_name(path)
        if entry is None or entry.kind != "file" or kept.exists() or entry.size > limits.AGENT_BASE_BYTES:
            continue
        with suppress(OSError, ProjectError), _project_file(project, path) as theirs:
            if Original.of(os.fstat(theirs)) == entry:
                data = durable.read_regular_fd(theirs, kept, max_bytes=limits.AGENT_BASE_BYTES)
                durable.overwrite(kept, data)


def base_name(path: str) -> str:
    """The name of a file in a run's `base`."""
    return sha256(os.fsencode(path)).hexdigest()


class _Reading:
    """One look at a copy. `seen` are the paths of the start that are still there in some form."""

    def __init__(self, copy: WorkCopy) -> None:
        self._copy = copy
        self._start = copy.start
        self._project = Project(copy.root)
        self._overlay = copy.kind == "overlay"
        self._seen: set[str] = set()
        self.found = Changes()

    def folder(self, held: HeldFolder, prefix: str) -> None:
        if prefix.count("/") > limits.AGENT_PATH_DEPTH:
            self.found.left_out[prefix] = f"it is more than {limits.AGENT_PATH_DEPTH} folders deep"
            return
        with held.entries() as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            self._entry(held, name, prefix + name)

    def gone(self, prefix: str) -> None:
        """What was below a folder at the start, and was not seen there."""
        for path in self._start.entries:
            if path.startswith(prefix) and path not in self._seen:
                self._change(path, "delete")

    def _entry(self, held: HeldFolder, name: str, path: str) -> None:
        facts = held.stat(name)
        before = self._start.entries.get(path)
        if name.lower() == ".git":
            self._git(held, name, facts)
        elif path in self._start.hidden:
            if not _is_whiteout(facts):
                self.found.left_out[path] = "it was hidden from the agent"
        elif self._overlay and _is_whiteout(facts):
            if before is not None:
                self._change(path, "delete")
                self.gone(f"{path}/")
        else:
            self._seen.add(path)
            self._present(held, name, path, facts, before)

    def _present(
        self, held: HeldFolder, name: str, path: str, facts: os.stat_result, before: Original | None
    ) -> None:
        now = Original.of(facts)
        if now is None or (now.kind == "file" and now.mode & _SETID):
            what = "it is no file, folder or link" if now is None else "it has a setuid or setgid bit"
            self.found.left_out[path] = what
            return
        if before is not None and before.kind != now.kind:
            self._change(path, "type")
            self.gone(f"{path}/")
        elif before is None:
            self._change(path, "add")
        elif now.kind != "folder" and not self._untouched(path, now):
            if not self._same_bytes(held, name, path, before, now):
                self._change(path, "modify")
            elif now.kind == "file" and (now.mode ^ before.mode) & stat.S_IXUSR:
                self._change(path, "mode")
        if now.kind == "folder":
            with held.folder(name) as below:
                self.folder(below, f"{path}/")
                if self._overlay and _is_opaque(below):
                    self.gone(f"{path}/")

    def _git(self, held: HeldFolder, name: str, facts: os.stat_result) -> None:
        """Count what is below a `.git`."""
        if not stat.S_ISDIR(facts.st_mode):
            self.found.git += not _is_whiteout(facts)
            return
        left = [held.folder(name)]
        while left:
            with left.pop() as folder, folder.entries() as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(folder.folder(entry.name))
                    else:
                        self.found.git += 1

    def _untouched(self, path: str, now: Original) -> bool:
        """Whether an entry of a plain copy is the one that was copied."""
        return self._start.copied.get(path) == (now.ctime_ns, now.inode)

    def _change(self, path: str, kind: ChangeKind) -> None:
        before = self._start.entries.get(path)
        if kind in ("delete", "type") and before is not None and before.kind == "folder":
            below = f"{path}/"
            if any(hidden.startswith(below) for hidden in self._start.hidden):
                self.found.left_out[path] = "it has files that were hidden from the agent"
                return
        self.found.paths[path] = kind
        if len(self.found.paths) > limits.AGENT_CHANGED_PATHS:
            raise InvalidInput(
                f"the agent changed more than {limits.AGENT_CHANGED_PATHS} paths; look at {self._copy.run.work}"
            )

    def _same_bytes(self, held: HeldFolder, name: str, path: str, before: Original, now: Original) -> bool:
        """Whether an entry has the bytes of the project's; False where that cannot be known any more."""
        try:
            if now.kind == "link":
                parts = path.split("/")
                with self._project.folder(tuple(parts[:-1])) as parent:
                    return os.readlink(parts[-1], dir_fd=parent) == os.readlink(name, dir_fd=held.fileno())
            if now.size != before.size:
                return False
            with _project_file(self._project, path) as theirs:
                ours = held.open(name)
                try:
                    return _equal(ours, theirs)
                finally:
                    os.close(ours)
        except (OSError, ProjectError):
            return False


@contextmanager
def _project_file(project: Project, path: str) -> Iterator[int]:
    """A descriptor of a regular file of the project. Raises OSError, ProjectError."""
    *folders, name = path.split("/")
    with project.folder(tuple(folders)) as parent:
        descriptor = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=parent
        )
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", name)
        yield descriptor
    finally:
        os.close(descriptor)


def _equal(one: int, other: int) -> bool:
    while True:
        first, second = os.read(one, _PIECE), os.read(other, _PIECE)
        if first != second:
            return False
        if not first:
            return True


def _is_whiteout(facts: os.stat_result) -> bool:
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def _is_opaque(folder: HeldFolder) -> bool:
    try:
        return os.getxattr(folder.fileno(), OPAQUE) in (b"y", b"x")
    except OSError:
        return False
