"""The names that a folder had at the start, as the lower layer of an overlay whose bytes stay where they are.

Invariant: a name that is not in the layer cannot be reached through it, whatever appears in the folder later; the
bytes of a name that is in it are the folder's own, read when they are asked for. Each file of the layer is empty and
redirects to its path in a data layer, which an overlay shows only through such redirects (Linux 6.16,
Documentation/filesystems/overlayfs.rst, "Data-only lower layers"). A run that has ended needs its layer no more, so the
next one takes it and changes what differs; each entry is compared with the new start, and no other stays.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from threegate.core import removal
from threegate.core.held_folder import hold_path
from threegate.plugins.agents.held_paths import opened
from threegate.plugins.agents.project_survey import Original, Survey
from threegate.plugins.changes.trees import HeldTree, TreeEntry
from threegate.runners.jail.jail import Account, Layered
from threegate.runners.jail.jail_trial import layers_work

METACOPY: Final = "user.overlay.metacopy"
REDIRECT: Final = "user.overlay.redirect"
_KINDS: Final = {"file": TreeEntry("file"), "folder": TreeEntry("folder"), "link": TreeEntry("link")}
_CLOSED: Final = Original("folder", 0o700, 0, 0, 0, 0)


def make_names(start: Survey, source: int, layer: Path, *, exact: bool = False) -> None:
    """Make the layer of what a survey found visible, in a new folder or in the layer of an earlier start, of which
    what is as it was stays. `source` is the descriptor of the surveyed folder; what changed meanwhile is left out.
    `exact` keeps owners and the modes of folders, which only root can, and is for new folders.

    Raises OSError.
    """
    children = _by_folder(start)
    with suppress(FileExistsError):
        layer.mkdir()
    _alike(layer, os.fstat(source), exact)
    with hold_path(layer) as top:
        for above in sorted(children):  # a folder comes before what is in it
            _make_folder(top.fileno(), source, above, children[above], exact)


def _by_folder(start: Survey) -> dict[str, dict[str, Original]]:
    """The entries of each folder, by its path and by name. A folder that only the agent had is there too, if something
    of the project is shown in it now.
    """
    children: dict[str, dict[str, Original]] = {"": {}}
    for path, entry in start.entries.items():
        above, _, name = path.rpartition("/")
        children.setdefault(above, {})[name] = entry
        if entry.kind == "folder":
            children.setdefault(path, {})
    for path in list(children):
        while path and path not in start.entries:
            path, _, name = path.rpartition("/")
            children.setdefault(path, {})[name] = _CLOSED
    return children


def _make_folder(top: int, source: int, above: str, wanted: Mapping[str, Original], exact: bool) -> None:
    """Give a folder of the layer exactly the entries that are wanted. Raises OSError."""
    with ExitStack() as opening:
        held = opening.enter_context(opened(top, above))
        real = -1
        with suppress(OSError):  # it may be gone from the project, or be a folder that only the agent had
            real = opening.enter_context(opened(source, above))
        kept = set()
        with os.scandir(held) as found:
            for there in list(found):
                if there.name in wanted and _is_kept(held, there, wanted[there.name], real):
                    kept.add(there.name)
                else:
                    _remove(held, there.name)
        for name, entry in wanted.items():
            if name not in kept:
                _make(held, f"{above}/{name}" if above else name, name, entry, real)
            if exact:
                with suppress(OSError):
                    _alike(name, os.stat(name, dir_fd=real, follow_symlinks=False), exact, held)


def _make(held: int, path: str, name: str, entry: Original, real: int) -> None:
    if entry.kind == "file":
        make_stub(held, name, path, size=entry.size, mode=entry.mode & 0o777, mtime_ns=entry.mtime_ns)
    elif entry.kind == "folder":
        os.mkdir(name, 0o700, dir_fd=held)
        os.chmod(name, _folder_mode(entry), dir_fd=held)
    elif (target := _target(real, name)) is not None:
        os.symlink(target, name, dir_fd=held)


def _is_kept(held: int, there: os.DirEntry[str], entry: Original, real: int) -> bool:
    """Whether an entry of the layer of an earlier start is what is made of this one now."""
    facts = there.stat(follow_symlinks=False)
    if entry.kind == "file":  # it got its time last, so one that has it is whole
        same = stat.S_ISREG(facts.st_mode) and facts.st_size == entry.size and facts.st_mtime_ns == entry.mtime_ns
        return same and stat.S_IMODE(facts.st_mode) == entry.mode & 0o777
    if entry.kind == "folder":
        return stat.S_ISDIR(facts.st_mode) and stat.S_IMODE(facts.st_mode) == _folder_mode(entry)
    return stat.S_ISLNK(facts.st_mode) and os.readlink(there.name, dir_fd=held) == _target(real, there.name)


def _target(folder: int, name: str) -> str | None:
    """What a link leads to; None if it is not a link any more."""
    with suppress(OSError):
        return os.readlink(name, dir_fd=folder)
    return None


def _folder_mode(entry: Original) -> int:
    return entry.mode & 0o777 | 0o700  # this account must be able to enter the folders of the layer


def _remove(held: int, name: str) -> None:
    """Remove an entry of the layer, whatever it is. Raises OSError."""
    try:
        os.unlink(name, dir_fd=held)
    except IsADirectoryError:
        with opened(held, name) as inner:
            removal.empty_folder(inner)
        os.rmdir(name, dir_fd=held)


def _alike(place: str | Path, facts: os.stat_result, exact: bool, folder: int | None = None) -> None:
    """Give an entry of the layer the mode of a folder, and with `exact` its owner."""
    if exact:
        os.chown(place, facts.st_uid, facts.st_gid, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(facts.st_mode):
        os.chmod(place, facts.st_mode & 0o777 | (0 if exact else 0o700), dir_fd=folder)


def make_stub(folder: int, name: str, path: str, *, size: int, mode: int, mtime_ns: int) -> None:
    """A file of the layer: `lstat` as the real one's, and a redirect to `path` in the data layer. Raises OSError."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        os.ftruncate(descriptor, size)
        # In this order: ext4 has room for one of them in the inode, and files may share the block with the other one.
        os.setxattr(descriptor, REDIRECT, b"/" + os.fsencode(path))
        os.setxattr(descriptor, METACOPY, b"")
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
        try:
            with hold_path(names) as held:
                make_stub(held.fileno(), probe, probe, size=len(probe), mode=0o644, mtime_ns=0)
        except OSError:
            return False  # a file system without extended attributes
        for path in (made, names, data):
            os.chmod(path, 0o755)  # noqa: S103  (empty but for the probe, and below a closed folder)
        return layers_work(account, Layered(names, (folder, data), "/mnt/tree", work), probe)


class StartTree:
    """The names that a survey found visible, as a tree: those of the layer, which another run may have by now."""

    def __init__(self, start: Survey, data: HeldTree) -> None:
        self._data = data
        self._folders: dict[str, dict[str, TreeEntry]] = {"": {}}
        for path, entry in start.entries.items():
            above, _, name = path.rpartition("/")
            self._folders.setdefault(above, {})[name] = _KINDS[entry.kind]
            if entry.kind == "folder":
                self._folders.setdefault(path, {})

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        return self._folders.get(path, {})

    def look(self, path: str) -> TreeEntry | None:
        above, _, name = path.rpartition("/")
        return self._folders.get(above, {}).get(name) if path else _KINDS["folder"]

    def target(self, path: str) -> bytes:
        return self._data.target(path)


class NamesTree:
    """What such an overlay shows, read without mounting it: the layer's names, with the folder's own entries."""

    def __init__(self, names: HeldTree | StartTree, data: HeldTree) -> None:
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
        if self._names.look(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._data.chunks(path)

    def target(self, path: str) -> bytes:
        return self._names.target(path)


def _same(known: TreeEntry, now: TreeEntry | None) -> bool:
    """Whether the folder still has an entry of the same kind; a redirect leads to nothing else."""
    return now is not None and now.kind == known.kind
