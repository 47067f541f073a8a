"""The chain: each line contains the hash of the one before; and the files with the lines.

Invariant: `Chain` returns an event only if it is the next one after everything it returned before. The trail
is the closed segments ``trail-<last seq>.jsonl`` in order, then ``trail.jsonl``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from threegate.core import limits
from threegate.core.errors import TrailError
from threegate.trail.event import (
    HASH_MARK,
    HASH_PART,
    KEYS,
    KIND,
    TIME,
    VERSION,
    Event,
    LineError,
    check_values,
    parse_line,
)
from threegate.trail.payloads import PAYLOADS
from threegate.trail.tree import LEAF_PREFIX, leaf_hash

WORKSPACE_ID = re.compile(r"ws-[0-9a-f]{32}")
SEGMENT = re.compile(r"trail-([0-9]{12})\.jsonl")
CHUNK = 1 << 20
"""Bytes of the trail that are read at once."""
MARKING: Final = frozenset(("workspace_created", "workspace_adopted", "checkpoint", "rotated"))
"""Types that say something about the trail itself; who verifies looks at each of them."""
_PLAIN_TYPES = PAYLOADS.keys() - MARKING
_PLAIN_VALUES = frozenset((str, int, bool, type(None)))
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_fields = itemgetter("v", "seq", "time", "type", "request_id", "actor", "data", "prev", "hash")


class ChainError(LineError):
    """The line is an event, but not the next one."""


class Chain:
    """The position in the trail after the lines read so far: sequence number, hash, time, type."""

    __slots__ = ("hash", "line", "seq", "time", "type")

    def __init__(self) -> None:
        self.seq = 0
        self.hash = ""
        self.time = ""
        self.type = ""
        self.line = b""

    def take(self, line: bytes) -> Event:
        """The next event. Raises LineError (the line is no event) or ChainError (it is another one's successor)."""
        event = parse_line(line)
        if self.seq == 0:
            if event.type != "workspace_created" or event.seq != 1:
                raise ChainError("is no beginning of a trail (workspace_created, seq 1)")
            if not WORKSPACE_ID.fullmatch(event.prev):
                raise ChainError("does not name the workspace's id")
        elif event.seq != self.seq + 1:
            raise ChainError(f"has seq {event.seq} where {self.seq + 1} comes next")
        elif event.prev != self.hash:
            raise ChainError("does not name the hash of the line before")
        elif event.time < self.time:
            raise ChainError("is older than the line before")
        elif event.type == "workspace_created":
            raise ChainError("begins a trail within a trail")
        self.follow(event)
        return event

    def take_plain(self, lines: Sequence[bytes], start: int, end: int, on_event: Callable[[Event], None] | None) -> int:
        """Take ``lines[start:end]`` as long as each is the next event and of a plain type; returns where it stopped.

        The caller has checked that the lines are ASCII, no longer than a line may be, and have the hashes that they
        name. The same checks as `take`, without its words: what is wrong with the line where it stops, `take` says.
        """
        seq, prev, time, kind = self.seq, self.hash, self.time, self.type
        loads, dumps, fields, canonical, make = orjson.loads, orjson.dumps, _fields, _CANONICAL, tuple.__new__
        number = start
        for number in range(start, end):
            line = lines[number]
            try:
                value: Any = loads(line)
                version, seq_, time_, kind_, request_id, actor, data, prev_, hash_ = fields(value)
                if (
                    seq_ != seq + 1
                    or prev_ != prev
                    or time_ < time
                    or (kind_ not in _PLAIN_TYPES and (kind_ in MARKING or not KIND(kind_)))
                    or version != VERSION
                    or type(version) is not int
                    or type(seq_) is not int
                    or type(actor) is not str
                    or type(data) is not dict
                    or not (request_id is None or type(request_id) is str)
                    or len(value) != len(KEYS)
                    or not TIME(time_)
                    or dumps(value, None, canonical) != line
                ):
                    break
                if not _PLAIN_VALUES.issuperset(map(type, data.values())):
                    check_values(data)
            except (ValueError, TypeError, KeyError):
                break
            seq, prev, time, kind = seq_, hash_, time_, kind_
            if on_event is not None:
                on_event(make(Event, (seq_, time_, kind_, request_id, actor, data, prev_, hash_, line)))
        else:
            number = end
        if number > start:
            self.seq, self.hash, self.time, self.type, self.line = seq, prev, time, kind, lines[number - 1]
        return number

    def follow(self, event: Event) -> None:
        """Stand after `event` without a check: it is our own, or it is where verification goes on after a problem."""
        self.seq, self.time, self.type, _, _, _, _, self.hash, self.line = event


class RawLine(NamedTuple):
    """One line of a file: its bytes without the newline, where it starts, and whether a newline ends it."""

    data: bytes
    start: int
    whole: bool


def read_lines(descriptor: int, start: int, end: int) -> Iterator[RawLine]:
    """The lines of an open file from byte `start` to byte `end`, in constant memory. Raises OSError.

    A line that is longer than any event is given in one piece of at most that length and a bit more.
    """
    rest = b""
    at = start
    position = start
    while position < end:
        chunk = os.pread(descriptor, min(CHUNK, end - position), position)
        if not chunk:
            break
        position += len(chunk)
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield RawLine(line, at, True)
            at += len(line) + 1
        if len(rest) > limits.TRAIL_LINE_BYTES:
            yield RawLine(rest, at, False)
            return
    if rest:
        yield RawLine(rest, at, False)


def read_blocks(descriptor: int, end: int) -> Iterator[bytes]:
    """An open file up to byte `end` in blocks of whole lines, newlines included; only the last may lack its newline.

    It ends behind the first piece that is longer than any event. Raises OSError.
    """
    rest = b""
    position = 0
    while position < end:
        chunk = os.pread(descriptor, min(CHUNK, end - position), position)
        if not chunk:
            break
        position += len(chunk)
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
        if len(rest) > limits.TRAIL_LINE_BYTES:
            break
    if rest:
        yield rest


def leaf_hashes(block: bytes) -> list[bytes]:
    """The RFC 6962 leaf hashes, 32 bytes each, of a block's whole lines up to the first without the hash that it
    names.
    """
    sha256 = hashlib.sha256
    leaves: list[bytes] = []
    keep = leaves.append
    lines = block.split(b"\n")
    lines.pop()
    for line in lines:
        at = line.rfind(HASH_MARK)
        end = at + HASH_PART
        if at < 0 or sha256(line[:at] + line[end:]).hexdigest().encode() != line[end - 65 : end - 1]:
            break
        keep(sha256(LEAF_PREFIX + line).digest())
    return leaves


def segment_paths(folder: Path) -> list[Path]:
    """The closed segments, oldest first. Raises TrailError when the folder cannot be read."""
    try:
        names = sorted(name for name in os.listdir(folder) if SEGMENT.fullmatch(name))
    except OSError as error:
        raise TrailError(f"{folder}: cannot be read ({error.strerror}); fix the folder") from None
    return [folder / name for name in names]


def segment_path(folder: Path, last_seq: int) -> Path:
    """The name of the closed segment that ends with `last_seq`."""
    return folder / f"trail-{last_seq:012d}.jsonl"


def open_segment(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file of the trail: a regular file, no link. Raises TrailError, FileNotFoundError."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        whose = (
            f"; it belongs to uid {owner}, you are uid {os.geteuid()}" if (owner := _owner(path)) is not None else ""
        )
        raise TrailError(f"{path}: cannot be opened ({error.strerror}{whose}); nothing is started") from None
    status = os.fstat(descriptor)
    if status.st_mode & 0o170000 != 0o100000 or status.st_nlink != 1:
        os.close(descriptor)
        raise TrailError(f"{path}: is no regular file with one link; look who put it there")
    return descriptor


def _owner(path: Path) -> int | None:
    """Whose file it is, for a message; None when even that cannot be seen."""
    try:
        return path.lstat().st_uid
    except OSError:
        return None


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


Part = tuple[Path, int, int]
"""A file of the trail that is open: its path, its descriptor, and its size when it was opened."""


def open_parts(folder: Path, current: Path) -> list[Part]:
    """All files of the trail, opened; who reads them closes them. Raises TrailError."""
    parts: list[Part] = []
    for path in [*segment_paths(folder), current]:
        try:
            descriptor = open_segment(path)
        except FileNotFoundError:
            continue
        parts.append((path, descriptor, os.fstat(descriptor).st_size))
    return parts


def read_events(parts: list[Part]) -> Iterator[Event]:
    """All events in order, each verified, streaming; a last line without its end is left out. Closes the files. Raises
    TrailError.
    """
    chain = Chain()
    try:
        for path, descriptor, size in parts:
            for number, raw in enumerate(read_lines(descriptor, 0, size), start=1):
                if not raw.whole:
                    return
                try:
                    yield chain.take(raw.data)
                except LineError as error:
                    raise TrailError(f"{path}:{number}: the line {error}") from None
    finally:
        for _, descriptor, _ in parts:
            os.close(descriptor)


def leaf_blocks(parts: list[Part]) -> Iterator[list[bytes]]:
    """The leaf hashes of all whole lines, block by block; nothing is checked. Closes the files."""
    try:
        for _, descriptor, size in parts:
            for block in read_blocks(descriptor, size):
                yield [leaf_hash(line) for line in block.split(b"\n")[:-1]]
    finally:
        for _, descriptor, _ in parts:
            os.close(descriptor)
