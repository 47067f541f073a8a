"""The entries of a git index, read from its bytes.

Invariant: git does not run. What is not understood raises ValueError, and nothing is assumed for its sake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

_HEAD_BYTES: Final = 12
_FACTS_BYTES: Final = 40
_MTIME, _INODE, _MODE, _SIZE = 8, 20, 24, 36
"""Where these are in the facts of an entry, each with four bytes."""
_32_BITS: Final = 0xFFFFFFFF
_SUBMODULE: Final = 0o160000
_EXTENDED, _SKIPPED, _NAME_BITS, _LONG_NAME = 0x4000, 0x4000, 0xFFF, 0xFFF


class IndexEntry(NamedTuple):
    """One entry, with what `lstat` returned for its file when git last looked: seconds, and the lowest 32 bits."""

    path: bytes
    mtime: int
    inode: int
    size: int
    is_here: bool
    """Whether it is a file that should be in the checkout: no submodule, and nothing that a sparse checkout skips."""
    oid: str

    def is_of(self, mtime: int, inode: int, size: int) -> bool:
        """Whether the file was this one when git last looked."""
        return (self.mtime, self.inode, self.size) == (mtime & _32_BITS, inode & _32_BITS, size & _32_BITS)


def read_index(data: bytes) -> Iterator[IndexEntry]:
    """The entries of an index (git, Documentation/gitformat-index). Raises ValueError, IndexError."""
    version, count = _number(data, 4), _number(data, 8)
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    # The file ends with its own digest, which shows the algorithm of all ids in it.
    digest = 32 if hashlib.sha256(data[:-32]).digest() == data[-32:] else 20
    at, path = _HEAD_BYTES, b""
    for _ in range(count):
        begin = at
        at += _FACTS_BYTES + digest
        flags = int.from_bytes(data[at : at + 2], "big")
        more = int.from_bytes(data[at + 2 : at + 4], "big") if flags & _EXTENDED else 0
        at += 4 if flags & _EXTENDED else 2
        kept = b""
        if version == 4:
            cut, at = _offset(data, at)
            if cut > len(path):
                raise ValueError(cut)
            kept = path[: len(path) - cut]
        end = data.index(b"\0", at)
        path = kept + data[at:end]
        if flags & _NAME_BITS != min(len(path), _LONG_NAME):
            raise ValueError(path)
        mtime, inode, mode, size = (_number(data, begin + place) for place in (_MTIME, _INODE, _MODE, _SIZE))
        oid = data[begin + _FACTS_BYTES : begin + _FACTS_BYTES + digest].hex()
        yield IndexEntry(path, mtime, inode, size, mode != _SUBMODULE and not more & _SKIPPED, oid)
        # Before version 4 an entry is padded to a multiple of eight bytes, with one NUL at least.
        at = end + 1 if version == 4 else end + 8 - (end - begin) % 8


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number in the encoding of offsets of packs, and where it ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    return value, at + 1
