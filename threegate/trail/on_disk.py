"""The trail's files: read on, set a torn end aside, write.

Invariant: only verified next lines enter the index; only bytes of events that the index already has are
written. Everything here is called under the exclusive lock, by `Trail`.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve
from threegate.core.errors import TrailError
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail.chain import (
    WORKSPACE_ID,
    Chain,
    ChainError,
    line_at,
    open_segment,
    read_blocks,
    read_lines,
    segment_path,
    segment_paths,
)
from threegate.trail.event import Event, LineError, format_time, make_event, parse_line, plugin_kinds
from threegate.trail.history import still_open
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import Payload, Quarantined
from threegate.trail.tree import leaf_hash

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The machine's idea of now, in UTC."""
    return datetime.now(UTC)


class TrailOnDisk:
    """What `Trail` does to its files."""

    def __init__(self, workspace: Workspace, *, clock: Clock = system_clock) -> None:
        self.workspace = workspace
        self.clock = clock
        self.fixed: list[str] = []
        """One line for each torn end that was set aside since this object was made."""
        self._folder = workspace.audit
        self._path = workspace.trail_file
        self._index = TrailIndex()
        self._save_at = limits.TRAIL_INDEX_LINES
        """The number of the event after which the index is saved next."""
        self._chain = Chain()
        self._descriptor: int | None = None
        self._offset = 0
        self._reserved = 0
        self._closed: list[tuple[int, Path]] = []
        """The closed segments, each with the number of bytes of the trail before it."""
        self._base = 0
        """Bytes of the trail before the current file."""
        self._failed: str | None = None
        self._syncing = threading.Lock()
        self._written = self._durable = 0
        """Writes of ours, counted, and how many of them are on disk."""

    def __del__(self) -> None:
        """An object that is garbage-collected closes its descriptor, because commands open the trail
        repeatedly.
        """
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    @property
    def _current(self) -> int:
        """The descriptor of the current file, which is open while the lock is held. Raises TrailError."""
        if self._descriptor is None:
            raise TrailError(f"{self._path}: is not open; take the trail's lock again")
        return self._descriptor

    def _read_line(self, position: int) -> bytes:
        """The line at a position of the whole trail, for who holds the lock. Raises TrailError."""
        try:
            if position >= self._base:
                return line_at(self._path, position - self._base, self._descriptor)
            start, path = next(item for item in reversed(self._closed) if item[0] <= position)
            return line_at(path, position - start)
        except OSError as error:
            raise TrailError(f"{self._folder}: cannot be read ({error.strerror or error})") from None

    def _refuse_failed(self) -> None:
        if self._failed:
            raise TrailError(f"{self._path}: {self._failed}; stop this process and look at the disk")

    def _fail(self, doing: str, error: OSError) -> TrailError:
        self._failed = f"{doing} failed earlier ({error.strerror or error})"
        return TrailError(
            f"{self._path}: {doing} failed ({error.strerror or error}); this process stops, look at the disk"
        )

    def _parts(self) -> list[tuple[Path, int, int]]:
        """All files of the trail, opened: path, descriptor, size now."""
        parts: list[tuple[Path, int, int]] = []
        for path in [*segment_paths(self._folder), self._path]:
            try:
                descriptor = open_segment(path)
            except FileNotFoundError:
                continue
            parts.append((path, descriptor, os.fstat(descriptor).st_size))
        return parts

    def _stream(self, parts: list[tuple[Path, int, int]]) -> Iterator[Event]:
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

    def _leaf_blocks(self, parts: list[tuple[Path, int, int]]) -> Iterator[list[bytes]]:
        """The leaf hashes of all whole lines, block by block; nothing is checked. Closes the files."""
        try:
            for _, descriptor, size in parts:
                for block in read_blocks(descriptor, size):
                    yield [leaf_hash(line) for line in block.split(b"\n")[:-1]]
        finally:
            for _, descriptor, _ in parts:
                os.close(descriptor)

    # ---- reading what is new

    def _catch_up(self) -> None:
        self._refuse_failed()
        if self._descriptor is None:
            self._open_first()
        self._same_file()
        self._read_on()
        if self._chain.type == "rotated":
            self._finish_rotation()
            self._read_on()
        if self._chain.seq == 0:
            raise TrailError(f"{self._path}: is empty; a trail begins with workspace_created")

    def _open_first(self) -> None:
        paths = segment_paths(self._folder)
        skipped, offset = self._resume(paths)
        for number, path in enumerate(paths):
            descriptor = open_segment(path)
            try:
                size, base = os.fstat(descriptor).st_size, self._base
                self._close_segment(path, size)
                if number >= skipped:
                    begin = offset if number == skipped else 0
                    self._take_lines(descriptor, path, begin, size, base, current=False)
            finally:
                os.close(descriptor)
            if number >= skipped and (
                segment_path(self._folder, self._chain.seq) != path or self._chain.type != "rotated"
            ):
                raise TrailError(f"{path}: does not end where its name says; restore the segment")
        self._open_current()
        if skipped == len(paths):
            self._offset = offset

    def _resume(self, paths: list[Path]) -> tuple[int, int]:
        """Begin behind the last event that the index file has, if it fits this trail: the plugins are the same, the
        first and the last of its lines are, byte for byte, where they were, and the closed segments (`paths`) have
        their names and sizes. The lines between are not read again; `threegate audit verify` reads all of them.

        Returns how many segments are completely before that event, and where the line after it starts in the file after
        those; (0, 0) for the beginning of the trail.
        """
        index = TrailIndex()
        try:
            first = parse_line(line_at([*paths, self._path][0], 0))
            if not WORKSPACE_ID.fullmatch(first.prev) or not (path := UserState.of(first.prev).index_file).exists():
                return 0, 0
            from threegate.trail.index_file import IndexFile  # here: short trails need no sqlite

            if (opened := IndexFile.open(path)) is None:
                return 0, 0
            header = opened[1]
            index = TrailIndex(*opened, self._read_line)
            before = [(str(name), int(size)) for name, size in header["segments"]]
            start = opened[0].row(index.saved)[0] - sum(size for _, size in before)
            last = parse_line(line_at([*paths, self._path][len(before)], start))
            if (
                header["kinds"] == sorted(plugin_kinds())  # otherwise the same events say something else
                and index.hash_at(1) == first.hash
                and (last.seq, last.hash, index.hash_at(last.seq)) == (index.saved, index.head.hash, last.hash)
                and before == [(path.name, path.lstat().st_size) for path in paths[: len(before)]]
            ):
                self._chain.follow(last)
                self._index = index
                self._save_at = index.saved + limits.TRAIL_INDEX_LINES
                return len(before), start + len(last.line) + 1
        except (OSError, TrailError, LookupError, TypeError, ValueError):
            pass  # it is missing or wrong: everything is read, and what is wrong with the trail itself is found there
        index.close()
        return 0, 0

    def _save_index(self, descriptor: int, path: Path) -> None:
        """Put the file of the trail that was read or written last on disk, and then the index. Raises TrailError."""
        self._save_at = self._index.head.seq + limits.TRAIL_INDEX_LINES
        state = UserState.of(self._index.workspace_id)
        if not state.key_file.exists():
            return  # another user's workspace: there is no place where only who may sign can write
        try:
            durable.sync_fd(descriptor, path)
        except OSError as error:
            raise self._fail("writing", error) from error
        ends = [start for start, _ in self._closed[1:]] + [self._base]
        segments = [(closed.name, end - start) for (start, closed), end in zip(self._closed, ends, strict=False)]
        self._index.save(state.index_file, segments, partial(still_open, self.workspace), self._read_line)

    def _close_segment(self, path: Path, size: int) -> None:
        self._closed.append((self._base, path))
        self._base += size

    def _open_current(self) -> None:
        try:
            self._descriptor = open_segment(self._path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            if self._chain.type != "rotated":
                raise TrailError(
                    f"{self._path}: the trail is missing; restore it, nothing is started without it"
                ) from None
            with disk_reserve(self.workspace.reserve):
                durable.deliver(self._path, b"", 0o600)
            self._descriptor = open_segment(self._path, os.O_RDWR | os.O_APPEND)
        self._offset = self._reserved = 0

    def _same_file(self) -> None:
        """The name still leads to the file that we read, or to its successor after a rotation."""
        ours = os.fstat(self._current)
        try:
            there = os.lstat(self._path)
        except FileNotFoundError:
            there = None
        if there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
            if ours.st_size < self._offset:
                raise TrailError(f"{self._path}: became shorter; someone cut it, nothing is started")
            if self._chain.line and self._offset:
                length = len(self._chain.line) + 1
                if os.pread(self._current, length, self._offset - length) != self._chain.line + b"\n":
                    raise TrailError(f"{self._path}: its last line was changed; nothing is started")
            return
        self._read_on()
        closed = segment_path(self._folder, self._chain.seq)
        try:
            moved = os.lstat(closed)
        except FileNotFoundError:
            moved = None
        if self._chain.type != "rotated" or moved is None or moved.st_ino != ours.st_ino:
            raise TrailError(f"{self._path}: another file is in the trail's place; nothing is started")
        self._close_segment(closed, self._offset)
        self._leave_file()
        self._open_current()

    def _read_on(self) -> None:
        size = os.fstat(self._current).st_size
        if size > self._offset:
            self._take_lines(self._current, self._path, self._offset, size, self._base, current=True)

    def _take_lines(self, descriptor: int, path: Path, start: int, end: int, base: int, *, current: bool) -> None:
        for raw in read_lines(descriptor, start, end):
            try:
                if not raw.whole:
                    raise LineError("has no end")
                event = self._chain.take(raw.data)
            except ChainError as error:
                raise TrailError(f"{path}: the line after seq {self._chain.seq} {error}") from None
            except LineError as error:
                if not current:
                    raise TrailError(f"{path}: the line after seq {self._chain.seq} {error}") from None
                self._set_aside(descriptor, raw.start, end, str(error))
                return
            self._index.add(event, base + raw.start)
            if current:
                self._offset = raw.start + len(raw.data) + 1
            if self._index.head.seq >= self._save_at:
                self._save_index(descriptor, path)

    def _set_aside(self, descriptor: int, start: int, end: int, problem: str) -> None:
        """Cut a torn end (power loss, full disk) off, unless something proves that whole events are missing."""
        place = f"{self._path}: the line after seq {self._chain.seq} {problem}"
        if self._chain.seq == 0 or end - start > 4 * limits.MIB:
            raise TrailError(f"{place}; nothing is started")
        tail = os.pread(descriptor, end - start, start)
        for line in tail.split(b"\n"):
            try:
                parse_line(line)
            except LineError:
                continue
            if line != tail:
                raise TrailError(f"{place}, and whole lines follow it: this is no torn end; nothing is started")
        from threegate.trail.truncation_check import evidence_of_truncation

        events = islice(self._stream(self._parts()), self._chain.seq)
        if evidence := evidence_of_truncation(self.workspace, self._index, events):
            raise TrailError(f"{place}, and {evidence[0]} is ahead of what remains; nothing is started")
        name = f"torn-{self._chain.seq:012d}-{secrets.token_hex(4)}"
        durable.deliver(self._folder / name, tail, 0o600)
        durable.truncate_fd(descriptor, start, self._path)
        torn = Quarantined(reason="torn_tail", bytes=len(tail), sha256=sha256_hex(tail), kept_as=name)
        event = self._next(torn, None, "threegate")
        try:
            durable.write_fd(descriptor, event.line + b"\n", self._path)
            durable.sync_fd(descriptor, self._path)
        except OSError as error:
            raise self._fail("writing", error) from error
        self._chain.take(event.line)
        self._index.add(event, self._base + start)
        self._offset = start + len(event.line) + 1
        self.fixed.append(f"{place}: {len(tail)} bytes were set aside as {name}")

    # ---- writing (called by LockedTrail only)

    def _next(self, payload: Payload, request_id: str | None, actor: str, time: str | None = None) -> Event:
        """The event that comes next; nothing is written."""
        chain = self._chain
        return make_event(
            seq=chain.seq + 1,
            time=time or max(format_time(self.clock()), chain.time),
            type=payload.kind,
            request_id=request_id,
            actor=actor,
            data=payload.to_data(),
            prev=chain.hash,
        )

    def _write(self, data: bytes) -> int:
        """Write whole lines; the number of the write, for `_settle`. Raises TrailError."""
        try:
            durable.write_fd(self._current, data, self._path)
        except OSError as error:
            raise self._fail("writing", error) from error
        self._offset += len(data)
        self._written += 1
        return self._written

    def _settle(self, write: int) -> None:
        """Put everything up to this write on disk. One thread syncs, for all that have written before. Raises
        TrailError.
        """
        with self._syncing:
            self._refuse_failed()
            if self._durable >= write or self._descriptor is None:
                return
            goal = self._written
            try:
                durable.sync_fd(self._descriptor, self._path)
            except OSError as error:
                raise self._fail("writing", error) from error
            self._durable = goal

    def _leave_file(self) -> None:
        """Close the current file; what was written to it is on disk."""
        if not self._failed:
            self._settle(self._written)
        with self._syncing:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def _finish_rotation(self) -> None:
        """After a `rotated` event: give the file its closed name and start the next one."""
        closed = segment_path(self._folder, self._chain.seq)
        if self._offset:
            durable.rename(self._path, closed)
            durable.sync_folder(self._folder)
            self._close_segment(closed, self._offset)
            self._leave_file()
            self._open_current()
