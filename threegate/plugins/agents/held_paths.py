"""Paths below a folder that is held open, in which an agent or a project's writer may have put anything.

Invariant: no link is followed on the way, and no mount is entered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from threegate.core import durable
from threegate.core.held_folder import HeldFolder, open_inside

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder and nothing else."""


@contextmanager
def opened(folder: int, path: str) -> Iterator[int]:
    """A descriptor of a folder below an open one, closed after the block. Raises OSError."""
    descriptor = open_inside(folder, path or ".", FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def parent_of(folder: int, path: str) -> Iterator[tuple[int, str]]:
    """The folder that a path is in, opened below another one, and the last part of the path. Raises OSError."""
    above, _, name = path.rpartition("/")
    with opened(folder, above) as descriptor:
        yield descriptor, name


def read_inside(folder: HeldFolder, path: str, *, max_bytes: int) -> bytes:
    """The bytes of a regular file below a held folder, read once. Raises OSError."""
    descriptor = open_inside(folder.fileno(), path)
    try:
        return durable.read_regular_fd(descriptor, folder.path / path, max_bytes=max_bytes)
    finally:
        os.close(descriptor)
