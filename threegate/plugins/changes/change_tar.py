"""`changes.tar`: the one reader and the one writer of a change set.

Invariant: a `ChangeSet` exists only if the table and the members of the archive agree entry for entry: each path that
exists after the change is a member of exactly that kind, mode and sha256, and nothing else is in the archive. All of it
is computed from the bytes; no claim in the archive is trusted. Source: docs/spec/8-agents.md, "Change sets".
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from threegate.core import limits
from threegate.core.canonical import sha256_hex
from threegate.plugins.changes.path_rules import check_paths
from threegate.plugins.changes.table import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    ChangeSetError,
    Mode,
    Row,
    TableNode,
    read_table,
    render_table,
)
from threegate.request.tar_reader import TarEntry, TarError, read_change_tar

TABLE: Final = "changes.jsonl"
"""The archive's first member."""
_TREE: Final = "tree"
"""The folder in the archive that represents the project's root, so that no path of a project collides with the table.
"""
_MEMBER_MODES: Final[dict[int, Mode]] = {0o644: FILE, 0o755: EXECUTABLE}

ReadContent = Callable[[Row], bytes]
"""The bytes that a path has after the change: of a file, or a link's target."""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set that was read. `places` is path → (offset, size) of a file's bytes in the archive."""

    rows: tuple[Row, ...]
    sha256: str
    """The digest of the table, and so of everything."""
    places: dict[str, tuple[int, int]]
    targets: dict[str, str]
    """path → where a symlink leads to."""

    def read(self, stream: BinaryIO, path: str) -> bytes:
        """The bytes of a file after the change, from the archive that was read."""
        offset, size = self.places[path]
        stream.seek(offset)
        return stream.read(size)

    def content(self, stream: BinaryIO, path: str) -> bytes:
        """The bytes of a file, or the target of a link, after the change."""
        return self.targets[path].encode() if path in self.targets else self.read(stream, path)


def carried_bytes() -> int:
    """What the files of one change may have together."""
    return limits.TAR_BYTES - limits.CHANGE_TABLE_BYTES


def refuse_too_large(path: str, total: int) -> None:
    """Raises ChangeSetError when the files of a change, up to this path, have more than `carried_bytes`."""
    if total > carried_bytes():
        raise ChangeSetError(
            f"{path}: the change has more than {carried_bytes() // limits.MIB} MiB; propose it in parts"
        )


def change_tar(rows: Sequence[Row], read_content: ReadContent) -> bytes:
    """The archive of these rows as bytes. Raises as `write_change_tar`."""
    buffer = io.BytesIO()
    write_change_tar(rows, read_content, buffer)
    return buffer.getvalue()


def write_change_tar(rows: Sequence[Row], read_content: ReadContent, target: BinaryIO) -> None:
    """Write the archive of these rows: deterministic, no times, no owners; one file at a time is in memory.

    Raises ChangeSetError when it would be too large, and what `read_content` raises.
    """
    total = 0
    table = render_table(rows)
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add(archive, TABLE, 0o644, table)
        for row in read_table(table):
            if row.after is None:
                continue
            name = f"{_TREE}/{row.path}"
            if row.after.folder:
                _add(archive, name, 0o755, None)
                continue
            content = read_content(row)
            total += len(content)
            refuse_too_large(row.path, total)
            if row.after.mode == LINK:
                info = tarfile.TarInfo(name)
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, content.decode()
                archive.addfile(info)
            else:
                _add(archive, name, 0o755 if row.after.mode == EXECUTABLE else 0o644, content)


def read_change_set(source: bytes | BinaryIO) -> ChangeSet:
    """Read and check an archive from an untrusted source. Raises ChangeSetError.

    What depends on the project (links in the way, collisions with existing paths) is checked by `checks.check_project`.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        entries = read_change_tar(stream)
    except TarError as error:
        raise ChangeSetError(f"changes.tar: {error}") from None
    rows, digest = _table_of(stream, entries)
    members = dict(_members(entries))
    places, targets = {}, {}
    for row in rows:
        member = members.pop(row.path, None)
        if (row.after is None) != (member is None):
            raise ChangeSetError(f"{row.path}: the table and the members of changes.tar do not agree")
        if member is None:
            continue
        if _node_of(stream, member) != row.after:
            raise ChangeSetError(f"{row.path}: is something else in changes.tar than in its table")
        if member.link is not None:
            targets[row.path] = member.link
        elif not member.folder:
            places[row.path] = (member.offset, member.size)
    for path in members:  # what is left of them
        raise ChangeSetError(f"{path}: is in changes.tar and not in its table")
    check_paths(rows, targets)
    return ChangeSet(rows, digest, places, targets)


def _table_of(stream: BinaryIO, entries: Sequence[TarEntry]) -> tuple[tuple[Row, ...], str]:
    """The rows of the first member, and its digest: its bytes are the only rendering of its rows (`read_table`)."""
    if not entries or entries[0].path != TABLE or entries[0].folder or entries[0].link is not None:
        raise ChangeSetError(f"changes.tar: its first member is not {TABLE}")
    if entries[0].size > limits.CHANGE_TABLE_BYTES:
        raise ChangeSetError(f"its table has more than {limits.CHANGE_TABLE_BYTES} bytes")
    stream.seek(entries[0].offset)
    data = stream.read(entries[0].size)
    return read_table(data), sha256_hex(data)


def _members(entries: Sequence[TarEntry]) -> Iterator[tuple[str, TarEntry]]:
    """Path in the project → member, without the folders that are only implied by what is in them."""
    for entry in entries[1:]:
        if entry.folder and entry.mode is None:
            continue
        top, _, path = entry.path.partition("/")
        if top != _TREE or not path:
            raise ChangeSetError(f"changes.tar: has a member outside of {_TREE}/")
        yield path, entry


def _node_of(stream: BinaryIO, member: TarEntry) -> TableNode:
    """What a member is, computed from its bytes."""
    if member.link is not None:
        return TableNode(LINK, hashlib.sha256(member.link.encode()).hexdigest())
    if member.folder and member.mode == 0o755:
        return TableNode(FOLDER)
    if member.folder or member.mode not in _MEMBER_MODES:
        raise ChangeSetError("changes.tar: has a member with a mode other than 644 or 755")
    stream.seek(member.offset)
    return TableNode(_MEMBER_MODES[member.mode], hash_stream(stream, member.size))


def hash_stream(stream: BinaryIO, size: int) -> str:
    """The sha256 of the next `size` bytes."""
    digest = hashlib.sha256()
    while size > 0 and (chunk := stream.read(min(limits.MIB, size))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def _add(archive: tarfile.TarFile, name: str, mode: int, content: bytes | None) -> None:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if content is None:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    else:
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
