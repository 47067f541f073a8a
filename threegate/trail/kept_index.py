"""The index of a long trail, stored outside the workspace next to the key and signed with it, so that only
the rest is read.

Invariant: nothing in the file is trusted before the signature over all of its bytes by the workspace's own
key was verified, and exactly those bytes are used. Anyone who could forge it has the key, and could forge the
trail as well. It contains what was derived from lines that were verified then; a line that is fetched later
must have the hash stored here.

Layout: a magic line; eight bytes of length and a JSON header; for each event 40 bytes (position in the trail,
hash); a sorted table of keys and values (``r`` request, ``n`` nonce, ``v`` mark of a void approval, ``f`` file name);
an Ed25519 signature over the BLAKE2b-256.

Reading a long trail continues after the last line of such an index only if it was made with the same plugins, its
closed segments exist with their sizes, and its last line is, byte for byte, where it was; in every other case the trail
is read from its first line. The lines before are not read again: `threegate audit verify` reads all of them.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import stat
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from threegate.core import durable, limits
from threegate.core.errors import TrailError, Unavailable
from threegate.core.user_state import UserState
from threegate.trail.chain import WORKSPACE_ID, open_segment
from threegate.trail.event import Event, LineError, parse_line, plugin_kinds
from threegate.trail.workspace_key import SigningKey, VerifierKey, load_key

MAGIC: Final = b"threegate-index/3\n"
"""Earlier versions did not know which approvals are void, or which kinds of events are not known: a file of theirs is
not used, and the trail is read again.
"""
_LENGTH = struct.Struct(">Q")
ROW: Final = struct.Struct(">Q32s")
_SIGNED = b"threegate index 1\n"
_SIGNATURE = 64
_BLOCK: Final = limits.MIB


class KeptIndex:
    """A verified file: the header, the rows by event number, the table by key."""

    def __init__(self, data: bytes) -> None:
        at = len(MAGIC)
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        self.header: dict[str, Any] = orjson.loads(data[at : at + length])
        self.seq: int = self.header["seq"]
        self._data = data
        self._rows = at + length
        self._table = self._rows + self.seq * ROW.size
        (self._count,) = _LENGTH.unpack_from(data, self._table)
        self._entries = self._table + _LENGTH.size * (self._count + 2)

    def row(self, seq: int) -> tuple[int, str]:
        """Position in the trail and hash of an event, 1 to `seq`."""
        position, digest = ROW.unpack_from(self._data, self._rows + (seq - 1) * ROW.size)
        return position, digest.hex()

    def row_blocks(self) -> Iterator[bytes]:
        """All rows, as they are kept."""
        yield self._data[self._rows : self._table]

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            found, value = self._entry(middle)
            if found == key:
                return value
            if found < key:
                low = middle + 1
            else:
                high = middle
        return None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values, in order."""
        return map(self._entry, range(self._count))

    def _entry(self, number: int) -> tuple[bytes, bytes]:
        start, end = struct.unpack_from(">QQ", self._data, self._table + _LENGTH.size * (number + 1))
        key, _, value = self._data[self._entries + start : self._entries + end].partition(b"\0")
        return key, value


def place(workspace_id: str) -> Path:
    """The path of a workspace's kept index."""
    return UserState.of(workspace_id).folder / "index"


def read_kept_index(workspace_id: str, key: VerifierKey | None = None) -> KeptIndex | None:
    """The kept index of a workspace; None when there is none, or none that its key signed in this version's form.

    Without `key` it is read too, if there is an index. Raises Unavailable if that cannot be done.
    """
    try:
        data = durable.read_regular(place(workspace_id), max_bytes=limits.TRAIL_INDEX_BYTES)
    except OSError:
        return None
    body = memoryview(data)[:-_SIGNATURE]
    key = key or load_key(workspace_id).public
    if not data.startswith(MAGIC) or not key.verify(data[-_SIGNATURE:], _to_sign(body)):
        return None
    kept = KeptIndex(data)
    return kept if kept.header["workspace_id"] == workspace_id else None


def write_kept_index(
    key: SigningKey,
    header: Mapping[str, Any],
    rows: Iterable[bytes],
    before: Callable[[], Iterable[tuple[bytes, bytes]]],
    after: Mapping[bytes, bytes],
) -> None:
    """Sign and keep an index, piece by piece: the table is `before` (sorted) with `after` over it; an empty value takes
    a key away. Raises OSError.
    """
    overwritten = sorted(after.items())

    def entries() -> Iterator[bytes]:
        layers = heapq.merge(
            ((item, 1, value) for item, value in before()),
            ((item, 0, value) for item, value in overwritten),
            key=itemgetter(0, 1),
        )
        for item, values in groupby(layers, itemgetter(0)):
            value = next(values)[2]
            if value:
                yield item + b"\0" + value

    def pieces() -> Iterator[bytes]:
        head = orjson.dumps(header)
        yield b"".join((MAGIC, _LENGTH.pack(len(head)), head))
        yield from rows
        ends = array("Q", [0])
        for entry in entries():
            ends.append(ends[-1] + len(entry))
        count = len(ends) - 1
        if sys.byteorder == "little":
            ends.byteswap()
        yield _LENGTH.pack(count) + ends.tobytes()
        yield from entries()

    durable.overwrite(place(header["workspace_id"]), _signed(key, pieces()), 0o600)


def _signed(key: SigningKey, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces in blocks, then the signature over all of them."""
    digest = hashlib.blake2b(digest_size=32)
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= _BLOCK:
            digest.update(block)
            yield bytes(block)
            block.clear()
    digest.update(block)
    yield bytes(block) + key.sign(_SIGNED + digest.digest())


def _to_sign(body: bytes | memoryview) -> bytes:
    """What is signed; a checkpoint's text cannot begin so, for an origin has no blank."""
    return _SIGNED + hashlib.blake2b(body, digest_size=32).digest()


class Resumed(NamedTuple):
    """A kept index that fits, its last event, and where that event's line ends."""

    kept: KeptIndex
    event: Event
    segments: int
    """How many closed segments are completely before it."""
    offset: int
    """Where the next line starts, in the file after those."""


def resume(paths: list[Path], current: Path) -> Resumed | None:
    """The place to read on from; None: from the beginning. `paths` are the closed segments, oldest first."""
    try:
        first = parse_line(line_at(paths[0] if paths else current, 0))
        if not WORKSPACE_ID.fullmatch(first.prev):
            return None
        kept = read_kept_index(first.prev)
        if kept is None or kept.row(1)[1] != first.hash or kept.header["kinds"] != sorted(plugin_kinds()):
            return None  # where a plugin came or went, the same events say something else
        named = [(str(name), int(size)) for name, size in kept.header["segments"]]
        if named != [_shape(path) for path in paths[: len(named)]]:
            return None
        position, digest = kept.row(kept.seq)
        start = position - sum(size for _, size in named)
        event = parse_line(line_at([*paths, current][len(named)], start))
    except (OSError, LineError, TrailError, Unavailable):
        return None
    if (event.seq, event.hash) != (kept.seq, digest):
        return None
    return Resumed(kept, event, len(named), start + len(event.line) + 1)


def line_at(path: Path, offset: int, descriptor: int | None = None) -> bytes:
    """The line that starts at a byte of a file, without its newline. Raises OSError, TrailError."""
    opened = open_segment(path) if descriptor is None else descriptor
    try:
        data = os.pread(opened, 4096, offset)
        if b"\n" not in data:
            data = os.pread(opened, limits.TRAIL_LINE_BYTES + 1, offset)
    finally:
        if descriptor is None:
            os.close(opened)
    return data.partition(b"\n")[0]


def _shape(path: Path) -> tuple[str, int]:
    """Name and size of a closed segment. Raises OSError when it is none."""
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(f"{path}: is no regular file")
    return path.name, facts.st_size
