"""The objects in the repository of a copy, loose and packed, read without git.

Invariant: git never reads the copy, in which an agent may have put anything. Everything is opened below a held
descriptor and through no link, while the agent is frozen or gone. Sizes, numbers, lengths of chains and all bytes
together are bounded, and an object that is returned has the bytes of its id. Source: git,
Documentation/gitformat-pack.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.core.held_folder import HeldFolder, open_inside
from threegate.plugins.agents.held_paths import FOLDER, read_inside
from threegate.plugins.changes.git_objects import PACK_INDEX, is_id, object_id

_FAN: Final = struct.Struct(">256I")
"""For each first byte of an id, how many objects have one up to it."""
_KINDS: Final = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_BY_OFFSET, _BY_ID = 6, 7
_LOOSE_MORE: Final = 1 << 16
"""Bytes that a loose object may take on the disk beyond its size, its head included."""
_HEAD: Final = 64
"""Bytes that the head of a packed object takes at most, with the id or the offset of what it builds on."""
_PIECE: Final = 1 << 16
_WIDE: Final = 1 << 31
"""In an index, the bit of an offset that is in the table of 8-byte ones."""
_FARTHEST: Final = 1 << 62
"""No file is so long, and the system refuses offsets from double of this on."""


class Commit(NamedTuple):
    """A commit as its object has it."""

    tree: str
    parents: tuple[str, ...]
    message: str

    @classmethod
    def of(cls, data: bytes) -> Commit:
        """The commit in the bytes of an object; what is not one has odd parts."""
        head, _, message = data.partition(b"\n\n")
        lines = head.decode("ascii", "replace").split("\n")
        parents = tuple(line.removeprefix("parent ") for line in lines if line.startswith("parent "))
        return cls(lines[0].removeprefix("tree "), parents, message.decode("utf-8", "replace"))


class _Malformed(Exception):
    """A pack or an index that cannot be read."""


class CopyObjects:
    """The objects of a copy's own repository; `top` is the held folder of the copy."""

    def __init__(self, top: HeldFolder) -> None:
        self._top = top
        self._held = ExitStack()
        self._packs: list[_Pack] | None = None
        self._left = limits.COPY_OBJECTS_BYTES

    def __enter__(self) -> CopyObjects:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def read(self, oid: str, kind: bytes, most: int) -> bytes | None:
        """The bytes of an object of a kind, at most `most`; None if there is none, or it cannot be read."""
        if not is_id(oid):
            return None
        data = self._loose(oid, kind, most)
        if data is None:
            data = self._packed(oid, kind, most)
        # The agent may have written anything under any name.
        algorithm = "sha1" if len(oid) == 40 else "sha256"
        return data if data is not None and object_id(algorithm, kind, data) == oid else None

    def _loose(self, oid: str, kind: bytes, most: int) -> bytes | None:
        with suppress(OSError, zlib.error, _Malformed):
            packed = read_inside(self._top, f".git/objects/{oid[:2]}/{oid[2:]}", max_bytes=most + _LOOSE_MORE)
            unpacking = zlib.decompressobj()
            head, _, body = unpacking.decompress(packed, most + _LOOSE_MORE).partition(b"\0")
            self._spend(len(body))
            if head.startswith(kind + b" ") and unpacking.eof and len(body) <= most:
                return body
        return None

    def _packed(self, oid: str, kind: bytes, most: int) -> bytes | None:
        if self._packs is None:
            self._packs = list(self._opened(len(oid) // 2))
        for pack in self._packs:
            with suppress(OSError, zlib.error, _Malformed):
                place = pack.place(bytes.fromhex(oid))
                if place is not None:
                    found, data = pack.read(place, self._spend)
                    if found == kind and len(data) <= most:
                        return data
        return None

    def _spend(self, size: int) -> None:
        """Count bytes that were unpacked: a small pack may hold very much. Raises _Malformed."""
        self._left -= size  # never given back: what does not fit once is not read at all
        if self._left < 0:
            raise _Malformed

    def _opened(self, raw: int) -> Iterator[_Pack]:
        """The packs, the first PACKS_READ of them by name, with ids of so many bytes."""
        names: list[str] = []
        with suppress(OSError):
            folder = open_inside(self._top.fileno(), ".git/objects/pack", FOLDER)
            self._held.callback(os.close, folder)
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries):
                    if number >= limits.AGENT_INBOX_ENTRIES:
                        break
                    if entry.name.endswith(".idx"):
                        names.append(entry.name.removesuffix(".idx"))
            for name in sorted(names)[: limits.PACKS_READ]:
                with suppress(OSError, _Malformed):
                    yield _Pack(self._open(folder, f"{name}.idx"), self._open(folder, f"{name}.pack"), raw)

    def _open(self, folder: int, name: str) -> int:
        descriptor = open_inside(folder, name)
        self._held.callback(os.close, descriptor)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _Malformed
        return descriptor


class _Pack:
    """A pack by its index of version 2; `raw` is the size of an id in it. The descriptors stay the caller's to close.
    Raises _Malformed, OSError.
    """

    def __init__(self, index: int, pack: int, raw: int) -> None:
        self._index, self._pack, self._raw = index, pack, raw
        self._ids = len(PACK_INDEX) + _FAN.size
        head = os.pread(index, self._ids, 0)
        if not head.startswith(PACK_INDEX) or len(head) != self._ids:
            raise _Malformed
        self._fan = _FAN.unpack_from(head, len(PACK_INDEX))

    def place(self, oid: bytes) -> int | None:
        """Where an object is in the pack; None if it is not in it."""
        if len(oid) != self._raw:  # cut off, or an id of another algorithm
            return None
        low, high, count = (self._fan[oid[0] - 1] if oid[0] else 0), self._fan[oid[0]], self._fan[-1]
        while low < high:
            middle = (low + high) // 2
            found = os.pread(self._index, self._raw, self._ids + middle * self._raw)
            if found == oid:
                offsets = self._ids + count * (self._raw + 4)
                offset = self._number(offsets + middle * 4, 4)
                if offset & _WIDE:
                    offset = self._number(offsets + count * 4 + (offset ^ _WIDE) * 8, 8)
                return offset
            low, high = (middle + 1, high) if found < oid else (low, middle)
        return None

    def _number(self, at: int, size: int) -> int:
        data = os.pread(self._index, size, at)
        number = int.from_bytes(data, "big")
        if len(data) != size or number >= _FARTHEST:
            raise _Malformed
        return number

    def read(self, place: int, spend: Callable[[int], None]) -> tuple[bytes, bytes]:
        """Kind and bytes of the object at a place, built from the deltas that it is stored as."""
        deltas: list[tuple[int, int]] = []
        while True:
            kind, size, base, at = self._head(place)
            if size > limits.AGENT_GIT_OBJECT_BYTES:
                raise _Malformed
            if base is None:
                break
            deltas.append((at, size))
            if len(deltas) > limits.PACK_DELTAS:
                raise _Malformed
            place = base
        if kind not in _KINDS:
            raise _Malformed
        data = self._inflated(at, size, spend)
        for at, size in reversed(deltas):
            data = _changed(data, self._inflated(at, size, spend), spend)
        return _KINDS[kind], data

    def _head(self, place: int) -> tuple[int, int, int | None, int]:
        """Kind and size of what is stored at a place, the place of what it builds on, and where its bytes begin."""
        head = os.pread(self._pack, _HEAD, place)
        try:
            at, first = 1, head[0]
            kind, size, shift = first >> 4 & 7, first & 15, 4
            while head[at - 1] & 128:
                size |= (head[at] & 127) << shift
                shift += 7
                at += 1
            if kind == _BY_OFFSET:
                back = head[at] & 127
                at += 1
                while head[at - 1] & 128:
                    back = (back + 1) << 7 | head[at] & 127
                    at += 1
                if not 0 < back < place:  # so a chain of deltas has no circle
                    raise _Malformed
                return kind, size, place - back, place + at
            if kind == _BY_ID:
                base = self.place(head[at : at + self._raw])
                if base is None:
                    raise _Malformed
                return kind, size, base, place + at + self._raw
        except IndexError:
            raise _Malformed from None
        return kind, size, None, place + at

    def _inflated(self, at: int, size: int, spend: Callable[[int], None]) -> bytes:
        spend(size)
        unpacking = zlib.decompressobj()
        found = bytearray()
        while not unpacking.eof:
            piece = unpacking.unconsumed_tail or os.pread(self._pack, _PIECE, at)
            if not unpacking.unconsumed_tail:
                at += len(piece)
            more = unpacking.decompress(piece, size + 1 - len(found))
            found += more
            if len(found) > size or (not piece and not more):
                raise _Malformed
        if len(found) != size:
            raise _Malformed
        return bytes(found)


def _changed(base: bytes, delta: bytes, spend: Callable[[int], None]) -> bytes:
    """What a delta makes of the bytes that it builds on. Raises _Malformed."""
    try:
        was, at = _length(delta, 0)
        becomes, at = _length(delta, at)
        if was != len(base) or becomes > limits.AGENT_GIT_OBJECT_BYTES:
            raise _Malformed
        spend(becomes)
        found = bytearray()
        while at < len(delta):
            order = delta[at]
            at += 1
            if order & 128:
                start = size = 0
                for bit in range(4):
                    if order & 1 << bit:
                        start |= delta[at] << 8 * bit
                        at += 1
                for bit in range(3):
                    if order & 16 << bit:
                        size |= delta[at] << 8 * bit
                        at += 1
                size = size or 0x10000  # as the format defines a size of zero
                if start + size > len(base):
                    raise _Malformed
                found += base[start : start + size]
            elif order:
                found += delta[at : at + order]
                at += order
            else:
                raise _Malformed
            if len(found) > becomes:
                raise _Malformed
    except IndexError:
        raise _Malformed from None
    if len(found) != becomes:
        raise _Malformed
    return bytes(found)


def _length(delta: bytes, at: int) -> tuple[int, int]:
    """A length at the start of a delta, and where the next one begins."""
    value = shift = 0
    while True:
        value |= (delta[at] & 127) << shift
        shift += 7
        at += 1
        if not delta[at - 1] & 128:
            return value, at
