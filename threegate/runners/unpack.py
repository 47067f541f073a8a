"""Unpacks a tar of regular files and folders below an open folder (docs/spec/6-runners.md, Staging).

Invariant: nothing is written outside the folder and nothing is overwritten; what is unpacked is what
`read_tar` returns, the same entries that were listed before the approval.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from threegate.core import limits
from threegate.request.tar_reader import TarEntry, read_tar

_CHUNK = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def odd_name(name: str) -> str | None:
    """Why a file name is refused, or None: not UTF-8, control or invisible characters, too long."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > limits.TAR_NAME_BYTES:
        return "its name is too long"
    if any(unicodedata.category(char)[0] == "C" or char in "\u2028\u2029" for char in name):
        return "its name has control or invisible characters"
    return None


def unpack(stream: BinaryIO, folder: int) -> None:
    """Write the files and folders of a tar below the open folder. Raises ValueError for anything else, OSError."""
    for entry in read_tar(stream):
        parts = entry.path.split("/")
        with _made(folder, parts if entry.folder else parts[:-1]) as parent:
            if not entry.folder:
                _write(parent, parts[-1], stream, entry)


@contextmanager
def _made(folder: int, parts: Sequence[str]) -> Iterator[int]:
    """An open folder below `folder`, created with its parents if missing."""
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


def _write(parent: int, name: str, stream: BinaryIO, entry: TarEntry) -> None:
    stream.seek(entry.offset)
    left = entry.size
    with os.fdopen(os.open(name, _CREATE, 0o444, dir_fd=parent), "wb") as target:
        while left:
            chunk = stream.read(min(_CHUNK, left))
            if not chunk:
                raise ValueError("was cut while it was read")
            target.write(chunk)
            left -= len(chunk)
