"""Which paths the index of a project's repository names, read from its bytes.

Invariant: git does not run. The index is read below a held folder and through no link, as in `git_history`. What is not
understood is not tracked, so that nothing is shown for its sake.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from threegate.agents.git_history import NoHistory, Repository
from threegate.core import durable, limits
from threegate.core.held_folder import hold_path, open_inside

_HEAD_BYTES: Final = 12
_FACTS_BYTES: Final = 40
_EXTENDED, _NAME_BITS, _LONG_NAME = 0x4000, 0xFFF, 0xFFF


def tracked_paths(root: Path) -> frozenset[str]:
    """The paths in the index of a checkout; none where there is no index that can be read."""
    try:
        own = Repository.of(root).own
        with hold_path(own) as held:
            descriptor = open_inside(held.fileno(), "index")
        try:
            data = durable.read_regular_fd(descriptor, own / "index", max_bytes=limits.SNAPSHOT_BYTES)
        finally:
            os.close(descriptor)
        return frozenset(map(os.fsdecode, _names(data)))
    except (NoHistory, OSError, ValueError, IndexError):
        return frozenset()


def _names(data: bytes) -> list[bytes]:
    """The name of each entry (git, Documentation/gitformat-index). Raises ValueError, IndexError."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:_HEAD_BYTES], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    digest = 32 if hashlib.sha256(data[:-32]).digest() == data[-32:] else 20
    at, found, before = _HEAD_BYTES, [], b""
    for _ in range(count):
        begin = at
        at += _FACTS_BYTES + digest
        flags = int.from_bytes(data[at : at + 2], "big")
        at += 4 if flags & _EXTENDED else 2
        if version == 4:
            cut, at = _offset(data, at)
            if cut > len(before):
                raise ValueError(cut)
            kept = before[: len(before) - cut]
        else:
            kept = b""
        end = data.index(b"\0", at)
        before = kept + data[at:end]
        if flags & _NAME_BITS != min(len(before), _LONG_NAME):
            raise ValueError(before)
        found.append(before)
        at = end + 1 if version == 4 else end + 8 - (end - begin) % 8
    return found


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number in the encoding of offsets of packs, and where it ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    return value, at + 1
