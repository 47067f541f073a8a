"""The files below tool-exec/, read by their paths in the trail.

Invariant: each folder is opened relative to the one above it, and no link is followed. An unreadable file is
reported once, by its path, and reading continues. Only regular files are opened.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from threegate.core.durable import read_regular_fd
from threegate.core.held_folder import HeldFolder, hold_path

_CHUNK = 1 << 20


class ToolExecFiles:
    """The files below a folder. `report(path, message)` takes what is wrong with one; paths are relative, with
    slashes.
    """

    def __init__(self, root: Path, report: Callable[[str, str], None]) -> None:
        self._root = root
        self._report = report

    def below(self, goes_into: Callable[[str], bool], no_file: Callable[[str], None]) -> Iterator[str]:
        """The paths of all regular files with one link. `goes_into` says whether to enter a folder; `no_file` takes
        what is neither a file nor a folder.
        """
        left = [""]
        while left:
            here = left.pop()
            try:
                with self.folder(here) as folder, folder.entries() as entries:
                    for entry in entries:
                        path = f"{here}/{entry.name}" if here else entry.name
                        facts = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(facts.st_mode):
                            if goes_into(path):
                                left.append(path)
                        elif not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
                            no_file(path)
                        else:
                            yield path
            except FileNotFoundError:
                continue  # removed meanwhile: the second pass holds the lock
            except OSError as error:
                self._cannot_read(here, error)

    def compare(self, path: str, digest: str | None, most: int, message: str) -> None:
        """Report a file that does not have the digest. One that is missing, or is not a regular file, is not reported
        here.
        """
        found = hashlib.sha256()
        try:
            with self._file(path) as descriptor:
                if descriptor is None:
                    return
                left = most + 1
                while left > 0 and (chunk := os.read(descriptor, min(left, _CHUNK))):
                    found.update(chunk)
                    left -= len(chunk)
        except OSError as error:
            self._cannot_read(path, error)
            return
        if found.hexdigest() != digest:
            self._report(path, message)

    def read(self, path: str, most: int) -> bytes | None:
        """The bytes of a file, at most `most`; None when there is no such file, or it was reported."""
        try:
            with self._file(path) as descriptor:
                if descriptor is None:
                    return None
                return read_regular_fd(descriptor, self._root / path, max_bytes=most)
        except OSError as error:
            self._cannot_read(path, error)
            return None

    def is_there(self, path: str) -> bool:
        """Whether something has this path."""
        folder, _, name = path.rpartition("/")
        try:
            with self.folder(folder) as parent:
                parent.stat(name)
        except OSError:
            return False
        return True

    def is_locked(self, path: str) -> bool:
        """Whether a process holds the lock of a folder. Raises OSError."""
        with self.folder(path) as folder:
            try:
                fcntl.flock(folder.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    @contextmanager
    def folder(self, path: str) -> Iterator[HeldFolder]:
        """A folder, held. Raises OSError."""
        with ExitStack() as held:
            folder = held.enter_context(hold_path(self._root))
            for part in path.split("/") if path else ():
                folder = held.enter_context(folder.folder(part))
            yield folder

    @contextmanager
    def _file(self, path: str) -> Iterator[int | None]:
        """A regular file, open for reading; None if there is none. Raises OSError."""
        folder, _, name = path.rpartition("/")
        descriptor = None
        try:
            with self.folder(folder) as parent:
                if stat.S_ISREG(parent.stat(name).st_mode):
                    descriptor = parent.open(name)
        except (FileNotFoundError, NotADirectoryError):
            pass
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _cannot_read(self, path: str, error: OSError) -> None:
        self._report(path, f"cannot be read ({error.strerror or error})")
