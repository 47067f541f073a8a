"""Inputs are copied in and hashed while they are copied; of the outputs only regular files are kept
(docs/spec/6-runners.md, Staging).

Invariants: no name that a run could have created is followed: every step is relative to an open folder, with
O_NOFOLLOW, and what is opened is checked again by its descriptor. A run never gets the pinned inode itself. Of a tar
nothing is written outside its folder and nothing is overwritten; what is unpacked is what `read_tar` returns, the same
entries that were listed before the approval.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from threegate.core import durable, limits, removal
from threegate.request.tar_reader import TarEntry, read_tar
from threegate.runners.interface import Artifact

if TYPE_CHECKING:
    from threegate.request.job import JobInput, JobLimits

_CHUNK = 1 << 20
_FICLONE = 0x40049409
# Without O_NONBLOCK, opening a FIFO that a run left would wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StagingError(Exception):
    """An input differs from what was approved, or cannot be read. The text names the input."""


@dataclass(slots=True)
class Collected:
    """The outputs of a run: the artifacts, and what was left out with its reason (one line each).

    Everything is reported: the first OUT_DROPPED_LINES are named, and a last line counts the others.
    """

    artifacts: list[Artifact] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    exceeded: str | None = None
    """Which limit of /out ended the collection, or None. Past it nothing more is kept."""
    unnamed: int = 0
    size: int = 0
    """Bytes of the artifacts."""

    def drop(self, name: str, reason: str) -> None:
        """Name what is left out, or count it."""
        if len(self.dropped) < limits.OUT_DROPPED_LINES:
            self.dropped.append(f"{shown(name)}: {reason}")
        else:
            self.unnamed += 1

    def refusal(self, size: int, bounds: JobLimits) -> str | None:
        """Why a file of this size is not kept, or None."""
        if size > bounds.file_bytes:
            return f"{size} bytes, more than the {bounds.file_bytes} that a file may have"
        if self.exceeded:
            return "after a file that exceeded a limit of /out"
        if len(self.artifacts) >= bounds.out_files:
            self.exceeded = too_many(bounds)
            return "beyond the file limit of /out"
        if self.size + size > bounds.out_bytes:
            self.exceeded = f"/out holds more than {bounds.out_bytes} bytes"
            return "beyond the byte limit of /out"
        return None

    def keep(self, path: PurePosixPath, size: int, digest: str) -> None:
        """Name a file that is kept."""
        self.size += size
        self.artifacts.append(Artifact(str(path), size, digest))

    def finish(self) -> None:
        """Report how many are not named, and sort the artifacts."""
        if self.unnamed:
            self.dropped.append(f"and {self.unnamed} more, which are not named")
        self.artifacts.sort(key=lambda item: item.path)


def stage_inputs(inputs: Sequence[JobInput], pinned: Path, target: Path) -> None:
    """Copy the pinned inputs into the new folder `target`, read-only. Raises StagingError, OSError."""
    target.mkdir(mode=0o700)
    with open_folder(target) as folder:
        for item in inputs:
            name = PurePosixPath(item.name)
            if item.unpack:
                os.mkdir(name.stem, 0o700, dir_fd=folder)
                with open_folder(name.stem, dir_fd=folder) as inner:
                    _lay_out(item, pinned, inner)
                    os.fchmod(inner, 0o555)
            else:
                _copy_pinned(item, pinned, folder)
        os.fchmod(folder, 0o555)


def collect(folder: Path, bounds: JobLimits) -> Collected:
    """Keep of what a run left in its `folder` of outputs the regular files only, hashed and read-only.

    Links, devices, sockets, FIFOs, set-id files, files with several names and odd names are removed and listed in
    `dropped`. Only for a folder that no process but this one has access to any more. Nothing is synced: the caller that
    records the outputs does it (`results.write_record`). Raises OSError if the disk fails.
    """
    found = Collected()
    collector = _Collector(bounds, found)
    with open_folder(folder) as descriptor:
        collector.walk(descriptor, PurePosixPath(), 0)
        # Not before: a file with several names shows by their number what it is.
        for path in collector.left_out:
            with ExitStack() as stack:
                parent = descriptor
                for part in path.parts[:-1]:
                    parent = stack.enter_context(open_folder(part, dir_fd=parent))
                try:
                    os.unlink(path.name, dir_fd=parent)
                except IsADirectoryError:
                    with open_folder(path.name, dir_fd=parent) as inner:
                        removal.empty_folder(inner)
                    os.rmdir(path.name, dir_fd=parent)
    found.finish()
    return found


@contextmanager
def fresh_folder(target: Path) -> Iterator[int]:
    """Create the folder of the outputs, and open it."""
    with open_folder(target.parent) as parent:
        durable.make_folder_at(parent, target.name, target)
    with open_folder(target) as descriptor:
        yield descriptor


@contextmanager
def open_folder(path: str | Path, *, dir_fd: int | None = None) -> Iterator[int]:
    """A folder, never through a link, open until the block ends."""
    descriptor = os.open(path, _FOLDER, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_pinned(item: JobInput, pinned: Path) -> int:
    try:
        source = os.open(pinned / item.sha256, _READ)
    except OSError as error:
        raise StagingError(f"input {item.name}: its pinned bytes cannot be read ({error.strerror})") from None
    facts = os.fstat(source)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != item.size:
        os.close(source)
        raise StagingError(f"input {item.name}: its pinned bytes changed since the approval")
    return source


def _copy_pinned(item: JobInput, pinned: Path, folder: int) -> None:
    """Copy one input; a reflink shares its blocks if the file system supports it, and is hashed like any other copy."""
    source = _open_pinned(item, pinned)
    try:
        target = os.open(item.name, _CREATE, 0o600, dir_fd=folder)
        try:
            cloned = _reflink(source, target)
            digest, size = _hash(target) if cloned else copy(source, target, item.size, item.name)
            if size != item.size or digest != item.sha256:
                raise StagingError(f"input {item.name}: its pinned bytes changed since the approval")
            os.fchmod(target, 0o444)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _lay_out(item: JobInput, pinned: Path, folder: int) -> None:
    with os.fdopen(_open_pinned(item, pinned), "rb") as stream:
        if _hash(stream.fileno())[0] != item.sha256:
            raise StagingError(f"input {item.name}: its pinned bytes changed since the approval")
        try:
            unpack(stream, folder)
        except ValueError as error:
            raise StagingError(f"input {item.name}: {error}") from None


def _reflink(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _hash(descriptor: int) -> tuple[str, int]:
    digest = hashlib.sha256()
    size = 0
    while chunk := os.pread(descriptor, _CHUNK, size):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


def copy(source: int, target: int, most: int, path: str | Path) -> tuple[str, int]:
    """Copy at most `most` + 1 bytes, and hash what was written. `path` is only passed to observers."""
    digest = hashlib.sha256()
    size = 0
    # One more than there should be, so that a file that grew has another size.
    while size <= most and (chunk := os.read(source, min(_CHUNK, most + 1 - size))):
        digest.update(chunk)
        size += len(chunk)
        durable.write_fd(target, chunk, path)
    return digest.hexdigest(), size


def too_many(bounds: JobLimits) -> str:
    """The message if /out has more names than allowed."""
    return f"/out holds more than {bounds.out_files} files"


class _Collector:
    """One walk through what a run left, bounded in names and depth."""

    def __init__(self, bounds: JobLimits, found: Collected) -> None:
        self._bounds = bounds
        self._found = found
        self._entries = 0
        self.left_out: list[PurePosixPath] = []
        """What is removed after the walk."""

    def walk(self, folder: int, path: PurePosixPath, depth: int) -> None:
        """Collect what is in a folder, which is at `path`."""
        names = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries <= 2 * self._bounds.out_files:  # names in memory are bounded, whatever a run made
                    names.append(entry.name)
                else:
                    self._found.exceeded = self._found.exceeded or too_many(self._bounds)
                    self._found.unnamed += 1
                    self.left_out.append(path / entry.name)
        for name in sorted(names):
            reason = odd_name(name) or self._one(folder, path / name, depth)
            if reason is not None:
                self._found.drop(str(path / name), reason)
                self.left_out.append(path / name)

    def _one(self, folder: int, path: PurePosixPath, depth: int) -> str | None:
        """Collect one entry, or report why not. Once a limit is exceeded, nothing more is collected."""
        facts = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            if depth >= limits.OUT_DEPTH:
                return f"a folder more than {limits.OUT_DEPTH} deep"
            exceeded = self._found.exceeded
            with open_folder(path.name, dir_fd=folder) as inner:
                os.fchmod(inner, 0o700)  # a run may have taken away its own permissions
                self.walk(inner, path, depth + 1)
            if exceeded:
                self.left_out.append(path)
            return None
        if (reason := refused_kind(facts)) is not None:
            return reason
        descriptor = os.open(path.name, _READ, dir_fd=folder)
        try:
            facts = os.fstat(descriptor)  # again: the name may be another file than a moment before
            reason = refused_kind(facts) or self._found.refusal(facts.st_size, self._bounds)
            if reason is None:
                digest, size = _hash(descriptor)
                if size != facts.st_size:
                    raise OSError(f"{path}: its size changed while it was collected")
                os.fchmod(descriptor, 0o400)
                self._found.keep(path, size, digest)
        finally:
            os.close(descriptor)
        return reason


def refused_kind(facts: os.stat_result) -> str | None:
    """Why a file is not collected because of its kind, or None."""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a device",
        stat.S_IFCHR: "a device",
    }
    kind = stat.S_IFMT(facts.st_mode)
    if kind != stat.S_IFREG:
        return kinds.get(kind, "not a regular file")
    if facts.st_nlink != 1:
        return "a file with several hard links"
    if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "a file with a set-user-id or set-group-id bit"
    return None


def shown(name: str) -> str:
    """A name chosen by a run, as printable ASCII of at most 200 characters."""
    text = name.encode("unicode_escape", "surrogatepass").decode("ascii")
    return text if len(text) <= limits.TRAIL_STRING_CHARS else text[: limits.TRAIL_STRING_CHARS - 3] + "..."


def odd_name(name: str) -> str | None:
    """Why a file name is refused, or None: not UTF-8, control or invisible characters, too long."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > limits.TAR_NAME_BYTES:
        return "its name is too long"
    if any(unicodedata.category(char)[0] == "C" or char in "\u2028\u2029" for char in name):
        return "its name has control or invisible characters"
    return None


def unpack(stream: BinaryIO, folder: int) -> None:
    """Write the files and folders of a tar below the open folder. Raises ValueError for anything else, OSError."""
    for entry in read_tar(stream):
        parts = entry.path.split("/")
        with _made(folder, parts if entry.folder else parts[:-1]) as parent:
            if not entry.folder:
                _write(parent, parts[-1], stream, entry)


@contextmanager
def _made(folder: int, parts: Sequence[str]) -> Iterator[int]:
    """An open folder below `folder`, created with its parents if missing."""
    current = os.dup(folder)
    try:
        for part in parts:
            with suppress(FileExistsError):
                # What is there already must be a folder: the open below follows no link.
                os.mkdir(part, 0o755, dir_fd=current)
            inner = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _write(parent: int, name: str, stream: BinaryIO, entry: TarEntry) -> None:
    stream.seek(entry.offset)
    left = entry.size
    with os.fdopen(os.open(name, _CREATE, 0o444, dir_fd=parent), "wb") as target:
        while left:
            chunk = stream.read(min(_CHUNK, left))
            if not chunk:
                raise ValueError("was cut while it was read")
            target.write(chunk)
            left -= len(chunk)
