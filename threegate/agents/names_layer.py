"""The names that a folder had at the start, as the lower layer of an overlay whose bytes stay where they are.

Invariant: a name that is not in the layer cannot be reached through it, whatever appears in the folder later; the
bytes of a name that is in it are the folder's own, read when they are asked for. Each file of the layer is empty and
redirects to its path in a data layer, which an overlay shows only through such redirects (Linux 6.16,
Documentation/filesystems/overlayfs.rst, "Data-only lower layers").
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from threegate.agents.project_survey import Survey
from threegate.changes.trees import HeldTree, TreeEntry
from threegate.core.held_folder import open_inside
from threegate.jail.jail import Account, Layered, layers_work

METACOPY: Final = "user.overlay.metacopy"
REDIRECT: Final = "user.overlay.redirect"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_names(start: Survey, source: int, layer: Path, *, exact: bool = False) -> None:
    """Make the layer of what a survey found visible, in a new folder. `source` is the descriptor of the surveyed
    folder; what changed meanwhile is left out. `exact` keeps owners and the modes of folders, which only root can.

    Raises OSError.
    """
    layer.mkdir(exist_ok=True)
    _alike(layer, os.fstat(source), exact)
    held, there, parent = os.open(layer, _FOLDER), os.dup(source), ""
    try:
        for path, entry in start.entries.items():
            above, _, name = path.rpartition("/")
            if above != parent:
                os.close(held)
                held, parent = os.open(layer / above, _FOLDER), above
                os.close(there)
                there = -1
                there = _open(source, above)
            if there < 0:
                continue
            if entry.kind == "file":
                make_stub(held, name, path, size=entry.size, mode=entry.mode & 0o777, mtime_ns=entry.mtime_ns)
            elif entry.kind == "folder":
                os.mkdir(name, 0o700, dir_fd=held)
            else:
                with suppress(OSError):
                    os.symlink(os.readlink(name, dir_fd=there), name, dir_fd=held)
            if exact or entry.kind == "folder":
                with suppress(FileNotFoundError):
                    _alike(name, os.stat(name, dir_fd=there, follow_symlinks=False), exact, held)
    finally:
        os.close(held)
        if there >= 0:
            os.close(there)


def _alike(place: str | Path, facts: os.stat_result, exact: bool, folder: int | None = None) -> None:
    """Give an entry of the layer the mode of a folder, and with `exact` its owner. Without, this account must be able
    to go into its folders.
    """
    if exact:
        os.chown(place, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode):
        os.chmod(place, facts.st_mode & 0o777 | (0 if exact else 0o700), dir_fd=folder)


def _open(source: int, path: str) -> int:
    """A folder below an open one, or -1 if it is none any more."""
    try:
        return open_inside(source, path or ".", _FOLDER)
    except OSError:
        return -1


def make_stub(folder: int, name: str, path: str, *, size: int, mode: int, mtime_ns: int) -> None:
    """A file of the layer: `lstat` as the real one's, and a redirect to `path` in the data layer. Raises OSError."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.ftruncate(descriptor, size)
        os.setxattr(descriptor, METACOPY, b"")
        os.setxattr(descriptor, REDIRECT, b"/" + os.fsencode(path))
        os.fchmod(descriptor, mode)
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))
    finally:
        os.close(descriptor)


def names_work(account: Account, folder: Path, place: Path, work: Path | None = None) -> bool:
    """Whether this kernel can show the files of `folder` through a layer of names, to an agent of this account; tested
    with a layer below `place`, which is removed. `work` as in `Layered`. Raises OSError.
    """
    probe = ".threegate-probe"
    with tempfile.TemporaryDirectory(prefix="probe-", dir=place) as made:
        names, data = Path(made, "names"), Path(made, "data")
        names.mkdir()
        data.mkdir()
        (data / probe).write_text(probe)
        held = os.open(names, _FOLDER)
        try:
            make_stub(held, probe, probe, size=len(probe), mode=0o644, mtime_ns=0)
        except OSError:
            return False  # a file system without extended attributes
        finally:
            os.close(held)
        for path in (made, names, data):
            os.chmod(path, 0o755)  # noqa: S103  (empty but for the probe, and below a closed folder)
        return layers_work(account, Layered(names, (folder, data), "/mnt/tree", work), probe)


class NamesTree:
    """What such an overlay shows, read without mounting it: the layer's names, with the folder's own entries."""

    def __init__(self, names: HeldTree, data: HeldTree) -> None:
        self._names = names
        self._data = data

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        known, now = self._names.names(path), self._data.names(path)
        return {name: now[name] for name, entry in known.items() if _same(entry, now.get(name))}

    def look(self, path: str) -> TreeEntry | None:
        known = self._names.look(path)
        if known is None:
            return None
        now = self._data.look(path)
        return now if _same(known, now) else None

    def chunks(self, path: str) -> Iterator[bytes]:
        self._check(path)
        return self._data.chunks(path)

    def target(self, path: str) -> bytes:
        return self._names.target(path)

    def _check(self, path: str) -> None:
        if self._names.look(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _same(known: TreeEntry, now: TreeEntry | None) -> bool:
    """Whether the folder still has an entry of the same kind; a redirect leads to nothing else."""
    return now is not None and now.kind == known.kind
