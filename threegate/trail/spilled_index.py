"""The index of a long trail while it is read from its first line in bounded memory: what was learnt so far is on disk.

Invariant: it answers as a `KeptIndex` of the same events would. Its files have no name, are this process's alone, and
go with it, so that nobody else can have written what is read back.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Final

from threegate.core.errors import Unavailable
from threegate.trail.kept_index import ROW

_BLOCK: Final = ROW.size * 16_384


class SpilledIndex:
    """The header, the rows by event number, the table by key, as far as they were taken. Raises Unavailable without
    space.
    """

    def __init__(self) -> None:
        self.header: dict[str, Any] = {"open": []}
        self.seq = 0
        import sqlite3  # here: only who reads a long trail so pays for it

        self._error = sqlite3.Error
        try:
            self._rows = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it goes with this object
            self._table = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._table.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")
        except (OSError, self._error) as error:
            raise _no_space(error) from None

    def take(self, header: dict[str, Any], rows: bytes, table: Mapping[bytes, bytes]) -> None:
        """Take what came since: the header as it is now, the rows of the new events, keys and values; an empty value
        takes a key away.
        """
        try:
            view = memoryview(rows)
            while view:
                view = view[os.write(self._rows.fileno(), view) :]
            self._table.execute("BEGIN")
            self._table.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", table.items())
            gone = [(key,) for key, value in table.items() if not value]
            self._table.executemany("DELETE FROM entries WHERE key = ?", gone)
            self._table.execute("COMMIT")
        except (OSError, self._error) as error:
            raise _no_space(error) from None
        self.header, self.seq = header, header["seq"]

    def row(self, seq: int) -> tuple[int, str]:
        """Position in the trail and hash of an event, 1 to `seq`."""
        position, digest = ROW.unpack(os.pread(self._rows.fileno(), ROW.size, (seq - 1) * ROW.size))
        return position, digest.hex()

    def row_blocks(self) -> Iterator[bytes]:
        """All rows, in pieces."""
        for at in range(0, self.seq * ROW.size, _BLOCK):
            yield os.pread(self._rows.fileno(), _BLOCK, at)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        found = self._table.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values, in order."""
        return iter(self._table.execute("SELECT key, value FROM entries ORDER BY key"))


def _no_space(error: Exception) -> Unavailable:
    return Unavailable(
        f"{tempfile.gettempdir()}: cannot hold the index of this trail while it is read ({error}); make room, or set "
        "TMPDIR"
    )
