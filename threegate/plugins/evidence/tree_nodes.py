"""Inclusion proofs for chosen leaves of a long tree, in constant memory: the nodes of each level are in a
file.

Invariant: `path` returns the audit path that RFC 6962, 2.1.1, defines for the leaves that were added. A
complete subtree is one read; an incomplete one (the right edge) is composed of complete ones, following the
RFC's recursion.
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO

from threegate.trail.tree import leaf_hash, node_hash

_NODE = 32
"""Bytes of a hash."""


class TreeNodes:
    """A growing tree whose complete subtrees can be asked for. About 64 bytes a leaf, on the disk of TMPDIR."""

    def __init__(self) -> None:
        self.size = 0
        self._levels: list[BinaryIO] = []
        self._last: list[bytes] = []

    def __enter__(self) -> TreeNodes:
        return self

    def __exit__(self, *error: object) -> None:
        for level in self._levels:
            level.close()

    def add(self, line: bytes) -> None:
        """Append a leaf. Raises OSError."""
        node, before, level = leaf_hash(line), self.size, 0
        self.size += 1
        while True:
            if level == len(self._levels):
                self._levels.append(tempfile.TemporaryFile())  # noqa: SIM115 - closed by __exit__
                self._last.append(b"")
            self._levels[level].write(node)
            if not before & 1:
                self._last[level] = node
                return
            node = node_hash(self._last[level], node)
            before >>= 1
            level += 1

    def path(self, index: int, size: int) -> list[bytes]:
        """PATH(index, D[size]): the audit path of a leaf, lowest first. Raises IndexError, OSError."""
        if not 0 <= index < size <= self.size:
            raise IndexError(f"leaf {index} is not in a tree of {size}")
        # `pread` does not see what is still in a file object's buffer.
        for level in self._levels:
            level.flush()
        path, start, end = [], 0, size
        while end - start > 1:
            middle = start + (1 << ((end - start - 1).bit_length() - 1))
            if index < middle:
                path.append(self._root(middle, end))
                end = middle
            else:
                path.append(self._root(start, middle))
                start = middle
        return path[::-1]

    def root(self) -> bytes:
        """MTH of all leaves so far, of which there is one at least. Raises OSError."""
        for level in self._levels:
            level.flush()
        return self._root(0, self.size)

    def _root(self, start: int, end: int) -> bytes:
        """MTH(D[start:end]) of a range that begins where a subtree of its size does."""
        width = end - start
        level = width.bit_length() - 1
        if width == 1 << level:
            return os.pread(self._levels[level].fileno(), _NODE, (start >> level) * _NODE)
        middle = start + (1 << level)
        return node_hash(self._root(start, middle), self._root(middle, end))
