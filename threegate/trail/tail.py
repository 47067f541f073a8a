"""Read the trail incrementally, without its lock and without writing, for code that only counts.

Invariant: every returned event was verified as the next one; an incomplete line waits for the next read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from threegate.core.errors import TrailError
from threegate.core.workspace import Workspace
from threegate.trail.chain import Chain, open_segment, read_lines, segment_path, segment_paths
from threegate.trail.event import Event, LineError


class TrailTail:
    """What was appended since the last look. For one thread."""

    def __init__(self, workspace: Workspace) -> None:
        self._folder = workspace.audit
        self._path = workspace.trail_file
        self._chain = Chain()
        self._descriptor: int | None = None
        self._offset = 0

    def __del__(self) -> None:
        """An object that is garbage-collected closes its descriptor."""
        self.close()

    def close(self) -> None:
        """Give the descriptor back; the next look begins where this one ended only if the file is the same."""
        descriptor, self._descriptor = getattr(self, "_descriptor", None), None
        if descriptor is not None:
            os.close(descriptor)

    def read_on(self) -> Iterator[Event]:
        """The events that came since; at the first look all of them. Raises TrailError when a line does not verify."""
        while True:
            if self._descriptor is None:
                for path in self._unread():
                    yield from self._whole(path)
                try:
                    self._descriptor = open_segment(self._path)
                except FileNotFoundError:
                    return  # between a rotation and the first event after it
                self._offset = 0
                if self._unread():  # rotated meanwhile: what is open has its closed name now, or comes after that
                    self.close()
                    continue
            yield from self._lines(self._descriptor)
            # The next file is empty until an event comes: only one that was read to its end is closed.
            closed = self._chain.type == "rotated" and self._offset > 0
            if not closed or not segment_path(self._folder, self._chain.seq).exists():
                return
            self.close()

    def _unread(self) -> list[Path]:
        """The closed segments behind the last event that was read."""
        last = segment_path(self._folder, self._chain.seq)
        return [path for path in segment_paths(self._folder) if path > last]

    def _whole(self, path: Path) -> Iterator[Event]:
        descriptor = open_segment(path)
        try:
            self._offset = 0
            yield from self._lines(descriptor)
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int) -> Iterator[Event]:
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            raise TrailError(f"{self._path}: became shorter; look at it: threegate audit verify")
        for raw in read_lines(descriptor, self._offset, size):
            if not raw.whole:
                return
            try:
                event = self._chain.take(raw.data)
            except LineError as error:
                raise TrailError(f"{self._path}: the line after seq {self._chain.seq} {error}") from None
            self._offset = raw.start + len(raw.data) + 1
            yield event
