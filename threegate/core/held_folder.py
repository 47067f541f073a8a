"""A folder that other accounts may write to, held open: its entries are opened relative to it and never by
path.

Invariant: a name is resolved in the open folder, in one step, and no link of any kind is followed. So it does
not matter what the folder's writer renames, links or exchanges meanwhile: only entries of that folder can be
reached.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from threegate.core import durable

OPENAT2: Final = 437
"""The system call's number; the same on every architecture (Linux 5.6, include/uapi/asm-generic/unistd.h)."""
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
# Without O_NONBLOCK, a FIFO in an inbox would stop the daemon until somebody writes to it.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(folder: int, name: str, flags: int = _READ) -> int:
    """Open one name in an open folder; returns the descriptor. `name` is a single part: no slash, not `.` or `..`.

    openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS; where the kernel or a filter does
    not have that call, openat(2) with O_NOFOLLOW, which means the same for a single part. Raises OSError (ELOOP for a
    link).
    """
    _require_one_part(name)
    # For the fallback below; `openat2` refuses links anyway.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return _openat2(folder, name, _OpenHow(flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS))
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    # An old kernel, or a seccomp filter that does not know the call.
    return os.open(name, flags, dir_fd=folder)


def _require_one_part(name: str) -> None:
    """Raises OSError for what is not the name of an entry: it would be looked for in another folder."""
    if not name or "/" in name or "\0" in name or name in (".", ".."):
        raise OSError(errno.EINVAL, "is not the name of one file", name)


def open_inside(folder: int, path: str, flags: int = _READ) -> int:
    """Open a path of several parts in an open folder, `.` for the folder itself: no link on the way, and no mount.

    There is no fallback for openat2(2): only the kernel can tell a mount in the same file system from a
    folder. Raises OSError (ELOOP for a link, EXDEV for a mount or a way out, ENOSYS without the call).
    """
    how = _OpenHow(flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | _NO_XDEV)
    return _openat2(folder, path, how)


def _openat2(folder: int, path: str, how: _OpenHow) -> int:
    descriptor = int(
        _libc.syscall(
            ctypes.c_long(OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    )
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return descriptor


def hold_below(root: Path, folder: Path) -> HeldFolder:
    """Hold a folder below `root`; each part of the path below it must be a folder, and none a link. Raises OSError."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in folder.relative_to(root).parts:
        above = descriptor
        try:
            descriptor = open_beneath(above, part, _FOLDER)
        finally:
            os.close(above)
    return HeldFolder(descriptor, folder)


def hold_path(path: str | Path) -> HeldFolder:
    """Hold a folder that a path names; its last part may be no link. Raises OSError."""
    return HeldFolder(os.open(path, _FOLDER), Path(path))


class HeldFolder:
    """An open folder. `path` is for messages and for observers of the disk; nothing is opened by it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self.path = path

    def facts(self) -> os.stat_result:
        """What the folder itself is."""
        return os.fstat(self._descriptor)

    def fileno(self) -> int:
        """The descriptor, for system calls on the folder itself."""
        return self._descriptor

    def folder(self, name: str) -> HeldFolder:
        """Hold a folder in this one. Raises OSError (ELOOP or ENOTDIR for a link)."""
        return HeldFolder(open_beneath(self._descriptor, name, _FOLDER), self.path / name)

    def close(self) -> None:
        """Let the folder go."""
        os.close(self._descriptor)

    def __enter__(self) -> HeldFolder:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)

    @contextmanager
    def entries(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        """The entries, in no order. Their `path` is relative to nothing: use `name` and
        `stat(follow_symlinks=False)`.
        """
        again = os.open(".", _FOLDER, dir_fd=self._descriptor)  # a separate descriptor has its own read position
        try:
            with os.scandir(again) as found:
                yield found
        finally:
            os.close(again)

    def stat(self, name: str) -> os.stat_result:
        """What a name is; a link is a link. Raises FileNotFoundError, OSError."""
        _require_one_part(name)
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def open(self, name: str) -> int:
        """A descriptor for reading a name, never blocking. The caller closes it. Raises OSError."""
        return open_beneath(self._descriptor, name)

    def open_regular(self, name: str) -> tuple[int, os.stat_result]:
        """The same for a regular file with one link, and what it is. Raises OSError for anything else."""
        descriptor = self.open(name)
        facts = os.fstat(descriptor)
        # A hard link would put a file that only we may read where others can have it shown.
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1:
            return descriptor, facts
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file with one link", name)

    def read(self, name: str, *, max_bytes: int) -> tuple[bytes, os.stat_result]:
        """The bytes of a regular file, read once, and what it is. Raises as `durable.read_regular`."""
        descriptor = self.open(name)
        try:
            data = durable.read_regular_fd(descriptor, self.path / name, max_bytes=max_bytes)
            return data, os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def deliver(self, name: str, data: bytes, mode: int = 0o600, *, owner: int | None = None) -> None:
        """Create a file completely and durably, or not at all; it belongs to the account `owner`, if one is given.
        Raises FileExistsError, OSError.
        """
        self._deliver(name, data, mode, owner, replacing=False)

    def deliver_content(self, data: bytes, mode: int = 0o644) -> bool:
        """Deliver a file under its own sha256, so that no other content can have its name; return whether it was new.
        What had the name already is not read: whoever uses it hashes it. Raises OSError.
        """
        try:
            self.deliver(hashlib.sha256(data).hexdigest(), data, mode)
        except FileExistsError:
            return False
        return True

    def overwrite(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Put a file there whole and durable, replacing what had the name. Only for derived files. Raises OSError."""
        self._deliver(name, data, mode, None, replacing=True)

    def _deliver(self, name: str, data: bytes, mode: int, owner: int | None, *, replacing: bool) -> None:
        _require_one_part(name)
        temporary = self.path / f".tmp-{secrets.token_hex(8)}"
        descriptor = durable.create_at(self._descriptor, temporary.name, temporary, mode)
        try:
            try:
                # `open` takes the umask's bits away from the mode, and this does not.
                os.fchmod(descriptor, mode)
                durable.write_fd(descriptor, data, temporary)
                if owner is not None:  # by the descriptor: at the name may be another file by now
                    os.fchown(descriptor, owner, -1)
                durable.sync_fd(descriptor, temporary)
            finally:
                os.close(descriptor)
            if replacing:
                durable.replace_at(self._descriptor, temporary, self.path / name)
            else:
                durable.rename_at(self._descriptor, temporary, self._descriptor, self.path / name)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(temporary.name, dir_fd=self._descriptor)
            raise
        durable.sync_folder_at(self._descriptor, self.path)

    def rename(self, name: str, new: str) -> None:
        """Rename within this folder, without replacing. Raises FileExistsError, OSError."""
        durable.rename_at(self._descriptor, self.path / name, self._descriptor, self.path / new)
        durable.sync_folder_at(self._descriptor, self.path)

    def unlink(self, name: str) -> None:
        """Remove a name. Raises FileNotFoundError, OSError."""
        _require_one_part(name)
        durable.unlink_at(self._descriptor, name, self.path / name)
