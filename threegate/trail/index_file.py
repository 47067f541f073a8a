"""The index of a long trail on disk, in sqlite beside the workspace's key, so that only what came since is read.

Invariant: it has only what was derived from verified lines that are on disk, and all of one save or nothing of it. It
is believed as the key beside it is: who can write there can sign (docs/adr/0014-index.md). What it has about a request
is fetched from the trail by position and must have the hash in here; what it has not rests on it.

It is read and written under the trail's lock, so nobody waits for a writer, and a rollback journal does. With a
write-ahead log, the last process that closes a file that was replaced meanwhile removes the log of the new one.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import orjson

from threegate.core.errors import TrailError

_FORM: Final = 2
"""Version of the tables and the header; a file of another one is not used."""
_TABLES: Final = f"""
    CREATE TABLE event (seq INTEGER PRIMARY KEY, position INTEGER NOT NULL, hash BLOB NOT NULL);
    CREATE TABLE entry (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = {_FORM};
"""
_HEADER: Final = b"h"


class IndexFile:
    """The header (a JSON object), position and hash of each event, and a table of keys and values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The daemon's threads share it; this sqlite is built for that (threadsafety 3).
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    @classmethod
    def open(cls, path: Path) -> tuple[Self, dict[str, Any]] | None:
        """The file and its header; None when there is no such file of this form."""
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return None
            file = cls(path)
        except (OSError, sqlite3.Error):
            return None
        with suppress(TrailError, orjson.JSONDecodeError):
            if file._rows("PRAGMA user_version") == [(_FORM,)]:
                return file, orjson.loads(file.get(_HEADER) or b"")
        file.close()
        return None

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new one in the place of whatever is there. Raises OSError, sqlite3.Error."""
        # The file before its journal: a file whose journal is gone would keep half of a save.
        for old in (path, path.with_name(f"{path.name}-journal")):
            with suppress(FileNotFoundError):
                old.unlink()
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        file = cls(path)
        file._connection.executescript(_TABLES)
        return file

    def close(self) -> None:
        """Give the descriptor back."""
        self._connection.close()

    def save(
        self, header: Mapping[str, Any], rows: Iterable[tuple[int, int, bytes]], table: Mapping[bytes, bytes]
    ) -> None:
        """Take the header as it is now, the rows of the new events (number, position, hash), and keys and values; an
        empty value removes a key. Raises sqlite3.Error, with the file as it was before.
        """
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO event VALUES (?, ?, ?)", rows)
            connection.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", table.items())
            connection.executemany("DELETE FROM entry WHERE key = ?", ((key,) for key in table if not table[key]))
            connection.execute("INSERT OR REPLACE INTO entry VALUES (?, ?)", (_HEADER, orjson.dumps(header)))

    def row(self, seq: int) -> tuple[int, str]:
        """Position in the trail and hash of an event that is in here. Raises TrailError."""
        rows = self._rows("SELECT position, hash FROM event WHERE seq = ?", seq)
        if not rows:
            raise TrailError(f"{self.path}: has no event {seq}; remove it: it is rebuilt from the trail")
        return rows[0][0], rows[0][1].hex()

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None. Raises TrailError."""
        rows = self._rows("SELECT value FROM entry WHERE key = ?", key)
        return rows[0][0] if rows else None

    def keys(self, after: bytes, before: bytes) -> list[bytes]:
        """The keys between two, in order. Raises TrailError."""
        rows = self._rows("SELECT key FROM entry WHERE key > ? AND key < ? ORDER BY key", after, before)
        return [key for (key,) in rows]

    def _rows(self, statement: str, *values: int | bytes) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise TrailError(
                f"{self.path}: cannot be read ({error}); remove it: it is rebuilt from the trail"
            ) from None
