"""The chain: each line contains the hash of the one before; and the files with the lines.

Invariant: `Chain` returns an event only if it is the next one after everything it returned before. The trail
is the closed segments ``trail-<last seq>.jsonl`` in order, then ``trail.jsonl``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from threegate.core import limits
from threegate.core.errors import TrailError
from threegate.trail.event import Event, LineError, parse_line
from threegate.trail.tree import leaf_hash

WORKSPACE_ID = re.compile(r"ws-[0-9a-f]{32}")
SEGMENT = re.compile(r"trail-([0-9]{12})\.jsonl")
CHUNK = 1 << 20
"""Bytes of the trail that are read at once."""
MARKING: Final = frozenset(("workspace_created", "workspace_adopted", "checkpoint", "rotated"))
"""Types that say something about the trail itself; who verifies looks at each of them."""
_LEAVES: Final = 10_000
"""Leaf hashes that are given at once."""


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
        """The next event. Raises LineError (the line is not an event) or ChainError (it is another one's successor)."""
        event = parse_line(line)
        if self.seq == 0:
            if event.type != "workspace_created" or event.seq != 1:
                raise ChainError("is not the beginning of a trail (workspace_created, seq 1)")
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
    # Whoever has another name of the file could change it under that name.
    if status.st_mode & 0o170000 != 0o100000 or status.st_nlink != 1:
        os.close(descriptor)
        raise TrailError(f"{path}: is not a regular file with one link; find out who put it there")
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
            leaves = (leaf_hash(raw.data) for raw in read_lines(descriptor, 0, size) if raw.whole)
            while block := list(islice(leaves, _LEAVES)):
                yield block
    finally:
        for _, descriptor, _ in parts:
            os.close(descriptor)
