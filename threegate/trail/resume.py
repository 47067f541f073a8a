"""Where reading a long trail may continue: after the last line of an index that this workspace's key signed.

Invariant: reading continues only from a kept index whose signature verifies, that was made with the same plugins, whose
closed segments exist with their sizes, and whose last line is, byte for byte, where it was; in every other case the
trail is read from its first line. The lines before are not read again: `threegate audit verify` reads all of them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from threegate.core import limits
from threegate.core.errors import TrailError, Unavailable
from threegate.trail.chain import WORKSPACE_ID, open_segment
from threegate.trail.event import Event, LineError, parse_line
from threegate.trail.kept_index import KeptIndex, read_kept_index
from threegate.trail.known_kinds import plugin_kinds
from threegate.trail.workspace_key import load_key


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
        kept = read_kept_index(first.prev, load_key(first.prev).public)
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
