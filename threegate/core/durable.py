"""The one seam to the disk for everything that is state, and the reserve for what must be possible on a full disk.

Invariant: every operation that changes a state folder, the trail, a result or a pinned input goes through
one of these functions, so that the crash harness can stop the process before and after each of them, and
so that there is one place that decides when something is on disk. `observe` is called with the operation's
name and path before and after it; it may raise OSError or end the process.

A file's own fsync does not make its name durable: the name is an entry of the folder, which is a file with pages of its
own. So who creates or renames syncs the folder too, both folders for a move, the new one first: a power cut in between
at worst leaves the file under both names and never under none.

The reserve is for cancelling, rejecting, killing, and the end of what has begun. Only a block of `disk_reserve` uses
it, and only after the file system had no space. It is spare files, each an inode with blocks of its own. A new file is
made of one by a rename, so no other process can take that space in between; what needs space of another kind (a longer
file, a folder's next block) gets it from spare files that are removed, one after the other.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final, TypeVar

from threegate.core import limits
from threegate.core.errors import InvalidInput, is_disk_full

Observer = Callable[[str, str, str], None]
"""Called with (moment, operation, path); moment is ``before`` or ``after``, and ``from`` with a rename's source."""

STAGED: Final = ".staged"
"""The suffix after the name of a file that is going to be replaced: the file with its next bytes."""
_observers: list[Observer] = []
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FALLOC_FL_KEEP_SIZE = 1
_AT_ONCE = 64
_TRIES: Final = 3
_FEW = 8
"""Up to this many files are synced one by one; for more, their whole file system is synced."""
is_temporary: Final = re.compile(r"\.tmp-[0-9a-f]{16}").fullmatch
"""Whether this is the name of one of our temporary files: without its writer nothing refers to it."""
_libc = ctypes.CDLL(None, use_errno=True)
_reserve: ContextVar[Path | None] = ContextVar("disk_reserve", default=None)
_T = TypeVar("_T")


def observe(observer: Observer) -> Callable[[], None]:
    """Register an observer; the returned function takes it away again."""
    _observers.append(observer)
    return lambda: _observers.remove(observer)


def is_observed() -> bool:
    """Whether there are observers, who see one operation after the other."""
    return bool(_observers)


def _tell(moment: str, operation: str, path: str | Path) -> None:
    for observer in _observers:
        observer(moment, operation, str(path))


def sync_fd(descriptor: int, path: str | Path) -> None:
    """fdatasync an open file. `path` is only passed to observers. Raises OSError.

    Never repeat a sync that failed: the pages may be gone, and the second one succeeds. The file counts as
    unwritten.
    """
    _tell("before", "sync", path)
    os.fdatasync(descriptor)
    _tell("after", "sync", path)


def write_fd(descriptor: int, data: bytes, path: str | Path) -> None:
    """Write all of `data` to an open file. Raises OSError; part of it may then be written."""
    _tell("before", "write", path)
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except OSError as error:
            _make_room(error)
    _tell("after", "write", path)


def truncate_fd(descriptor: int, size: int, path: str | Path) -> None:
    """Cut an open file to `size` bytes and sync it. Only for the trail's torn end, after it was set aside."""
    _tell("before", "truncate", path)
    os.ftruncate(descriptor, size)
    os.fsync(descriptor)
    _tell("after", "truncate", path)


def reserve_fd(descriptor: int, offset: int, length: int, path: str | Path) -> None:
    """Reserve space behind a file's end without changing its size (fallocate, FALLOC_FL_KEEP_SIZE).

    Raises OSError (ENOSPC, EDQUOT); a file system that cannot reserve is not an error.
    """
    _tell("before", "reserve", path)
    _reserve_blocks(descriptor, offset, length, path)
    _tell("after", "reserve", path)


def _reserve_blocks(descriptor: int, offset: int, length: int, path: str | Path) -> None:
    """Reserve blocks without changing a file's size (fallocate, FALLOC_FL_KEEP_SIZE). `path` is for messages.

    Raises OSError (ENOSPC, EDQUOT); a file system that cannot reserve is not an error.
    """
    if _libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length)):
        error = _last_error(path)
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise error


@contextmanager
def announced(operation: str, path: str | Path) -> Iterator[None]:
    """What another program writes durably at our word, as one operation: observers see it before and after."""
    _tell("before", operation, path)
    yield
    _tell("after", operation, path)


def _last_error(path: str | Path) -> OSError:
    """What the last call of the C library failed with."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(path))


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _tell("before", "sync_folder", folder)
        os.fsync(descriptor)
        _tell("after", "sync_folder", folder)
    finally:
        os.close(descriptor)


def sync_folder_at(descriptor: int, folder: Path) -> None:
    """Make the names in an open folder durable. `folder` is only passed to observers. Raises OSError."""
    _tell("before", "sync_folder", folder)
    os.fsync(descriptor)
    _tell("after", "sync_folder", folder)


def sync_all(descriptor: int, path: str | Path) -> None:
    """Put everything of the file system that an open file or folder is on, on disk (syncfs(2)): one commit
    where a sync for each of many files is one each. `path` is only passed to observers. Raises OSError (an
    error of any file of it, Linux 5.8).
    """
    _tell("before", "sync_all", path)
    if _libc.syncfs(descriptor):
        raise _last_error(path)
    _tell("after", "sync_all", path)


def rename(source: Path, target: Path) -> None:
    """Rename without replacing (renameat2 RENAME_NOREPLACE). Raises FileExistsError, OSError. Not yet durable."""
    _tell("from", "rename", source)
    _tell("before", "rename", target)
    names = os.fsencode(source), os.fsencode(target)
    while _libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE):
        _make_room(_last_error(target))
    _tell("after", "rename", target)


def replace(source: Path, target: Path) -> None:
    """Rename over whatever is there: for verdicts, staged files and state that is derived, never for a request."""
    _tell("from", "replace", source)
    _tell("before", "replace", target)
    until_it_fits(lambda: os.replace(source, target))
    _tell("after", "replace", target)


def replace_at(folder: int, source: Path, target: Path) -> None:
    """The same in an open folder, of which the paths' last parts are names. Raises OSError. Not yet durable."""
    _tell("from", "replace", source)
    _tell("before", "replace", target)
    os.replace(source.name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    _tell("after", "replace", target)


def unlink(path: Path) -> None:
    """Remove a name. Raises FileNotFoundError, OSError."""
    _tell("before", "unlink", path)
    path.unlink()
    _tell("after", "unlink", path)


def unlink_at(folder: int, name: str, path: Path) -> None:
    """Remove a name in an open folder. `path` is only for observers. Raises FileNotFoundError, OSError."""
    _tell("before", "unlink", path)
    os.unlink(name, dir_fd=folder)
    _tell("after", "unlink", path)


def make_folder(path: Path, mode: int = 0o700, *, settled: bool = True) -> None:
    """Make one folder and make its name durable; with `settled` false the caller syncs the folder that it is in.
    Raises FileExistsError, OSError.
    """
    _tell("before", "mkdir", path)
    until_it_fits(lambda: path.mkdir(mode=mode))
    if settled:
        sync_folder(path.parent)
    _tell("after", "mkdir", path)


def make_folder_at(parent: int, name: str, path: Path) -> None:
    """Make a folder of mode 0700 below an open one; who made it syncs the open one later. `path` is only passed to
    observers. Raises OSError.
    """
    _tell("before", "mkdir", path)
    os.mkdir(name, 0o700, dir_fd=parent)
    _tell("after", "mkdir", path)


def remove_folder_at(parent: int, name: str, path: Path) -> None:
    """Remove an empty folder below an open one. `path` is only passed to observers. Raises OSError."""
    _tell("before", "rmdir", path)
    os.rmdir(name, dir_fd=parent)
    _tell("after", "rmdir", path)


def make_link_at(parent: int, name: str, path: Path, target: str) -> None:
    """Make a symlink below an open folder; who made it syncs that later. `path` is only passed to observers.
    Raises OSError.
    """
    _tell("before", "symlink", path)
    os.symlink(target, name, dir_fd=parent)
    _tell("after", "symlink", path)


def create_at(parent: int, name: str, path: Path, mode: int = 0o600) -> int:
    """Create a file below an open folder and return its descriptor; it must not be there. Raises OSError."""
    _tell("before", "create", path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = until_it_fits(lambda: os.open(name, flags, mode, dir_fd=parent))
    _tell("after", "create", path)
    return descriptor


def rename_at(source_folder: int, source: Path, target_folder: int, target: Path, *, exchange: bool = False) -> None:
    """Rename between open folders without replacing, or exchange two names; the paths' last parts are the names.

    Raises FileExistsError, OSError. Not yet durable.
    """
    operation = "exchange" if exchange else "rename"
    _tell("from", operation, source)
    _tell("before", operation, target)
    flags = _RENAME_EXCHANGE if exchange else _RENAME_NOREPLACE
    names = os.fsencode(source.name), os.fsencode(target.name)
    if _libc.renameat2(source_folder, names[0], target_folder, names[1], flags):
        raise _last_error(target)
    _tell("after", operation, target)


def is_gone(path: Path) -> bool:
    """Whether nothing has this name in a folder that can be read. False wherever that cannot be known: a missing or
    forbidden folder, a failing disk.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        return error.errno == errno.ENOENT
    finally:
        os.close(folder)
    return False


def write_new(path: Path, data: bytes | Iterable[bytes], mode: int = 0o600) -> Path:
    """Write `data`, whole or in pieces, to a new, synced temporary file beside `path` and return its path (for
    rename or replace).
    """
    temporary = path.with_name(f".tmp-{secrets.token_hex(8)}")
    try:
        _tell("before", "create", temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            # `open` takes the umask's bits away from the mode, and this does not.
            os.fchmod(descriptor, mode)
            _tell("after", "create", temporary)
            _tell("before", "write", temporary)
            for piece in (data,) if isinstance(data, bytes) else data:
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
            _tell("after", "write", temporary)
            sync_fd(descriptor, temporary)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        if not isinstance(data, bytes) or not take_spare(temporary, error):
            raise
        try:
            _write_into(temporary, data, mode)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    return temporary


def deliver(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make `path` appear whole and durable, or not at all; refuses a taken name (FileExistsError)."""
    temporary = write_new(path, data, mode)
    try:
        rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_reserved(path: Path, size: int) -> None:
    """Make an empty file that `size` bytes on the disk are reserved for. Raises FileExistsError, OSError; then it is
    not there.
    """
    try:
        _tell("before", "create", path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _tell("after", "create", path)
            reserve_fd(descriptor, 0, size, path)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        if not take_spare(path, error):
            raise


def deliver_into(reserved: Path, path: Path, data: bytes, mode: int = 0o600, *, settled: bool = True) -> None:
    """As `deliver`, but in the blocks of a file of `make_reserved`, which is renamed; it stays when that fails.

    With `settled` false the folder is left to be synced by the caller: the bytes are durable, their name is not.
    """
    _write_into(reserved, data, mode)
    rename(reserved, path)
    if settled:
        sync_folder(path.parent)


def _write_into(reserved: Path, data: bytes, mode: int) -> None:
    """Make `data` the content of a file that has blocks already; those that it does not need are given back."""
    descriptor = os.open(reserved, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        write_fd(descriptor, data, reserved)
        os.ftruncate(descriptor, len(data))
        os.fchmod(descriptor, mode)
        sync_fd(descriptor, reserved)
    finally:
        os.close(descriptor)


def overwrite(path: Path, data: bytes | Iterable[bytes], mode: int = 0o600, *, settled: bool = True) -> None:
    """Put `data` at `path` whole and durable, replacing what was there. Only for derived files.

    With `settled` false a power cut may bring back what was there, whole.
    """
    for _ in range(_TRIES - 1 if isinstance(data, bytes) else 0):
        # A daemon that starts removes what looks left behind by a crash. Derived files are also written by commands
        # that do not hold the trail's lock, which keeps it from that.
        try:
            return _overwrite(path, data, mode, settled=settled)
        except FileNotFoundError:
            continue
    _overwrite(path, data, mode, settled=settled)


def _overwrite(path: Path, data: bytes | Iterable[bytes], mode: int, *, settled: bool) -> None:
    temporary = write_new(path, data, mode)
    try:
        replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if settled:
        sync_folder(path.parent)


def staged(path: Path) -> Path:
    """The path of a file's next bytes, complete and durable, before the event that announces them; then they
    replace it.
    """
    return path.with_name(path.name + STAGED)


def write_files(folder: Path, files: Sequence[tuple[str, bytes]], mode: int = 0o600) -> None:
    """Make new files in a folder that nobody reads before an event names them; not durable before `sync_together`.

    Raises FileExistsError, OSError; then none of them is left.
    """
    made: list[Path] = []
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name, data in files:
            path = folder / name
            descriptor = create_at(parent, name, path, mode)
            made.append(path)
            try:
                write_fd(descriptor, data, path)
            finally:
                os.close(descriptor)
    except OSError:
        for path in made:
            os.unlink(path.name, dir_fd=parent)
        raise
    finally:
        os.close(parent)


def deliver_together(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """As `deliver` for new files of mode 0600 in one folder, with one sync for all of them where they are many; one
    file at a time is in memory. A name that is taken keeps its file. A crash may leave some of them, each whole.

    Raises OSError, and what `files` raises; then none of them is there.
    """
    made: list[tuple[Path, Path]] = []
    ours: list[Path] = []
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name, data in files:
            temporary = folder / f".tmp-{secrets.token_hex(8)}"
            descriptor = create_at(parent, temporary.name, temporary, 0o600)
            ours.append(temporary)
            made.append((temporary, folder / name))
            try:
                os.fchmod(descriptor, 0o600)  # whatever the umask left of it
                write_fd(descriptor, data, temporary)
            finally:
                os.close(descriptor)
        if len(made) > _FEW:
            sync_all(parent, folder)
        else:
            sync_together(ours, ())
        for number, (temporary, path) in enumerate(made):
            try:
                rename_at(parent, temporary, parent, path)
                ours[number] = path
            except FileExistsError:
                os.unlink(temporary.name, dir_fd=parent)
        sync_folder_at(parent, folder)
    except BaseException:  # Ctrl-C, too: no temporary file stays
        for path in ours:
            with suppress(OSError):
                os.unlink(path.name, dir_fd=parent)
        raise
    finally:
        os.close(parent)


def sync_together(files: Sequence[Path], folders: Iterable[Path]) -> None:
    """Put regular files on disk, then the names in the folders. Raises OSError; follows no link to a file.

    The kernel is asked to begin with several (_AT_ONCE) before the first is waited for: a file gets its place on the
    disk only then, so otherwise the disk would have one commit to make for each.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for first in range(0, len(files), _AT_ONCE):
        opened: list[tuple[Path, int]] = []
        try:
            for path in files[first : first + _AT_ONCE]:
                opened.append((path, os.open(path, flags)))
                os.posix_fadvise(opened[-1][1], 0, 0, os.POSIX_FADV_DONTNEED)
            for path, descriptor in opened:
                sync_fd(descriptor, path)
        finally:
            for _, descriptor in opened:
                os.close(descriptor)
    for folder in folders:
        sync_folder(folder)


def read_regular(path: Path, *, max_bytes: int) -> bytes:
    """Read a regular file with one link, once, without following links and without ever blocking.

    Raises FileNotFoundError, or OSError with a reason for anything else (a link, FIFO, device, a second hard
    link, more than `max_bytes`, changed while it was read).
    """
    descriptor = os.open(path, _READ)
    try:
        return read_regular_fd(descriptor, path, max_bytes=max_bytes)
    finally:
        os.close(descriptor)


def read_named(path: Path, *, max_bytes: int) -> bytes:
    """As `read_regular`, of a file that a person named or a command needs. Raises InvalidInput."""
    try:
        return read_regular(path, max_bytes=max_bytes)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror or error})") from None


def read_regular_fd(descriptor: int, path: Path, *, max_bytes: int) -> bytes:
    """As `read_regular`, from a descriptor that is already open."""
    before = os.fstat(descriptor)
    if not (before.st_mode & 0o170000) == 0o100000:
        raise _unread(f"{path.name}: not a regular file")
    # A hard link would put a file that only we may read where others can have it shown.
    if before.st_nlink > 1:  # none is left where another file took its name since: the bytes are whole
        raise _unread(f"{path.name}: has more than one hard link")
    if before.st_size > max_bytes:
        raise _unread(f"{path.name}: {before.st_size} bytes, at most {max_bytes} are read")
    chunks = []
    left = max_bytes + 1
    expected = before.st_size
    while left > 0 and (chunk := os.read(descriptor, min(left, max(expected, 0) + 1, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
        expected -= len(chunk)
        if expected == 0:
            break  # one byte more was asked for; a file that grows after that is found below
    data = b"".join(chunks)
    after = os.fstat(descriptor)
    if len(data) > max_bytes:
        raise _unread(f"{path.name}: more than {max_bytes} bytes")
    # The bytes could be the first half of one version and the second half of another.
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(data) != after.st_size:
        raise _unread(f"{path.name}: changed while it was read")
    return data


def _unread(why: str) -> OSError:
    """The error of a file that is not what is read here. It has no number, so its `strerror` is set for messages."""
    error = OSError(why)
    error.strerror = why
    return error


@contextmanager
def disk_reserve(folder: Path) -> Iterator[None]:
    """Until the block ends, this thread may use the spare files in `folder` where the disk is full."""
    before = _reserve.set(folder)
    try:
        yield
    finally:
        _reserve.reset(before)


def may_use_reserve() -> bool:
    """Whether this thread may use the reserve now."""
    return _reserve.get() is not None


def until_it_fits(act: Callable[[], _T]) -> _T:
    """Do it; where the disk is full, again after each spare file that is removed. Raises OSError, as `act` does."""
    while True:
        try:
            return act()
        except OSError as error:
            _make_room(error)


def _make_room(error: OSError) -> None:
    """Remove a spare file, so that what failed can be done again. Raises `error` if this thread may not use the reserve
    against it, or if only the last RESERVE_KEPT_FILES are left: those are for `take_spare`.
    """
    spares = list(_spares(error))
    if len(spares) <= limits.RESERVE_KEPT_FILES:
        raise error
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


def _make_spare(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _reserve_blocks(descriptor, 0, size, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _spares(error: OSError) -> Iterator[Path]:
    """The spare files that may be used against this error."""
    folder = _reserve.get()
    if folder is None or not is_disk_full(error):
        return
    with suppress(OSError):
        yield from (folder / name for name in sorted(os.listdir(folder)))
