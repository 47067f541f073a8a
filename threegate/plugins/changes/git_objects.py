"""Objects of git as bytes: their ids, the entries of a tree, and their form in a pack.

Source: git, Documentation/gitformat-pack and gitformat-index.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

Entry = tuple[bytes, str]
"""Mode and id of an entry of a tree."""

PACK_INDEX: Final = b"\xfftOc\0\0\0\2"
"""The beginning of a pack's index of version 2."""
_PACK_KINDS: Final = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}


def is_id(text: str) -> bool:
    """Whether a text is the id of an object."""
    return len(text) in (40, 64) and not set(text) - set("0123456789abcdef")


def object_id(algorithm: str, kind: bytes, data: bytes) -> str:
    """The id of an object."""
    made = hashlib.new(algorithm, b"%s %d\0" % (kind, len(data)))
    made.update(data)
    return made.hexdigest()


def tree_entries(data: bytes, raw: int) -> dict[bytes, Entry]:
    """The entries of a tree by name; `raw` is the size of an id in it. Raises ValueError for other bytes."""
    found: dict[bytes, Entry] = {}
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, name = data[at:end].split(b" ", 1)
        at = end + 1 + raw
        if b"/" in name or name in (b"", b".", b".."):
            raise ValueError("a tree has an invalid name")
        found[name] = mode, data[end + 1 : at].hex()
    return found


def pack_head(count: int) -> bytes:
    """The first bytes of a pack with so many objects."""
    return b"PACK" + (2).to_bytes(4, "big") + count.to_bytes(4, "big")


def packed(kind: bytes, body: bytes) -> bytes:
    """An object as a pack has it."""
    size = len(body)
    head = [_PACK_KINDS[kind] << 4 | size & 15]
    size >>= 4
    while size:
        head[-1] |= 128
        head.append(size & 127)
        size >>= 7
    return bytes(head) + zlib.compress(body, 1)
