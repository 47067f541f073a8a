"""The chain: each line names the hash of the one before; and the files that the lines stand in.

Invariant: `Chain` gives out an event only if it is the next one of everything that it gave out before. The
trail is the closed segments ``trail-<last seq>.jsonl`` in order, then ``trail.jsonl``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from threegate import limits
from threegate.audit.event import Event, LineError, parse_line
from threegate.errors import TrailError

WORKSPACE_ID = re.compile(r"ws-[0-9a-f]{32}")
SEGMENT = re.compile(r"trail-([0-9]{12})\.jsonl")
CURRENT: Final = "trail.jsonl"
_CHUNK = 1 << 20


class ChainError(LineError):
    """The line is an event, but not the next one."""


class Chain:
    """Where the trail stands after the lines that were taken: sequence number, hash, time, type."""

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

    def follow(self, event: Event) -> None:
        """Stand after `event` without a check: it is our own, or it is where verification goes on after a problem."""
        self.seq, self.time, self.type, _, _, _, _, self.hash, self.line = event


@dataclass(frozen=True, slots=True)
class RawLine:
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
        chunk = os.pread(descriptor, min(_CHUNK, end - position), position)
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
        raise TrailError(f"{folder}: cannot be read ({error.strerror}); mend the folder") from None
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
        raise TrailError(f"{path}: cannot be opened ({error.strerror}); nothing is started") from None
    status = os.fstat(descriptor)
    if status.st_mode & 0o170000 != 0o100000 or status.st_nlink != 1:
        os.close(descriptor)
        raise TrailError(f"{path}: is no regular file with one link; look who put it there")
    return descriptor
