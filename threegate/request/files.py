"""Input files: their names, and what is in a tar that a request asks to unpack.

Invariant: an entry that `read_tar` gives is a regular file or a folder with a relative path of ordinary
segments, each path once and never both a file and a folder; anything else refuses the whole archive. Links,
devices, sparse files, absolute and ``..`` names never come out. Source: docs/spec/1-tool-request.md, `inputs` … `unpack`.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from typing import BinaryIO

from threegate.core import limits
from threegate.request.characters import has_hidden
from threegate.request.fields import check_file_name

__all__ = ["TarEntry", "TarError", "check_file_name", "read_tar"]

PATH_BYTES = 1024
SEGMENT_BYTES = 255


class TarError(ValueError):
    """The bytes are no tar that may be unpacked; the message says which entry and why."""


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A file or folder of an archive. `path` is relative, with '/'; a file's bytes are at `offset`, `size` long."""

    path: str
    folder: bool
    size: int = 0
    offset: int = 0
    executable: bool = False


def read_tar(source: bytes | BinaryIO) -> tuple[TarEntry, ...]:
    """The entries of a plain (uncompressed) tar, in order, folders that are only implied included. Reads no contents.

    Raises TarError; bounded by TAR_ENTRIES entries and TAR_BYTES bytes of files.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    taken: dict[str, TarEntry] = {}
    total = 0
    try:
        with tarfile.open(fileobj=stream, mode="r:", errorlevel=2) as archive:
            for number, member in enumerate(archive, start=1):
                if number > limits.TAR_ENTRIES:
                    raise TarError(f"more than {limits.TAR_ENTRIES} entries")
                path = _path(member, number)
                if path:
                    total += _take(taken, path, member, number)
                if total > limits.TAR_BYTES or len(taken) > limits.TAR_ENTRIES:
                    raise TarError(
                        f"unpacks to more than {limits.TAR_BYTES} bytes or {limits.TAR_ENTRIES} entries"
                    )
            end = archive.offset
    except (tarfile.TarError, UnicodeError, ValueError, OverflowError, EOFError) as error:
        if isinstance(error, TarError):
            raise
        raise TarError("is no plain tar archive, or is cut off") from None
    stream.seek(end)
    while chunk := stream.read(limits.MIB):
        if chunk.strip(b"\0"):
            raise TarError("has something after its last entry that is no entry")
    return tuple(taken.values())


def _path(member: tarfile.TarInfo, number: int) -> str:
    """The clean path of an entry; empty for the archive's own root folder."""
    name = member.name.removeprefix("./") if member.name != "." else ""
    if not member.isreg() and not member.isdir():
        raise TarError(
            f"entry {number} is a link, device or other special file; only files and folders are unpacked"
        )
    if member.issparse():
        raise TarError(f"entry {number} is a sparse file; pack it without --sparse")
    if not name and member.isdir():
        return ""
    segments = name.rstrip("/").split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise TarError(f"entry {number} has an absolute path, or '..', '.' or empty segments")
    if len(name.encode("utf-8")) > PATH_BYTES or any(
        len(item.encode("utf-8")) > SEGMENT_BYTES for item in segments
    ):
        raise TarError(
            f"entry {number} has a path of more than {PATH_BYTES} bytes, or a name of more than {SEGMENT_BYTES}"
        )
    if has_hidden(name) or "\n" in name or "\t" in name or "\\" in name:
        raise TarError(f"entry {number} has a name with hidden characters or backslashes")
    return "/".join(segments)


def _take(taken: dict[str, TarEntry], path: str, member: tarfile.TarInfo, number: int) -> int:
    """Add an entry and the folders above it; returns the bytes that it unpacks to."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        if not taken.setdefault(above, TarEntry(above, True)).folder:
            raise TarError(f"entry {number} lies below a file")
    if path in taken and not (member.isdir() and taken[path].folder):
        raise TarError(f"entry {number} has a name that stands twice")
    if member.isdir():
        taken[path] = TarEntry(path, True)
        return 0
    taken[path] = TarEntry(path, False, member.size, member.offset_data, bool(member.mode & 0o111))
    return member.size
