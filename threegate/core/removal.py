"""Removing trees and many names at once, however deep and wide they are.

Invariant: no link is followed, and at most two folders are open for each thread. Observers of `durable` see each
removal, one after the other.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.core import durable

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE: Final = 64
_THREADS: Final = 16


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it: only after an event announced it, under a name that no one
    reads. Raises OSError.
    """
    with durable.announced("remove_tree", path):
        descriptor = os.open(path, _FOLDER)
        try:
            empty_folder(descriptor)
        finally:
            os.close(descriptor)
        path.rmdir()


def remove_folder(folder: Path) -> None:
    """Remove a work folder, however deep, whatever modes a run or the staging left in it. Raises nothing: what cannot
    be removed stays.
    """
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(folder).st_mode):
            os.chmod(folder, 0o700)  # first: only root can list a locked folder
        descriptor = os.open(folder, _FOLDER)
        try:
            empty_folder(descriptor)
        finally:
            os.close(descriptor)
        folder.rmdir()


def empty_folder(folder: int) -> None:
    """Remove everything in an open folder, without following links. What cannot be removed stays, and keeps nothing
    else.

    Without recursion, and with two open folders for each thread at most: a run makes more levels than Python has
    frames, or a process has descriptors.
    """
    stuck: set[str] = set()

    def remove(name: str) -> None:
        try:
            _remove_or_lift(folder, name)
        except OSError:
            stuck.add(name)

    while names := set(os.listdir(folder)) - stuck:
        _several_at_once(remove, list(names))


def _remove_or_lift(folder: int, name: str) -> None:
    """Remove an entry; folders in a folder are moved up before it goes. Raises OSError."""
    if _unlinked(folder, name):
        return
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for below in os.listdir(inner):
            if not _unlinked(inner, below):
                os.rename(below, f".{secrets.token_hex(8)}", src_dir_fd=inner, dst_dir_fd=folder)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _unlinked(folder: int, name: str) -> bool:
    """Remove an entry that is not a folder; a folder is made writable, as it must be to be listed or moved."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        os.chmod(name, 0o700, dir_fd=folder)
        return False
    return True


def unlink_all_at(folder: int, names: Sequence[str], path: Path) -> None:
    """Remove many names in an open folder, in no order. `path` is that of the folder, and only for observers. Raises
    OSError; other names may then be left.
    """
    failed: list[OSError] = []

    def remove(name: str) -> None:
        try:
            if not failed:
                durable.unlink_at(folder, name, path / name)
        except OSError as error:
            failed.append(error)

    _several_at_once(remove, names)
    if failed:
        raise failed[0]


def _several_at_once(act: Callable[[str], None], names: Sequence[str]) -> None:
    """Call `act`, which raises nothing, for each name: a disk that frees the blocks of a file at once takes a
    millisecond for each, and takes many together. Observers see one operation after the other.
    """
    left = iter(names)

    def some() -> None:
        for name in left:
            act(name)

    threads = []
    if len(names) > _AT_ONCE and not durable.is_observed():
        with suppress(RuntimeError):  # the account may have no more threads
            for _ in range(_THREADS):
                threads.append(threading.Thread(target=some, name="removing"))
                threads[-1].start()
    some()
    for thread in threads:
        if thread.ident is not None:
            thread.join()
