"""What a run wrote to stdout and stderr: the beginning is kept, all of it is counted and hashed.

Invariant: memory stays below STREAM_KEPT_BYTES per stream, whatever a run writes.
"""

from __future__ import annotations

import hashlib

from threegate.core import limits
from threegate.runners.interface import Outcome, Stream


class StreamMeter:
    """Counts and hashes one stream and keeps its first STREAM_KEPT_BYTES."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self.tail = b""
        """The last LIVE_TAIL_BYTES."""
        self.size = 0
        """Bytes written so far."""

    def write(self, data: bytes) -> None:
        """Process the next bytes of the stream."""
        room = limits.STREAM_KEPT_BYTES - len(self._kept)
        if room > 0:
            self._kept += data[:room]
        self._hash.update(data)
        self.tail = (self.tail + data[-limits.LIVE_TAIL_BYTES :])[-limits.LIVE_TAIL_BYTES :]
        self.size += len(data)

    def result(self) -> Stream:
        """The stream in the form used in an Outcome."""
        return Stream(bytes(self._kept), self.size, self._hash.hexdigest())


EMPTY = StreamMeter().result()
"""A stream to which nothing was written."""


def nothing_ran(reason: str) -> Outcome:
    """The outcome of a run of which not one instruction ran."""
    return Outcome("unavailable", reason, EMPTY, EMPTY)
