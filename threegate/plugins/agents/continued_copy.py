"""The kept copy of a run that ended, taken over by the run that continues in it.

Invariant: the copy was an agent's, so what is in it is reached below held folders and through no link, and nothing of
it is run. It is moved, never shared: one run or the other has it. What is hidden from the new run, by the present rules
and its own `--with`, is removed from it. The project as it is now becomes the start of the new run: what only the
project changed is in the copy, what both sides changed is merged there, with marks where somebody has to look.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from threegate.core import durable, limits, removal
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import hold_path
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.held_paths import parent_of
from threegate.plugins.agents.project_ignores import read_ignoring
from threegate.plugins.agents.project_survey import Original, Survey, is_within
from threegate.plugins.agents.runs import RunFacts, lock_ended
from threegate.plugins.agents.work_changes import start_bytes
from threegate.plugins.agents.work_copy import NAMES, SCRATCH, WorkCopy
from threegate.plugins.changes.merge import base_name, merge_marked
from threegate.plugins.changes.trees import HeldTree, TreeEntry
from threegate.runners.jail.jail import Account


@dataclass
class TakenCopy:
    """A copy that was taken over. `lines` are what the person has to know about it."""

    copy: WorkCopy
    parent: AgentRun
    moved: list[tuple[Path, Path]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def give_back(self) -> None:
        """Return it to the run that it came from, with the start that it has now. Raises OSError."""
        for old, new in reversed(self.moved):
            if new.exists():
                os.rename(new, old)
        shutil.copytree(self.copy.run.base, self.parent.base, dirs_exist_ok=True)
        durable.overwrite(self.parent.manifest, b"".join(self.copy.start.to_lines()))


def refuse_continuing(run: AgentRun, facts: RunFacts, shown: Collection[str]) -> None:
    """Raises InvalidInput with the reason why no run can continue in the copy of this one."""
    if facts.continued:
        raise InvalidInput(f"{run.run_id}: its copy is that of the run {facts.continued} now; continue that one")
    if not run.manifest.is_file():
        raise InvalidInput(f"{run.run_id}: has no copy to continue in; start a new run: threegate agent run PROFILE")
    gone = _not_any_more(Path(facts.root), facts.shown, shown)
    if gone and run.git.is_dir():
        tracked = read_ignoring(run).tracked
        for path in gone:
            if any(is_within(item, (path,)) for item in tracked):
                raise InvalidInput(
                    f"{run.run_id}: its history has {path}, which it was shown; name it again: --with {path}"
                )


def take_over_copy(
    parent: AgentRun,
    facts: RunFacts,
    run: AgentRun,
    *,
    root: Path,
    account: Account,
    now: Survey,
    shown: Collection[str],
    taken: Callable[[TakenCopy], None],
) -> TakenCopy:
    """Move a run's copy to another one, and make the project as the survey `now` found it, with `shown` as the paths of
    `--with`, its start. `taken` gets it before anything is moved. Raises InvalidInput if the run is alive, Unavailable,
    OSError.
    """
    with lock_ended(parent) as ended:
        if not ended:
            raise InvalidInput(f"{parent.run_id}: is running; stop it first: threegate agent stop {parent.run_id}")
        before = WorkCopy.of(parent, root, facts.copy, account)
        result = TakenCopy(WorkCopy(run, root, facts.copy, account, before.start), parent)
        taken(result)
        # Its top may have any mode by now; no agent can put another folder there.
        os.chmod(before.top, stat.S_IMODE(os.lstat(before.top).st_mode) | 0o700)
        with suppress(FileNotFoundError):  # another run has it
            os.rename(parent.work / NAMES, run.work / NAMES)
        for old, new in ((before.top, result.copy.top), (parent.git, run.git)):
            if old.is_dir():
                result.moved.append((old, new))  # first: what was moved is given back, whatever fails now
                os.rename(old, new)
    (run.work / SCRATCH).mkdir(exist_ok=True)
    shutil.copytree(parent.base, run.base, dirs_exist_ok=True)
    for table in parent.proposed.glob("*"):  # under another name: this run has drafted nothing of it itself
        if not run.proposed.is_dir():
            durable.make_folder(run.proposed, 0o700)
        shutil.copyfile(table, run.proposed / f"{table.name.partition('.')[0]}.before")
    was_shown = _not_any_more(root, facts.shown, shown)
    with _Rebasing(result, now, was_shown) as rebasing:
        rebasing.hide()
        rebasing.follow()
        rebasing.show(_inside(root, shown))
    if facts.copy == "overlay":
        result.copy.make_names()
    result.copy.record()
    return result


def _not_any_more(root: Path, before: Collection[str], now: Collection[str]) -> list[str]:
    """The paths in a project that a run was shown, and the next one is not."""
    kept = _inside(root, now)
    return [path for path in _inside(root, before) if path not in kept]


def _inside(root: Path, shown: Collection[str]) -> list[str]:
    """The paths of `--with` that are in a project, relative to it."""
    found = []
    for text in shown:
        path = Path(os.path.realpath(os.path.dirname(text)), os.path.basename(text)) if text[:1] == "/" else root / text
        if root in path.parents:
            found.append(str(path.relative_to(root)))
    return found


class _Rebasing:
    """One copy while its start becomes the present project."""

    def __init__(self, taken: TakenCopy, now: Survey, was_shown: list[str]) -> None:
        self._copy, self._lines = taken.copy, taken.lines
        self._start, self._now = taken.copy.start, now
        self._was_shown = was_shown
        self._overlay = self._copy.kind == "overlay"
        self._owner = self._copy.account.uid, self._copy.account.gid

    def __enter__(self) -> _Rebasing:
        self._held_project, self._held = hold_path(self._copy.root), hold_path(self._copy.top)
        self._project, self._tree = HeldTree(self._held_project), HeldTree(self._held)
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()
        self._held_project.close()

    def hide(self) -> None:
        """Take out what is hidden now."""
        gone = [path for path in self._start.entries if self._is_hidden(path)]
        for path in reversed(gone):  # what is in a folder before the folder
            if is_within(path, self._was_shown) or not self._touched(path):
                self._remove(path)
            del self._start.entries[path]
            self._start.copied.pop(path, None)
        self._start.hidden, self._start.protected = dict(self._now.hidden), self._now.protected
        self._start.findings = self._now.findings
        if self._was_shown:
            self._lines.append(
                f"{', '.join(self._was_shown)}: not in this copy any more; whatever the agent wrote of it elsewhere is"
            )

    def follow(self) -> None:
        """Make the present project the start."""
        for path, before in list(self._start.entries.items()):
            now = self._now.entries.get(path)
            if before.kind == "folder" and (now is None or now.kind == "folder"):
                if now is not None:
                    self._start.entries[path] = now
                continue
            if now == before:
                continue
            touched = self._touched(path)
            if now is None or now.kind != before.kind:
                del self._start.entries[path]
                self._start.copied.pop(path, None)
                if not touched:
                    self._remove(path)
                else:
                    self._lines.append(f"{path}: gone or replaced in the project; the copy still has the agent's")
                continue
            self._start.entries[path] = now
            if touched:
                self._both(path, before, now)
            else:
                self._theirs(path, now)

    def show(self, shown: Collection[str]) -> None:
        """Put in what the new run's `--with` names and the copy does not have."""
        for path, entry in self._now.entries.items():
            asked = is_within(path, shown) or any(is_within(item, (path,)) for item in shown)
            if not asked or path in self._start.entries or self._look(path) is not None:
                continue
            if self._overlay:
                pass  # it is in the layer of names
            elif entry.kind == "folder":
                with parent_of(self._held.fileno(), path) as (folder, name):
                    os.mkdir(name, 0o700, dir_fd=folder)
                    self._own(path, folder, name)
            elif entry.kind == "file":
                self._theirs(path, entry)
            self._start.entries[path] = entry

    # ---- one path

    def _both(self, path: str, before: Original, now: Original) -> None:
        """A path that the agent changed, and the project since."""
        mine = self._look(path)
        if mine is None or mine.kind != "file" or now.kind != "file":
            self._lines.append(f"{path}: changed in the project too; the copy has what the agent made of it")
            return
        if max(now.size, mine.size) > limits.AGENT_BASE_BYTES:
            self._lines.append(f"{path}: changed in the project too, and too large to merge")
            return
        try:
            project = b"".join(self._project.chunks(path))
            copy = b"".join(self._tree.chunks(path))
        except OSError as error:
            self._lines.append(f"{path}: changed in the project too, and cannot be merged ({error.strerror})")
            return
        base = self._copy.run.base / base_name(path)
        try:
            start = durable.read_regular(base, max_bytes=limits.AGENT_BASE_BYTES)
        except OSError:
            start = start_bytes(self._copy.run, {path: before}).get(path, b"")
        durable.overwrite(base, project)
        if project == copy:
            return
        merged = merge_marked(project, start, copy)
        if merged is None:
            self._lines.append(f"{path}: changed in the project too, and not text; the copy has the agent's")
            return
        data, conflicts = merged
        mode = mine.executable if mine.executable != bool(before.mode & stat.S_IXUSR) else bool(now.mode & stat.S_IXUSR)
        self._write(path, data, now.mode & 0o666 | (0o700 if mode else 0o600))
        what = f"has {conflicts} conflicts, marked in the file" if conflicts else "was merged"
        self._lines.append(f"{path}: changed in the project too; it {what}")

    def _theirs(self, path: str, now: Original) -> None:
        """A path that only the project changed."""
        (self._copy.run.base / base_name(path)).unlink(missing_ok=True)  # no longer the bytes of the start
        if self._overlay:
            return  # it is in the layer of names
        if now.kind == "file":
            data = b"".join(self._project.chunks(path))
            self._write(path, data, now.mode & 0o777 | 0o600, note=True)
        else:
            self._remove(path)
            with parent_of(self._held.fileno(), path) as (folder, name):
                os.symlink(os.fsdecode(self._project.target(path)), name, dir_fd=folder)
                self._own(path, folder, name)

    def _is_hidden(self, path: str) -> bool:
        parts = path.split("/")
        return any("/".join(parts[:depth]) in self._now.hidden for depth in range(1, len(parts) + 1))

    def _look(self, path: str) -> TreeEntry | None:
        try:
            return self._tree.look(path)
        except OSError:
            return None

    def _touched(self, path: str) -> bool:
        """Whether the agent changed, replaced or removed a path."""
        if self._overlay:
            mine = self._look(path)
            if mine is not None:
                return mine.kind != "folder"
            above = path.rpartition("/")[0]
            return bool(above) and self._touched(above)
        try:
            with parent_of(self._held.fileno(), path) as (folder, name):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return True
        return (facts.st_ctime_ns, facts.st_ino) != self._start.copied.get(path)

    def _write(self, path: str, data: bytes, mode: int, *, note: bool = False) -> None:
        """Replace a file of the copy with new content. Raises Unavailable."""
        aside = f".threegate-{secrets.token_hex(8)}"
        try:
            with parent_of(self._held.fileno(), path) as (folder, name):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    os.fchown(file.fileno(), *self._owner)
                    os.fchmod(file.fileno(), mode)
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
                if note:
                    self._note(path, folder, name)
        except OSError as error:
            raise Unavailable(
                f"{path}: cannot be written in the copy ({error.strerror}); its folder is closed"
            ) from None

    def _own(self, path: str, folder: int, name: str) -> None:
        os.chown(name, *self._owner, dir_fd=folder, follow_symlinks=False)
        self._note(path, folder, name)

    def _note(self, path: str, folder: int, name: str) -> None:
        """Note an entry of the copy as one that the agent has not touched."""
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        self._start.copied[path] = (facts.st_ctime_ns, facts.st_ino)

    def _remove(self, path: str) -> None:
        """Remove a path of the copy, whatever is there: out of the copy by one rename, then gone."""
        aside = self._copy.run.folder / f"removed-{secrets.token_hex(8)}"
        with suppress(FileNotFoundError, NotADirectoryError):
            with parent_of(self._held.fileno(), path) as (folder, name):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=folder)  # a closed folder cannot be moved out of its parent
                os.rename(name, aside, src_dir_fd=folder)
            if stat.S_ISDIR(os.lstat(aside).st_mode):
                removal.remove_tree(aside)
            else:
                durable.unlink(aside)
