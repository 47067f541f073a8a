"""The trail: the holder of its lock may append, and an event is on disk before it is acted on.

Invariant: `append` returns an event only under the exclusive lock, after everything that others wrote was read and
verified. Only verified next lines enter the index, and only events that it has are written. `sync` returns only once
every appended event is on disk, and so does the end of the block. After one failed write or sync this trail refuses
everything: the process must exit.

The lock is a `flock` because the kernel releases it when its process ends, however it ends: a lock file would
have to be cleaned up after a crash by a process that cannot know whether its owner is alive. It is on a
separate file that is never unlinked; otherwise two processes could each lock a different file of the same
name. The daemon and every command hold it from reading the trail's end to the rename, so the order of events
is the order of changes.

A failed sync is not repeated: the kernel may have dropped the pages and marked them clean, and the next fsync
of the same file then reports success for bytes that are on no disk. So the process stops, and the next one
reads what is there.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from threegate.core import durable, limits
from threegate.core.canonical import sha256_hex
from threegate.core.durable import disk_reserve, may_use_reserve, until_it_fits
from threegate.core.errors import DiskFull, InvalidInput, TrailError, Unavailable, is_disk_full
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail import tree, workspace_key
from threegate.trail.chain import (
    WORKSPACE_ID,
    Chain,
    ChainError,
    leaf_blocks,
    line_at,
    open_parts,
    open_segment,
    read_events,
    read_lines,
    segment_path,
    segment_paths,
)
from threegate.trail.event import Event, LineError, format_time, make_event, parse_line, parse_time, plugin_kinds
from threegate.trail.history import refuse_unknown_event, still_open
from threegate.trail.index import TrailIndex
from threegate.trail.payloads import (
    Approved,
    Claimed,
    Cleared,
    Countersigned,
    Payload,
    Quarantined,
    Rotated,
    Started,
    WorkspaceCreated,
)
from threegate.trail.truncation_check import evidence_of_truncation

Clock = Callable[[], datetime]
_LETS_RUN: Final = (Approved, Claimed, Cleared, Countersigned, Started)


def system_clock() -> datetime:
    """The machine's idea of now, in UTC."""
    return datetime.now(UTC)


class Trail:
    """A workspace's trail. One object may serve many threads; each process has its own."""

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
        self._lock_path = self._folder / "lock"
        self._thread = threading.Lock()
        self._holder: int | None = None
        self._syncing = threading.Lock()
        self._written = self._durable = 0
        """How many writes this process made, and how many of them are on disk."""

    @classmethod
    def create(
        cls,
        workspace: Workspace,
        *,
        workspace_id: str,
        actor: str,
        clock: Clock = system_clock,
    ) -> Trail:
        """Begin the trail of a new workspace: key, first event, outside head. Raises TrailError, OSError."""
        if not WORKSPACE_ID.fullmatch(workspace_id):
            raise TrailError(f"{workspace_id!r} is not a workspace id (ws- and 32 hex digits)")
        if workspace.trail_file.exists() or segment_paths(workspace.audit):
            raise TrailError(f"{workspace.trail_file}: there is a trail already; no second one is begun")
        key = workspace_key.make_key(workspace_id)
        vkey = key.public.render()
        durable.overwrite(workspace.audit / "workspace.pub", vkey.encode() + b"\n", 0o644)
        first = make_event(
            seq=1,
            time=format_time(clock()),
            type=WorkspaceCreated.kind,
            request_id=None,
            actor=actor,
            data=WorkspaceCreated(vkey=vkey, path=str(workspace.root)).to_data(),
            prev=workspace_id,
        )
        durable.deliver(workspace.trail_file, first.line + b"\n", 0o600)
        trail = cls(workspace, clock=clock)
        with trail.locked() as held:
            held.keep_head(replace=True)
        return trail

    def __del__(self) -> None:
        """An object that is garbage-collected closes its descriptor, because commands open the trail
        repeatedly.
        """
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Give back the descriptor; the trail can be used again afterwards."""
        with self._thread:
            self._leave_file()
            self._index.close()
            self._index, self._chain, self._offset, self._reserved = TrailIndex(), Chain(), 0, 0
            self._closed, self._base, self._save_at = [], 0, limits.TRAIL_INDEX_LINES

    @contextmanager
    def locked(self) -> Iterator[LockedTrail]:
        """Hold the trail: no other process or thread appends or moves a request meanwhile. Raises TrailError.

        What was appended in the block is on disk when the block is left, also by an exception.
        """
        # The lock is not reentrant: this thread would wait for itself forever.
        if self._holder == threading.get_ident():
            raise RuntimeError("this thread holds the trail already; hand the LockedTrail on instead")
        with self._thread, self._flock(fcntl.LOCK_EX):
            try:
                self._catch_up()
            except OSError as error:
                raise TrailError(f"{self._path}: cannot be read ({error.strerror or error})") from error
            held = LockedTrail(self)
            self._holder = threading.get_ident()
            try:
                yield held
            finally:
                self._holder = None
                held._open = False
                # After an exception too: the index has these events already, and must not have what the disk does not.
                if held._pending and not self._failed:
                    held.sync()
                if self._index.head.seq >= self._save_at and not held._pending and not self._failed:
                    self._save_index(self._current, self._path)

    def announce(self, payload: Payload, *, request_id: str | None = None, actor: str) -> Event:
        """One event that no change of state hangs on but what the caller does next; on disk when this returns.

        It is written under the lock and synced behind it, so that threads which announce at the same time share one
        sync. Raises TrailError (the process must stop), Unavailable (no space; nothing added).
        """
        with self.locked() as held:
            event = held.append(payload, request_id=request_id, actor=actor)
            write = held.write()
        self._settle(write)
        return event

    def events(self) -> Iterator[Event]:
        """All events in order, each verified, streaming; what is appended meanwhile is not seen.

        Raises TrailError at the first line that does not verify.
        """
        # A shared lock on another descriptor would wait for our own exclusive one.
        if self._holder == threading.get_ident():
            parts = open_parts(self._folder, self._path)
        else:
            with self._flock(fcntl.LOCK_SH):
                parts = open_parts(self._folder, self._path)
        yield from read_events(parts)

    def prove_consistency(self, old: int, new: int) -> list[bytes]:
        """The RFC 6962 consistency proof between two sizes of the tree, streaming. Raises InvalidInput, TrailError.

        The lines are hashed as they are: a line that was changed leads to a proof that verifies nowhere.
        """
        try:
            ranges = tree.consistency_ranges(old, new)
            with self._flock(fcntl.LOCK_SH):
                parts = open_parts(self._folder, self._path)
            return tree.roots_of_ranges(ranges, leaf_blocks(parts))
        except IndexError as error:
            raise InvalidInput(f"no consistency proof from {old} to {new}: {error}") from None

    @contextmanager
    def _flock(self, kind: int) -> Iterator[None]:
        """Hold audit/lock (never unlinked, close-on-exec)."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise TrailError(
                f"{self._lock_path}: the trail's lock cannot be taken ({error.strerror}); nothing is started"
            ) from None
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
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
            f"{self._path}: {doing} failed ({error.strerror or error}); this process stops; look at the disk"
        )

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
                    f"{self._path}: the trail is missing; restore it: nothing is started without it"
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
                raise TrailError(f"{self._path}: became shorter, so someone cut it; nothing is started")
            if self._chain.line and self._offset:
                length = len(self._chain.line) + 1
                if os.pread(self._current, length, self._offset - length) != self._chain.line + b"\n":
                    raise TrailError(f"{self._path}: its last line was changed; nothing is started")
            return
        # Another process rotated: what it wrote to the file that is open here comes first.
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
            # A write that was cut off leaves its beginning only, so before a whole line it was a change.
            if line != tail:
                raise TrailError(f"{place}, and whole lines follow it: this is not a torn end; nothing is started")
        events = islice(read_events(open_parts(self._folder, self._path)), self._chain.seq)
        if evidence := evidence_of_truncation(self.workspace, self._index, events):
            raise TrailError(f"{place}, and {evidence[0]} is ahead of what remains; nothing is started")
        name = f"torn-{self._chain.seq:012d}-{secrets.token_hex(4)}"
        # Kept before it is cut off: a crash in between leaves the bytes twice, and never not at all.
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

    # ---- writing, for LockedTrail

    def _next(self, payload: Payload, request_id: str | None, actor: str, time: str | None = None) -> Event:
        """The event that comes next; nothing is written."""
        chain = self._chain
        return make_event(
            seq=chain.seq + 1,
            # If the clock went back, the trail's time does not: an approval that ended must not be valid again.
            time=time or max(format_time(self.clock()), chain.time),
            type=payload.kind,
            request_id=request_id,
            actor=actor,
            data=payload.to_data(),
            prev=chain.hash,
        )

    def _reserve(self, end: int) -> None:
        """Space on disk up to byte `end` of the file before anything is promised. Raises DiskFull, Unavailable.

        On a full disk the last TRAIL_KEPT_BYTES of what is reserved are only for who may use the disk reserve.
        """
        privileged = may_use_reserve()
        if end + (0 if privileged else limits.TRAIL_KEPT_BYTES) <= self._reserved:
            return
        wanted = end - self._offset + limits.TRAIL_RESERVED_BYTES
        try:
            try:
                durable.reserve_fd(self._current, self._offset, wanted, self._path)
            except OSError as error:
                if not privileged or not is_disk_full(error):
                    raise
                wanted = end - self._offset  # there, as a rule: who may not use the reserve leaves it behind the end
                until_it_fits(lambda: durable.reserve_fd(self._current, self._offset, wanted, self._path))
        except OSError as error:
            full = is_disk_full(error)
            raise (DiskFull if full else Unavailable)(
                f"{self._path}: {'the disk is full' if full else error.strerror or error}; "
                "nothing new is started until the trail has space"
            ) from error
        self._reserved = self._offset + wanted

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
        # Otherwise the file has its closed name already, and the one that is open is its empty successor.
        if self._offset:
            durable.rename(self._path, closed)
            durable.sync_folder(self._folder)
            self._close_segment(closed, self._offset)
            self._leave_file()
            self._open_current()


class LockedTrail:
    """The trail while its lock is held. Not to be kept beyond the block."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self.workspace = trail.workspace
        """Whose trail this is."""
        self.index = trail._index
        """What the trail says, everything appended so far included."""
        self._pending: list[bytes] = []
        self._open = True
        self._stamp: str | None = None

    @property
    def now(self) -> datetime:
        """max(system clock, time of the last event)."""
        return max(self._trail.clock(), parse_time(self._trail._chain.time))

    @property
    def clock_behind_seconds(self) -> float:
        """How far the system clock is behind the last event; 0 if it is not."""
        return max(0.0, (parse_time(self._trail._chain.time) - self._trail.clock()).total_seconds())

    def next_event(self) -> tuple[int, datetime]:
        """Number and time of the next appended event, for what the event itself must name."""
        chain = self._trail._chain
        self._stamp = max(format_time(self._trail.clock()), chain.time)
        return chain.seq + 1, parse_time(self._stamp)

    def append(self, payload: Payload, *, request_id: str | None = None, actor: str) -> Event:
        """Add an event; it is on disk only after `sync`. Raises TrailError, Unavailable (no space; nothing added), and
        Refused (unknown_event) for what would let a request run whose history nothing here can read.
        """
        if not self._open:
            raise TrailError("the trail's lock was given back; take it again")
        trail = self._trail
        trail._refuse_failed()
        if request_id is not None and isinstance(payload, _LETS_RUN):
            refuse_unknown_event(self.index.history(request_id))
        event = trail._next(payload, request_id, actor, self._stamp)
        # One event only: a result names the time that `next_event` gave.
        self._stamp = None
        start = trail._offset + sum(map(len, self._pending))
        trail._reserve(start + len(event.line) + 1)
        trail._chain.follow(event)
        self.index.add(event, trail._base + start)
        self._pending.append(event.line + b"\n")
        return event

    def write(self) -> int:
        """Write everything appended, not yet synced; the number of the write. Raises TrailError; then the process
        must stop.
        """
        self._trail._refuse_failed()
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            self._trail._write(data)
        return self._trail._written

    def sync(self) -> None:
        """Put everything appended, and what other threads have written, on disk. Raises TrailError; then the process
        must stop.
        """
        self._trail._settle(self.write())

    def rotate(self, payload: Rotated, *, actor: str) -> Event:
        """Close this file of the trail with a `rotated` event and begin the next one. Raises TrailError, OSError."""
        event = self.append(payload, actor=actor)
        self.sync()
        self._trail._finish_rotation()
        return event

    def keep_head(self, *, replace: bool = False) -> None:
        """Sync, and keep the head outside the workspace (before each launch). Raises TrailError, Unavailable.

        `replace` is for a new workspace and for an adoption: anything else must not hide that the kept head disagrees.
        """
        if not replace:
            self.refuse_mismatch()
        self.sync()
        try:
            UserState.of(self.index.workspace_id).write_head(self.head)
        except OSError as error:
            raise _not_kept(error) from error

    @property
    def head(self) -> Mapping[str, str | int]:
        """The head to store outside, for the current end of the trail."""
        index = self.index
        return {
            "id": index.workspace_id,
            "path": str(self.workspace.root),
            "epoch": index.epoch,
            "seq": index.head.seq,
            "hash": index.head.hash,
        }

    def refuse_mismatch(self) -> None:
        """Raise Unavailable when the head kept outside does not agree with this trail."""
        problem = self.outside_problem()
        if problem is not None:
            raise Unavailable(f"{problem}; when this is as it should be: threegate settings adopt")

    def outside_problem(self) -> str | None:
        """None when the head kept outside agrees with this trail, else one line that says what does not.

        A difference means a restored backup, a copied or moved workspace or a cut trail; launches stop until a
        signed `threegate settings adopt`. Raises Unavailable when the kept head cannot be read.
        """
        index = self.index
        kept = UserState.of(index.workspace_id).read_head()
        if kept is None:
            return "no head of this workspace is kept on this side; it was copied here or another user runs it"
        if kept.get("id") != index.workspace_id:
            return "the kept head is of another workspace"
        if kept.get("path") != str(self.workspace.root):
            return "the workspace is in another place than before: it was copied or moved"
        if kept.get("epoch") != index.epoch:
            return f"the trail is of epoch {index.epoch}, the kept head of epoch {kept.get('epoch')}"
        return self.lacks(kept)

    def lacks(self, head: Mapping[str, object]) -> str | None:
        """None when this trail contains the event of a head {epoch, seq, hash}, or was adopted since; else one line."""
        index = self.index
        epoch, seq = head.get("epoch"), head.get("seq")
        if type(epoch) is not int or type(seq) is not int or seq < 1:
            return "the kept head names no event"
        if epoch != index.epoch:
            return None if epoch < index.epoch else f"the trail is of epoch {index.epoch}, that head of epoch {epoch}"
        if seq > index.head.seq:
            return f"the trail ends at {index.head.seq}, but {seq} events were there before: it was cut or restored"
        if index.hash_at(seq) != head.get("hash"):
            return f"event {seq} is another one than the kept head names: the trail was replaced"
        return None


def advance_head(head: Mapping[str, str | int]) -> None:
    """Keep a head outside, durable, that was taken under the lock (`LockedTrail.head`), whose event is on disk, and
    that agreed with the kept one there; without the lock now. Raises Unavailable.
    """
    try:
        UserState.of(str(head["id"])).advance_head(head)
    except OSError as error:
        raise _not_kept(error) from error


def _not_kept(error: OSError) -> Unavailable:
    return (DiskFull if is_disk_full(error) else Unavailable)(
        f"the outside head cannot be kept ({error.strerror or error}); nothing new is started"
    )
