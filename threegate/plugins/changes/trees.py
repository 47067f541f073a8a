"""A project or a work copy as a tree of names, read relative to an open folder, for comparing two trees.

Invariant: nothing is opened by a path from the root of the file system, no link is followed and no mount is
entered, whatever the tree's writer does meanwhile; a file's bytes come from the descriptor that was checked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from threegate.core import limits
from threegate.core.held_folder import HeldFolder, open_inside
from threegate.plugins.changes.table import EXECUTABLE, FILE, FOLDER, LINK, Mode, TableNode

Kind = Literal["file", "folder", "link", "whiteout", "other"]

ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors that mean: nothing is at this path, or a part of it is not a folder."""
_OPAQUE: Final = ("user.overlay.opaque", "trusted.overlay.opaque")
_SPECIAL: Final[Mapping[int, str]] = {
    stat.S_IFIFO: "is a FIFO",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFBLK: "is a device",
    stat.S_IFCHR: "is a device",
}


class TreeChanged(OSError):
    """A file changed while it was read. Try again, or when nothing writes to it."""


class TreeTooLarge(Exception):
    """A tree has more names than are searched."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name of a tree. `why` says why it can never be carried, or nothing; `identity` is device and inode."""

    kind: Kind
    executable: bool = False
    size: int = 0
    links: int = 1
    why: str = ""
    identity: tuple[int, int] = (0, 0)
    uid: int = -1
    gid: int = -1

    @property
    def mode(self) -> Mode:
        """The mode that a table has for it."""
        if self.kind == "file":
            return EXECUTABLE if self.executable else FILE
        return LINK if self.kind == "link" else FOLDER


class Tree(Protocol):
    """What the maker needs of a project or a work copy. Paths are relative, with `/`; the root is the empty path."""

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        """The entries of a folder by name; empty if it is not one. Raises OSError."""
        ...

    def look(self, path: str) -> TreeEntry | None:
        """One entry, None if nothing is there, or a part of the path is not a folder. Raises OSError."""
        ...

    def chunks(self, path: str) -> Iterator[bytes]:
        """A file's bytes in pieces. Raises OSError, TreeChanged."""
        ...

    def target(self, path: str) -> bytes:
        """Where a symlink leads to. Raises OSError."""
        ...


@contextmanager
def folder_inside(root: int, path: str) -> Iterator[int]:
    """A folder below an open one, opened again each time: no entry is assumed to be where it was. Raises OSError."""
    descriptor = open_inside(root, path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class HeldTree:
    """A tree below a folder that is held open; it stays the caller's to close."""

    def __init__(self, folder: HeldFolder | int) -> None:
        self._root = folder if isinstance(folder, int) else folder.fileno()

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        found: dict[str, TreeEntry] = {}
        try:
            with folder_inside(self._root, path) as folder, os.scandir(folder) as entries:
                for item in entries:
                    with suppress(FileNotFoundError):
                        found[item.name] = _entry(item.stat(follow_symlinks=False))
        except OSError as error:
            if error.errno not in ABSENT:
                raise
        return found

    def look(self, path: str) -> TreeEntry | None:
        if not path:
            return _entry(os.fstat(self._root))
        try:
            with self._parent(path) as (parent, name):
                return _entry(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except OSError as error:
            if error.errno in ABSENT:
                return None
            raise

    def chunks(self, path: str) -> Iterator[bytes]:
        descriptor = open_inside(self._root, path)
        try:
            yield from read_chunks(descriptor, path)
        finally:
            os.close(descriptor)

    def target(self, path: str) -> bytes:
        with self._parent(path) as (parent, name):
            return os.fsencode(os.readlink(name, dir_fd=parent))

    def links(self, skipped: Collection[str], most: int) -> Iterator[tuple[str, str]]:
        """Every symlink with where it leads to, as it is written, but none in folders of a skipped name. Folders that
        cannot be read are passed over. Raises TreeTooLarge after `most` names.
        """
        left, seen = [""], 0
        while left:
            folder = left.pop()
            with suppress(OSError), folder_inside(self._root, folder) as descriptor, os.scandir(descriptor) as entries:
                for item in entries:
                    seen += 1
                    if seen > most:
                        raise TreeTooLarge
                    path = f"{folder}/{item.name}" if folder else item.name
                    if item.is_symlink():
                        with suppress(OSError):
                            yield path, os.readlink(item.name, dir_fd=descriptor)
                    elif item.name not in skipped and item.is_dir(follow_symlinks=False):
                        left.append(path)

    def opaque(self, path: str) -> bool:
        """Whether a folder of an overlay's upper tree hides what is below it in the base."""
        with folder_inside(self._root, path) as descriptor:
            for name in _OPAQUE:
                with suppress(OSError):
                    if os.getxattr(descriptor, name) == b"y":
                        return True
        return False

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        above, _, name = path.rpartition("/")
        with folder_inside(self._root, above) as descriptor:
            yield descriptor, name


class OverlayTree:
    """What an overlay mount shows, read without mounting it: the upper tree over the base.

    Source: Documentation/filesystems/overlayfs.rst: a whiteout is a character device 0:0, an opaque folder has the
    attribute ``overlay.opaque=y``. An overlay without ``redirect_dir`` is meant (so it is made by `user` mounts).
    """

    def __init__(self, upper: HeldTree, base: Tree) -> None:
        self._upper = upper
        self._base = base

    def names(self, path: str) -> Mapping[str, TreeEntry]:
        layer = self._layer(path)
        if layer == "base":
            return self._base.names(path)
        if layer == "gone":
            return {}
        below = {} if layer == "upper" else self._base.names(path)
        merged = {**below, **self._upper.names(path)}
        return {name: item for name, item in merged.items() if item.kind != "whiteout"}

    def look(self, path: str) -> TreeEntry | None:
        if not path:
            return self._base.look("")
        layer = self._layer(path.rpartition("/")[0])
        if layer == "gone":
            return None
        found = None if layer == "base" else self._upper.look(path)
        if found is not None:
            return None if found.kind == "whiteout" else found
        return None if layer == "upper" else self._base.look(path)

    def chunks(self, path: str) -> Iterator[bytes]:
        return self._holder(path).chunks(path)

    def target(self, path: str) -> bytes:
        return self._holder(path).target(path)

    def _holder(self, path: str) -> Tree:
        return self._base if self._upper.look(path) is None else self._upper

    def _layer(self, path: str) -> Literal["both", "upper", "base", "gone"]:
        """Where a folder's entries are: in both trees, in the upper or the base alone, or nowhere."""
        layer: Literal["both", "upper"] = "both"
        at = ""
        for part in path.split("/") if path else ():
            at = f"{at}/{part}" if at else part
            found = self._upper.look(at)
            if found is None:
                return "base" if layer == "both" else "gone"
            if found.kind != "folder":
                return "gone"
            if layer == "both" and self._upper.opaque(at):
                layer = "upper"
        return layer


def read_chunks(descriptor: int, path: str) -> Iterator[bytes]:
    """The bytes of an open regular file. Raises TreeChanged if it is not one, or changed meanwhile; OSError."""
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise TreeChanged(errno.EINVAL, "is not a regular file", path)
    size = 0
    while chunk := os.read(descriptor, limits.MIB):
        size += len(chunk)
        # A file that grows while it is read would never end.
        if size > before.st_size:
            break
        yield chunk
    after = os.fstat(descriptor)
    # A writer that keeps size and time as they were is caught by the digest that the change set names.
    if size != after.st_size or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise TreeChanged(errno.EAGAIN, "changed while it was read", path)


def node_of(tree: Tree, path: str, entry: TreeEntry) -> TableNode:
    """What a path is, its bytes hashed. Raises OSError."""
    if entry.kind == "folder":
        return TableNode(FOLDER)
    digest = hashlib.sha256()
    if entry.kind == "link":
        digest.update(tree.target(path))
    else:
        for chunk in tree.chunks(path):
            digest.update(chunk)
    return TableNode(entry.mode, digest.hexdigest())


def _entry(facts: os.stat_result) -> TreeEntry:
    kind = stat.S_IFMT(facts.st_mode)
    identity, uid = (facts.st_dev, facts.st_ino), facts.st_uid
    if kind == stat.S_IFLNK:
        return TreeEntry("link", identity=identity, uid=uid)
    why = _SPECIAL.get(kind, "")
    if kind == stat.S_IFCHR and facts.st_rdev == 0:
        return TreeEntry("whiteout", why=why, identity=identity, uid=uid)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        return TreeEntry("other", why=why or "is a special file", identity=identity, uid=uid)
    if kind == stat.S_IFDIR:
        return TreeEntry("folder", identity=identity, uid=uid)
    if facts.st_mode & (stat.S_ISUID | stat.S_ISGID):
        why = "has a set-user-id or set-group-id bit"
    executable = bool(facts.st_mode & stat.S_IXUSR)
    return TreeEntry("file", executable, facts.st_size, facts.st_nlink, why, identity, uid, facts.st_gid)
