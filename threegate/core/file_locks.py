"""Files and folders that a process holds the lock of for as long as it works with them.

Invariant: the kernel gives a lock away when its holder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def create_locked(path: Path) -> int:
    """Create a file and hold its lock for as long as the descriptor, open for writing, is: `in_use` sees that.
    Raises OSError.
    """
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # removed before it was locked, by a cleanup of unused folders


def in_use(path: Path) -> bool:
    """Whether some process holds the lock of a file. A file that cannot be opened (a link, another user's
    file) counts as unused.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def folder_locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder that this process works in: another process that finds it locked knows it is
    in use. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
