"""The agent's copy of a project, made before the agent starts (`work_changes` reads it back).

Invariant: the project itself is only read, relative to directory descriptors, and git never runs in it or in
the copy. Folders that the agent may write to are below the run's folder, which only the operator can enter.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import hold_path, open_beneath
from threegate.core.user_state import UserState, config_home
from threegate.core.workspace import AgentRun, Workspace, default_workspace
from threegate.plugins.agents.git_history import make_history
from threegate.plugins.agents.git_repository import NoHistory, Repository
from threegate.plugins.agents.held_paths import FOLDER, read_inside
from threegate.plugins.agents.names_layer import make_names
from threegate.plugins.agents.project_ignores import gather, to_bytes
from threegate.plugins.agents.project_survey import Original, Survey, survey
from threegate.plugins.changes.make import utf_8
from threegate.plugins.changes.project import ProjectError
from threegate.runners.jail.jail import HOME, INBOX, RESULTS, VERDICTS, Account, Bound, Layered

UPPER, SCRATCH, NAMES, TREE = "upper", "scratch", "names", "tree"
INDEX: Final = "index"
"""The project's index at the start, in a run's `git` folder."""
_GIT_OBJECTS: Final = "/run/git-objects"

CopyKind = Literal["overlay", "plain"]


_OF_THE_JAIL: Final = (INBOX, VERDICTS, RESULTS, _GIT_OBJECTS, "/dev", "/proc", "/sys")
"""Where an agent's jail has something else; its home may have a project inside."""


def refuse_project(path: Path, workspace: Workspace, workspace_id: str, *, copied: bool = True) -> Path:
    """The real path of a project that an agent may get a copy of, or with `copied` False of a folder that it may read.
    Raises InvalidInput with the reason otherwise. The workspace may be in a project: it is hidden there.
    """
    try:
        root = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InvalidInput(f"{path}: no such folder; name the project with --project DIR") from None
    if not root.is_dir():
        raise InvalidInput(f"{path}: not a folder; name the project with --project DIR")
    if utf_8(str(root)) != str(root):
        raise InvalidInput(f"{utf_8(str(root))}: its path is not UTF-8; rename it, or name a folder elsewhere")
    home, own = Path.home().resolve(), workspace.root.resolve()
    if root == own:
        raise InvalidInput(
            f"{path}: is the workspace itself; make one that is a folder of its own in the project: "
            "threegate init .threegate"
        )
    default = default_workspace().parent.resolve()
    refused = {home: "your home folder", own: "the workspace", default: "your own workspace"}
    for key in (home / ".ssh", home / ".gnupg", config_home() / "threegate", UserState.of(workspace_id).folder.parent):
        refused.setdefault(key.resolve(), "a folder with keys")
    for folder, what in refused.items():
        if root == folder or (root in folder.parents and not (copied and folder == own)):
            raise InvalidInput(f"{path}: is or contains {what}; name a folder with only the project")
        if folder != home and folder in root.parents:
            raise InvalidInput(f"{path}: is inside {what}; name a project elsewhere")
    # A workspace of another person, or one that is not this process's, counts too.
    for parent in (root, *root.parents):
        if (parent / "threegate.toml").is_file() and (parent / "tool-exec").is_dir():
            raise InvalidInput(f"{path}: is inside the workspace {parent}; name a project elsewhere")
    if len(root.parts) < 3:  # such as /usr or /srv
        raise InvalidInput(f"{path}: is a system folder; name a folder with only the project")
    if root == Path(HOME) or (
        any(root.is_relative_to(place) for place in _OF_THE_JAIL) and not root.is_relative_to("/dev/shm")
    ):
        raise InvalidInput(f"{path}: an agent's jail has something of its own here; name a folder elsewhere")
    return root


def typed_links(path: Path) -> Iterator[tuple[str, str]]:
    """Each link on the way to a path as it was typed, and the real path that it leads to: both exist in the jail."""
    base = os.environ.get("PWD", "")
    if not Path(base).is_absolute() or os.path.realpath(base) != os.getcwd():
        base = os.getcwd()
    real = "/"
    for part in Path(base, path).parts[1:]:
        if part == "..":
            real = os.path.dirname(real)
            continue
        at = os.path.join(real, part)
        real = os.path.realpath(at)
        if real != at:
            yield at, real


@dataclass(frozen=True, slots=True)
class WorkCopy:
    """A work copy of `root` in the folder of a run."""

    run: AgentRun
    root: Path
    kind: CopyKind
    account: Account
    start: Survey

    @classmethod
    def make(
        cls,
        run: AgentRun,
        root: Path,
        *,
        account: Account,
        kind: CopyKind,
        plain_if_small: bool = False,
        shown: Collection[str] = (),
        cache: Path | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
        say: Callable[[str], None] = lambda line: None,
        start: Survey | None = None,
        take_names: Callable[[Path], None] = lambda place: None,
    ) -> WorkCopy:
        """Write the manifest of a survey, and make the copy; without `start` the project is surveyed now. `take_names`
        may put the layer of an earlier run at a path, whatever it has.

        With `plain_if_small` it is an overlay only where a plain copy is not cheap: in an overlay no folder of the
        project can be renamed by one call. `progress` is called with the number of files, and of versions in the
        history, that are done and of all, `say` with a line about the repository if it is not as in the project.

        Raises InvalidInput, Unavailable (no space, not readable); the run's folder may then be removed.
        """
        if start is None:
            start = survey(root, shown=shown, cache=cache)
        if plain_if_small and start.total_bytes <= limits.AGENT_SMALL_BYTES:
            kind = "plain" if len(start.entries) <= limits.AGENT_SMALL_ENTRIES else kind
        copy = cls(run, root, kind, account, start)
        try:
            if kind == "overlay":
                take_names(run.work / NAMES)
                copy._make_overlay()
            else:
                copy._make_plain(progress)
            copy._make_git(shown, cache, say, progress)
            if not account.is_own and (copy.top / ".git").is_dir():
                _give(copy.top / ".git", account)
            copy.record()
        except OSError as error:
            raise Unavailable(
                f"{run.work}: the work copy cannot be made ({error.strerror or error}); make room, for instance with: "
                "threegate audit prune --older-than 30d"
            ) from None
        return copy

    @classmethod
    def of(cls, run: AgentRun, root: Path, kind: CopyKind, account: Account) -> WorkCopy:
        """The existing work copy of a run. Raises Unavailable."""
        try:
            start = Survey.from_bytes(durable.read_regular(run.manifest, max_bytes=limits.AGENT_MANIFEST_BYTES))
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            raise Unavailable(f"{run.manifest}: cannot be read; the work copy can only be inspected by hand") from None
        return cls(run, root, kind, account, start)

    def record(self) -> None:
        """Write down what git knows of the project now, and last of all the manifest. Raises OSError."""
        durable.deliver(self.run.ignores, to_bytes(gather(self.root)))
        durable.deliver(self.run.manifest, b"".join(self.start.to_lines()))

    @property
    def top(self) -> Path:
        """The folder that the agent writes into: the copy, or the changes in an overlay."""
        return self.run.work / (UPPER if self.kind == "overlay" else TREE)

    @property
    def layered(self) -> tuple[Layered, ...]:
        """For `Jail.layered`."""
        if self.kind == "plain":
            return ()
        return (Layered(self.run.work / NAMES, (self.root,), str(self.root), self.run.work),)

    @property
    def bound(self) -> tuple[Bound, ...]:
        """What the jail binds for it, apart from the overlay."""
        tree = (Bound(self.run.work / TREE, str(self.root), writable=True),) if self.kind == "plain" else ()
        objects = self.run.git / "objects"
        return (*tree, Bound(objects, _GIT_OBJECTS)) if objects.is_dir() else tree

    # ---- making the copy

    def _make_overlay(self) -> None:
        """The names of what is visible, and folders for the changes; `.git` is a folder among these."""
        for folder in (self.top, self.run.work / SCRATCH):
            folder.mkdir(exist_ok=True)
        os.chmod(self.top, stat.S_IMODE(os.stat(self.root).st_mode) | 0o700)
        self.make_names()

    def make_names(self) -> None:
        """The layer of what is visible, for an overlay. Raises OSError."""
        with hold_path(self.root) as source:
            make_names(self.start, source.fileno(), self.run.work / NAMES)

    def _make_plain(self, progress: Callable[[int, int], None]) -> None:
        free = os.statvfs(self.run.work)
        if free.f_bavail * free.f_frsize < self.start.total_bytes:
            raise Unavailable(
                f"{self.run.work}: a copy of the project needs {self.start.total_bytes >> 20} MiB, more than "
                "is free on this disk; make room"
            )
        if self.start.total_bytes > limits.AGENT_COPY_BYTES:
            raise InvalidInput(
                f"{self.root}: more than {limits.AGENT_COPY_BYTES >> 30} GiB to copy; name one of its folders"
            )
        self.top.mkdir(exist_ok=True)
        with hold_path(self.root) as source:
            copy_entries(self.start, source.fileno(), self.top, self.account, progress)

    def _make_git(
        self,
        shown: Collection[str],
        cache: Path | None,
        say: Callable[[str], None],
        progress: Callable[[int, int], None],
    ) -> None:
        """A `.git` with what reading and committing need, without hidden files, hooks, remotes and credentials. `say`
        gets what is not as in the project.
        """
        if ".git" not in self.start.hidden:
            above = next((folder for folder in self.root.parents if (folder / ".git").exists()), None)
            if above is not None and above != Path.home().resolve():
                say(
                    f"git: the agent has no repository: the project is a folder of the one in {above}; with "
                    f"--project {above} it has one"
                )
            return
        try:
            repository = Repository.of(self.root)
            self.run.git.mkdir()
            history = make_history(
                repository,
                self.run.git,
                hides=lambda path: self.start.hides(path, shown),
                shown=self._visible_bytes,
                clean=self.start.clean_blobs,
                kept=cache,
                progress=progress,
            )
            history.write(repository, self.top / ".git", _GIT_OBJECTS)
            with suppress(FileNotFoundError):  # beside the objects, where no agent sees it
                (self.run.git / INDEX).write_bytes(repository.read_own("index"))
        except (NoHistory, ProjectError) as error:
            say(f"git: the agent has no repository: {error}")
            return
        for note in history.notes:
            say(note)
        if repository.lacks_lfs:
            say("git: git-lfs is not installed in /usr, so files of Git LFS are staged whole; apt-get install git-lfs")

    def _visible_bytes(self, path: str) -> bytes | None:
        """The bytes of a file of the project that the agent sees; None if it sees none, or a very large one."""
        entry = self.start.entries.get(path)
        if entry is None or entry.kind != "file" or entry.size > limits.AGENT_BASE_BYTES:
            return None
        try:
            with hold_path(self.root) as top:
                return read_inside(top, path, max_bytes=limits.AGENT_BASE_BYTES)
        except OSError:
            return None


def copy_entries(
    start: Survey,
    source: int,
    place: Path,
    account: Account | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Copy what a survey of the open folder `source` found visible into an empty folder, owned by `account`, or without
    one by whom it was. What changed meanwhile is left out. Raises OSError.
    """
    with hold_path(place) as held:
        target = held.fileno()
        for count, (path, entry) in enumerate(list(start.entries.items()), 1):
            try:
                start.copied[path] = _copy_entry(source, target, path, entry, account)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                del start.entries[path]
                start.hidden[path] = "unreadable"
            if count % 256 == 0:
                progress(count, len(start.entries))
        if account is not None:
            os.fchown(target, account.uid, account.gid)


def _copy_entry(source: int, target: int, path: str, entry: Original, account: Account | None) -> tuple[int, int]:
    """Copy one entry; its folder exists already. Returns ctime (ns) and inode of the copy. Raises OSError."""
    parent, _, name = path.rpartition("/")
    with _below(source, parent) as there, _below(target, parent) as here:
        if entry.kind == "folder":
            os.mkdir(name, dir_fd=here)
            os.chmod(name, entry.mode | 0o700, dir_fd=here)
        elif entry.kind == "link":
            os.symlink(os.readlink(name, dir_fd=there), name, dir_fd=here)
        else:
            _copy_file(there, name, here, entry.mode & 0o777 | (0 if account is None else 0o600))
        owner = account
        if owner is None:
            facts = os.stat(name, dir_fd=there, follow_symlinks=False)
            owner = Account("", facts.st_uid, facts.st_gid)
        os.chown(name, owner.uid, owner.gid, dir_fd=here, follow_symlinks=False)
        if entry.kind != "folder":  # what builds compare, and git's index
            os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=here, follow_symlinks=False)
        facts = os.stat(name, dir_fd=here, follow_symlinks=False)
    return facts.st_ctime_ns, facts.st_ino


@contextmanager
def _below(top: int, path: str) -> Iterator[int]:
    """A descriptor of a folder below an open one, opened part by part and through no link. Raises OSError."""
    descriptor = os.dup(top)
    try:
        for part in path.split("/") if path else ():
            following = open_beneath(descriptor, part, FOLDER)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def _copy_file(folder: int, name: str, target: int, mode: int) -> None:
    """Copy the bytes of a regular file into a new one with the same name. Raises OSError."""
    with open(open_beneath(folder, name), "rb") as source:
        if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file", name)
        descriptor = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=target
        )
        with open(descriptor, "wb") as copy:
            shutil.copyfileobj(source, copy, limits.MIB)
            os.fchmod(copy.fileno(), mode)


def _give(tree: Path, account: Account) -> None:
    """Change the owner of a tree, which no one else could write to so far, to the agent's account."""
    for place, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(Path(place, name), account.uid, account.gid, follow_symlinks=False)
    os.chown(tree, account.uid, account.gid, follow_symlinks=False)
