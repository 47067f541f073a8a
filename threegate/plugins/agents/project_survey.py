"""What a project contains when a run starts: each entry according to `lstat`, and what is hidden from the agent.

Invariant: every name is opened relative to the descriptor of its folder, no link is followed, and no other file system
is entered. Hidden are what the setting `agents.protected` names, files that are secrets by their name, files with a
secret of high confidence unless somebody decided otherwise, every `.git` below the top, unreadable entries, and entries
that are not a file, folder or link; what was hidden is never part of a change set.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from threegate.core import durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.user_state import UserState
from threegate.plugins.agents.file_findings import Finding, find_in_file
from threegate.plugins.agents.git_repository import NoHistory, Repository, tracked_paths
from threegate.plugins.agents.held_paths import FOLDER
from threegate.plugins.agents.secret_files import is_secret_path
from threegate.plugins.changes.git_objects import object_id
from threegate.plugins.changes.path_rules import is_workspace
from threegate.plugins.changes.project import ProjectError
from threegate.plugins.changes.protected_paths import ProtectedPaths

_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE: Final = 1 << 16
_ROWS: Final = 1000
_TOLD: Final = 16
"""Entries from one call of `progress` to the next."""
_HASHED_BYTES: Final = 4096
"""From this size on a file's bytes are worth a digest, if that saves a second scan."""
_RULES: Final = 3
"""Number of the rules by which files are scanned: with others, what was found before does not count."""

Reason = Literal["protected", "secret", "git", "unreadable", "special", "other file system", "ours"]


class Original(NamedTuple):
    """One entry of the project at the start of a run."""

    kind: str
    """``file``, ``folder`` or ``link``."""
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, facts: os.stat_result) -> Original | None:
        """What `lstat` returns; None if it is not a file, folder or link."""
        kind = _KINDS.get(stat.S_IFMT(facts.st_mode))
        if kind is None:
            return None
        times = facts.st_mtime_ns, facts.st_ctime_ns
        return cls(kind, stat.S_IMODE(facts.st_mode), facts.st_size, *times, facts.st_ino)


_KINDS: Final = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_protected: Final = cache(ProtectedPaths)


@dataclass(slots=True)
class Survey:
    """A project at the start: entries visible to the agent, by path, and hidden ones, with the reason."""

    entries: dict[str, Original] = field(default_factory=dict)
    hidden: dict[str, Reason] = field(default_factory=dict)
    copied: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For a plain copy: ctime (ns) and inode of each copied entry; the agent can set neither, so equal means untouched.
    """
    protected: tuple[str, ...] = ()
    """The setting `agents.protected` at the start."""
    findings: list[Finding] = field(default_factory=list)
    """What looks like a secret, also where nothing is hidden for its sake; not in the manifest."""
    clean_blobs: set[str] = field(default_factory=set)
    """The ids that git gives to bytes which this survey scanned, and found nothing in, so that they are not scanned a
    second time in the history; of a large file to its first AGENT_SCANNED_BYTES. Not in the manifest.
    """

    def hides(self, path: str, shown: Collection[str] = ()) -> bool:
        """Whether a path, also one that the project had once, is hidden from the agent, if its folders are not.
        `shown` as in `survey`.
        """
        if path in self.entries or path in self.hidden:
            return path in self.hidden
        if is_within(path, shown):
            return False
        if path.rpartition("/")[2] == ".git" or _protected(self.protected).has(path):
            return not _leads(path, shown)
        return is_secret_path(path)

    @property
    def listed(self) -> list[Finding]:
        """The findings in files that the agent sees."""
        return [found for found in self.findings if found.path not in self.hidden]

    def questions(self, answers: Mapping[str, bool], *, again: bool = False) -> list[Finding]:
        """The findings that a person is asked about, with `again` also those that have an answer, as it is."""
        return [
            replace(found, hides=answers.get(found.digest, found.hides))
            for found in self.findings
            if (again and found.digest in answers) or (found.asks and (again or found.digest not in answers))
        ]

    @property
    def total_bytes(self) -> int:
        """Total size of all files visible to the agent."""
        return sum(entry.size for entry in self.entries.values() if entry.kind == "file")

    def to_lines(self) -> Iterator[bytes]:
        """The manifest: a line with what is hidden, then lines with the rows of many entries each."""
        yield json.dumps({"hidden": self.hidden, "protected": self.protected}).encode() + b"\n"
        rows = ([path, *entry, *self.copied.get(path, ())] for path, entry in self.entries.items())
        while some := list(islice(rows, _ROWS)):
            yield json.dumps(some).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Survey:
        """Parse the output of `to_lines`. Raises ValueError, KeyError, TypeError."""
        first, *rest = data.splitlines()
        head = json.loads(first)
        rows = [row for line in rest for row in json.loads(line)]
        return cls(
            {row[0]: Original(*row[1:7]) for row in rows},
            head["hidden"],
            {row[0]: (row[7], row[8]) for row in rows if len(row) > 7},
            tuple(head["protected"]),
        )


def is_within(path: str, paths: Collection[str]) -> bool:
    """Whether a path is one of some paths, or below one."""
    return bool(paths) and any(path == above or path.startswith(f"{above}/") for above in paths)


def _leads(path: str, paths: Collection[str]) -> bool:
    """Whether one of some paths is below a path."""
    return any(below.startswith(f"{path}/") for below in paths)


def survey(
    root: Path,
    *,
    shown: Collection[str] = (),
    cache: Path | None = None,
    progress: Callable[[int], None] = lambda count: None,
    project: bool = True,
    protected: Collection[str] = (),
    key: bytes = b"",
    answers: Mapping[str, bool] = MappingProxyType({}),
) -> Survey:
    """Survey a whole project. `shown` are paths that are never hidden; `cache` stores which files were free of secrets.
    `answers` are digests of findings, keyed with `key`, with what somebody decided: whether they hide the file.

    Without `project` it is a folder that the agent only reads, such as a toolchain. There is nothing in it to ask
    about, and a program may be run by who may not read it. Raises InvalidInput for more than AGENT_COPY_ENTRIES
    entries, Unavailable for a project that cannot be read.
    """
    found = Survey(protected=tuple(protected))
    try:
        top = os.open(root, FOLDER)
    except OSError as error:
        raise Unavailable(f"{root}: cannot be opened ({error.strerror})") from None
    try:
        device = os.fstat(top).st_dev
        surveying = _Surveying(found, root, device, frozenset(shown), cache, progress, project, key, answers)
        surveying.look(top, "")
    finally:
        os.close(top)
    surveying.save()
    return found


class _Surveying:
    """One survey. It knows from the one before which files were scanned for secrets, by path and `lstat`; a changed
    file is scanned again.
    """

    def __init__(
        self,
        found: Survey,
        root: Path,
        device: int,
        shown: frozenset[str],
        cache: Path | None,
        progress: Callable[[int], None],
        project: bool,
        key: bytes,
        answers: Mapping[str, bool],
    ) -> None:
        self._found = found
        self._root, self._device = root, device
        self._shown, self._protected = shown, _protected(found.protected)
        self._progress = progress
        self._project = project
        self._key, self._answers = key, answers
        kind = f"{'project' if project else 'read'}-{_RULES}"
        name = f"scanned-{kind}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self._file = cache and cache / name
        self._known: dict[str, list[int]] = {}
        if self._file is not None:
            with suppress(OSError, ValueError, TypeError):
                data = durable.read_regular(self._file, max_bytes=limits.AGENT_SCANNED_LIST_BYTES)
                self._known = dict(json.loads(data))
        self._now: dict[str, list[int]] = {}
        self._changed = False

    def look(self, folder: int, prefix: str) -> bool:
        """Survey an open folder and everything below it. False, without a note, for a workspace of ThreeGate below the
        top, which has the drafts, keys and trail of a person.
        """
        found = self._found
        if prefix.count("/") > limits.AGENT_PATH_DEPTH:
            raise InvalidInput(f"the project has folders deeper than {limits.AGENT_PATH_DEPTH}; move them elsewhere")
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        if prefix and is_workspace({entry.name for entry in listed}):
            return False
        for entry in listed:
            path = prefix + entry.name
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed meanwhile
            except PermissionError:  # its folder may be listed and not entered
                found.hidden[path] = "unreadable"
                continue
            original = Original.of(facts)
            reason = self._reason(path, entry.name, facts, folder)
            if reason is not None or original is None:
                found.hidden[path] = reason or "special"
                continue
            found.entries[path] = original
            if len(found.entries) > limits.AGENT_COPY_ENTRIES:
                raise InvalidInput(
                    f"the project has more than {limits.AGENT_COPY_ENTRIES} entries; use one of its folders"
                )
            if len(found.entries) % _TOLD == 0:
                self._progress(len(found.entries))
            if original.kind == "folder" and (why := self._look_below(entry.name, folder, path)) is not None:
                del found.entries[path]
                found.hidden[path] = why
        return True

    def _look_below(self, name: str, folder: int, path: str) -> Reason | None:
        """Look at a folder in an open one; the reason why it is hidden after all."""
        try:
            below = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            return "unreadable"
        try:
            return None if self.look(below, f"{path}/") else "ours"
        finally:
            os.close(below)

    def _reason(self, path: str, name: str, facts: os.stat_result, folder: int) -> Reason | None:
        """Why a path is hidden although its folder is visible; None if it is not hidden."""
        if facts.st_dev != self._device:
            return "other file system"
        if name == ".git":
            return "git"  # the top-level one is copied clean (`work_copy`)
        if is_within(path, self._shown):
            return None
        if self._project and self._protected.has(path):
            return None if _leads(path, self._shown) else "protected"
        if stat.S_ISLNK(facts.st_mode):
            return "secret" if is_secret_path(path) else None
        return self._secret(path, name, facts, folder) if stat.S_ISREG(facts.st_mode) else None

    # ---- secrets

    @cached_property
    def _tracked(self) -> frozenset[str]:
        return tracked_paths(self._root)

    @cached_property
    def _algorithm(self) -> str:
        """What the repository names its objects with; empty without one."""
        try:
            return Repository.of(self._root).algorithm
        except (NoHistory, ProjectError):
            return ""

    def _note_clean(self, path: str, data: bytes) -> None:
        """Note the id of a tracked file's bytes, those that were scanned, in which nothing was found."""
        # To hash a small one takes longer than to scan it again.
        if len(data) >= _HASHED_BYTES and path in self._tracked and self._algorithm:
            self._found.clean_blobs.add(object_id(self._algorithm, b"blob", data))

    def _secret(self, path: str, name: str, facts: os.stat_result, folder: int) -> Reason | None:
        """Whether a file is a secret, or has one in its first AGENT_SCANNED_BYTES, or cannot be read."""
        key = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
        before = self._known.get(path)
        if before == [*key, 0]:
            self._now[path] = before
            return None
        try:
            data = _first_bytes(name, folder, facts.st_size)
        except OSError:
            return "secret" if is_secret_path(path) else "unreadable" if self._project else None
        found = list(find_in_file(path, data, self._key, lambda path: path in self._tracked, listing=self._project))
        self._now[path] = [*key, int(bool(found))]
        self._changed = self._changed or before != self._now[path]
        self._found.findings += found
        if not found:
            self._note_clean(path, data)
        return "secret" if any(self._answers.get(item.digest, item.hides) for item in found) else None

    def save(self) -> None:
        """Save what was scanned, if anything is new; if that fails, it only costs time."""
        if self._file is None or (not self._changed and len(self._now) == len(self._known)):
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.overwrite(self._file, json.dumps(self._now).encode())


def scan_cache(workspace_id: str) -> Path:
    """Where the scan cache is stored: outside workspace and project, where no agent can write."""
    return UserState.of(workspace_id).folder / "agents"


def _first_bytes(name: str, folder: int, size: int) -> bytes:
    """The first AGENT_SCANNED_BYTES of a file that had `size` bytes. Raises OSError."""
    # To make a buffer of a MiB for each small file costs more than to scan it.
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        left = limits.AGENT_SCANNED_BYTES
        wanted = size + 1
        pieces = [os.read(descriptor, min(left, wanted))]
        if len(pieces[0]) == size < wanted:
            return pieces[0]
        left -= len(pieces[0])
        while left > 0 and (piece := os.read(descriptor, min(left, wanted))):
            pieces.append(piece)
            left -= len(piece)
            wanted = max(wanted - len(piece), _PIECE)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
