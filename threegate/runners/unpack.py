"""Lays out a tar of plain files and folders below an open folder (docs/spec/1-tool-request.md, docs/spec/6-runners.md Staging).

Invariant: nothing is written outside the folder, nothing is overwritten, and what is no plain file or folder,
or beyond TAR_ENTRIES and TAR_BYTES, is an error. Gate 1 has read the same bytes before; this is the second look.
"""

from __future__ import annotations

import os
import tarfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import IO

from threegate.core import limits

_CHUNK = 1 << 20
_NAME_BYTES = 255
_DEPTH = 32
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def odd_name(name: str) -> str | None:
    """Why a file name is not taken, or None: no UTF-8, control or invisible characters, too long."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > _NAME_BYTES:
        return "its name is too long"
    if any(unicodedata.category(char)[0] == "C" or char in "\u2028\u2029" for char in name):
        return "its name has control or invisible characters"
    return None


def unpack(stream: IO[bytes], folder: int) -> None:
    """Write the files and folders of a tar below the open folder. Raises ValueError for anything else, OSError."""
    try:
        stream.seek(0)
        with tarfile.open(fileobj=stream, mode="r:", errorlevel=2) as archive:
            _extract(archive, folder)
    except (tarfile.TarError, EOFError, FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"no tar that can be unpacked ({type(error).__name__})") from None


def _extract(archive: tarfile.TarFile, folder: int) -> None:
    total = 0
    for count, member in enumerate(archive, start=1):
        total += member.size
        if count > limits.TAR_ENTRIES or total > limits.TAR_BYTES:
            raise ValueError(f"holds more than {limits.TAR_ENTRIES} entries or {limits.TAR_BYTES} bytes")
        parts = _parts(member.name)
        if member.type == tarfile.DIRTYPE:
            with _made(folder, parts):
                continue
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not parts:
            raise ValueError("holds something else than files and folders")
        content = archive.extractfile(member)
        if content is None:
            raise ValueError("holds a file without content")
        with _made(folder, parts[:-1]) as parent:
            _write(parent, parts[-1], content)


def _parts(name: str) -> tuple[str, ...]:
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or len(parts) > _DEPTH or any(odd_name(part) for part in parts):
        raise ValueError("an entry's name leaves the folder, is too deep or cannot be shown")
    return parts


@contextmanager
def _made(folder: int, parts: tuple[str, ...]) -> Iterator[int]:
    """An open folder below `folder`, made with its parents where it is missing."""
    current = os.dup(folder)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=current)
            inner = os.open(part, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def _write(parent: int, name: str, content: IO[bytes]) -> None:
    with os.fdopen(os.open(name, _CREATE, 0o444, dir_fd=parent), "wb") as target:
        while chunk := content.read(_CHUNK):
            target.write(chunk)
