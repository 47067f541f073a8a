"""Space for what must be possible on a full disk: cancelling, rejecting, killing, and the end of what has begun.

Invariant: only a block of `disk_reserve` uses it, and only after the file system had no space. The reserve is spare
files, each an inode with blocks of its own. A new file is made of one by a rename, so no other process can take that
space in between; what needs space of another kind (a longer file, a folder's next block) gets it from spare files that
are removed, one after the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from threegate.core import limits
from threegate.core.errors import is_disk_full

_FALLOC_FL_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)
_T = TypeVar("_T")
_folder: ContextVar[Path | None] = ContextVar("disk_reserve", default=None)


@contextmanager
def disk_reserve(folder: Path) -> Iterator[None]:
    """Until the block ends, this thread may use the spare files in `folder` where the disk is full."""
    before = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(before)


def may_use_reserve() -> bool:
    """Whether this thread may use the reserve now."""
    return _folder.get() is not None


def until_it_fits(act: Callable[[], _T]) -> _T:
    """Do it; where the disk is full, again after each spare file that is removed, but for the last RESERVE_KEPT_FILES:
    those are for `take_spare`. Raises OSError, as `act` does.
    """
    while True:
        try:
            return act()
        except OSError as error:
            spares = list(_spares(error))
            if len(spares) <= limits.RESERVE_KEPT_FILES:
                raise
            spares[-1].unlink(missing_ok=True)


def take_spare(path: Path, error: OSError) -> bool:
    """Give a spare file the name `path`, if `error` says that the disk is full and this thread may use the reserve.
    Returns whether it has it now. Raises OSError.
    """
    for spare in _spares(error):
        try:
            os.rename(spare, path)
        except FileNotFoundError:
            continue  # another process took it
        except OSError as failed:
            if failed.errno == errno.EXDEV:
                return False  # the full file system is not the workspace's
            raise
        return True
    return False


def fill_reserve(folder: Path, files: int = limits.RESERVE_FILES, size: int = limits.RESERVE_FILE_BYTES) -> bool:
    """Make the spare files that are missing, each with `size` bytes on the disk; returns whether all are there. Raises
    OSError, but not for a full disk.
    """
    try:
        with suppress(FileExistsError):
            folder.mkdir(0o700)
        there = set(os.listdir(folder))
        for name in (f"spare-{number:02}" for number in range(files)):
            if name not in there:
                _make_spare(folder / name, size)
    except OSError as error:
        if is_disk_full(error):
            return False
        raise
    return True


def reserve_blocks(descriptor: int, offset: int, length: int, path: str | Path) -> None:
    """Reserve blocks without changing a file's size (fallocate, FALLOC_FL_KEEP_SIZE). `path` is for messages.

    Raises OSError (ENOSPC, EDQUOT); a file system that cannot reserve is no error.
    """
    result = _libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length))
    if result != 0 and (number := ctypes.get_errno()) not in (errno.EOPNOTSUPP, errno.ENOSYS):
        raise OSError(number, os.strerror(number), str(path))


def _make_spare(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        reserve_blocks(descriptor, 0, size, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _spares(error: OSError) -> Iterator[Path]:
    """The spare files that may be used against this error."""
    folder = _folder.get()
    if folder is None or not is_disk_full(error):
        return
    with suppress(OSError):
        yield from (folder / name for name in sorted(os.listdir(folder)))
