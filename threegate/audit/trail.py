"""The trail on disk: who holds its lock may append, and what was appended is on disk before it is acted on.

Invariant: an event is given out by `append` only under the exclusive lock, after everything that others wrote
was read and verified; `sync` returns only when every appended event is on disk. After one failed write or sync
this trail refuses everything: the process has to stop.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threegate import durable, limits
from threegate.audit import keys
from threegate.audit.chain import (
    WORKSPACE_ID,
    Chain,
    ChainError,
    open_segment,
    read_lines,
    segment_path,
    segment_paths,
)
from threegate.audit.event import Event, LineError, format_time, make_event, parse_line, parse_time
from threegate.audit.index import TrailIndex
from threegate.canonical import sha256_hex
from threegate.errors import TrailError, Unavailable
from threegate.workspace import OutsideState, Workspace

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The machine's idea of now, in UTC."""
    return datetime.now(UTC)


class Trail:
    """A workspace's trail. One object may serve many threads; each process has its own."""

    def __init__(self, workspace: Workspace, *, clock: Clock = system_clock) -> None:
        self.workspace = workspace
        self.clock = clock
        self.mended: list[str] = []
        """One line for each torn end that was set aside since this object was made."""
        self._folder = workspace.audit
        self._path = workspace.trail_file
        self._index = TrailIndex()
        self._chain = Chain()
        self._descriptor: int | None = None
        self._offset = 0
        self._reserved = 0
        self._failed: str | None = None
        self._thread = threading.Lock()
        self._holder: int | None = None

    @classmethod
    def create(
        cls,
        workspace: Workspace,
        *,
        workspace_id: str,
        actor: str,
        data: Mapping[str, Any] | None = None,
        clock: Clock = system_clock,
    ) -> Trail:
        """Begin the trail of a new workspace: key, first event, outside head. Raises TrailError, OSError."""
        if not WORKSPACE_ID.fullmatch(workspace_id):
            raise TrailError(f"{workspace_id!r} is no workspace id (ws- and 32 hex digits)")
        if workspace.trail_file.exists() or segment_paths(workspace.audit):
            raise TrailError(f"{workspace.trail_file}: there is a trail already; it is never begun anew")
        key = keys.make_key(workspace_id)
        vkey = key.public.render()
        durable.overwrite(workspace.audit / "workspace.pub", vkey.encode() + b"\n", 0o644)
        first = make_event(
            seq=1,
            time=format_time(clock()),
            type="workspace_created",
            request_id=None,
            actor=actor,
            data={**(data or {}), "vkey": vkey, "path": str(workspace.root)},
            prev=workspace_id,
        )
        durable.deliver(workspace.trail_file, first.line + b"\n", 0o600)
        trail = cls(workspace, clock=clock)
        with trail.locked() as held:
            held.keep_head()
        return trail

    def close(self) -> None:
        """Give back the descriptor; the trail can be used again afterwards."""
        with self._thread:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None
            self._index, self._chain, self._offset, self._reserved = TrailIndex(), Chain(), 0, 0

    @contextmanager
    def locked(self) -> Iterator[LockedTrail]:
        """Hold the trail: no other process or thread appends or moves a request meanwhile. Raises TrailError.

        What was appended in the block is on disk when the block is left, also by an exception.
        """
        if self._holder == threading.get_ident():
            raise RuntimeError("this thread holds the trail already; hand the LockedTrail on instead")
        with self._thread, self._flock(fcntl.LOCK_EX):
            self._refuse_failed()
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
                held.close()

    def events(self) -> Iterator[Event]:
        """All events in order, each verified, streaming; what is appended meanwhile is not seen.

        Raises TrailError at the first line that does not verify.
        """
        if self._holder == threading.get_ident():
            parts = self._parts()
        else:
            with self._flock(fcntl.LOCK_SH):
                parts = self._parts()
        yield from self._stream(parts)

    def event_at(self, seq: int) -> Event | None:
        """One event by its number, for who holds the lock; reads from the start. Raises TrailError."""
        return next((event for event in self._stream(self._parts()) if event.seq == seq), None)

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

    @contextmanager
    def _flock(self, kind: int) -> Iterator[None]:
        """Hold audit/lock (never unlinked, close-on-exec)."""
        try:
            descriptor = os.open(
                self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise TrailError(
                f"{self._folder / 'lock'}: the trail's lock cannot be had ({error.strerror}); nothing is started"
            ) from None
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _refuse_failed(self) -> None:
        if self._failed:
            raise TrailError(f"{self._path}: {self._failed}; stop this process and look at the disk")

    def _fail(self, doing: str, error: OSError) -> TrailError:
        self._failed = f"{doing} failed earlier ({error.strerror or error})"
        return TrailError(
            f"{self._path}: {doing} failed ({error.strerror or error}); this process stops, look at the disk"
        )

    # ---- reading what is new

    def _catch_up(self) -> None:
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
        for path in segment_paths(self._folder):
            descriptor = open_segment(path)
            try:
                self._take_lines(descriptor, path, 0, os.fstat(descriptor).st_size, current=False)
            finally:
                os.close(descriptor)
            if segment_path(self._folder, self._chain.seq) != path or self._chain.type != "rotated":
                raise TrailError(f"{path}: does not end where its name says; restore the segment")
        self._open_current()

    def _open_current(self) -> None:
        try:
            self._descriptor = open_segment(self._path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            if self._chain.type != "rotated":
                raise TrailError(
                    f"{self._path}: the trail is missing; restore it, nothing is started without it"
                ) from None
            self._new_segment()
            self._descriptor = open_segment(self._path, os.O_RDWR | os.O_APPEND)
        self._offset = self._reserved = 0

    def _new_segment(self) -> None:
        durable.deliver(self._path, b"", 0o600)

    def _same_file(self) -> None:
        """The name still leads to the file that we read, or to its successor after a rotation."""
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = os.lstat(self._path)
        except FileNotFoundError:
            there = None
        if there is not None and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
            if ours.st_size < self._offset:
                raise TrailError(f"{self._path}: became shorter; someone cut it, nothing is started")
            if self._chain.line and self._offset:
                length = len(self._chain.line) + 1
                if os.pread(self._descriptor, length, self._offset - length) != self._chain.line + b"\n":
                    raise TrailError(f"{self._path}: its last line was changed; nothing is started")
            return
        self._read_on()
        closed = segment_path(self._folder, self._chain.seq)
        try:
            moved = os.lstat(closed)
        except FileNotFoundError:
            moved = None
        if self._chain.type != "rotated" or moved is None or moved.st_ino != ours.st_ino:
            raise TrailError(f"{self._path}: another file lies in the trail's place; nothing is started")
        os.close(self._descriptor)
        self._descriptor = None
        self._open_current()

    def _read_on(self) -> None:
        assert self._descriptor is not None
        size = os.fstat(self._descriptor).st_size
        if size > self._offset:
            self._take_lines(self._descriptor, self._path, self._offset, size, current=True)

    def _take_lines(self, descriptor: int, path: Path, start: int, end: int, *, current: bool) -> None:
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
            self._index.add(event)
            if current:
                self._offset = raw.start + len(raw.data) + 1

    def _set_aside(self, descriptor: int, start: int, end: int, problem: str) -> None:
        """Cut a torn end (power loss, full disk) off, if it is one and nothing lies ahead of what remains."""
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
                raise TrailError(
                    f"{place}, and whole lines follow it: this is no torn end; nothing is started"
                )
        from threegate.audit.ahead import ahead_of

        if ahead := ahead_of(self.workspace, self._index):
            raise TrailError(f"{place}, and {ahead[0]} is ahead of what remains; nothing is started")
        name = f"torn-{self._chain.seq:012d}-{secrets.token_hex(4)}"
        durable.deliver(self._folder / name, tail, 0o600)
        durable.truncate_fd(descriptor, start, self._path)
        event = self._next(
            "quarantined",
            None,
            "threegate",
            {"reason": "torn_tail", "bytes": len(tail), "sha256": sha256_hex(tail), "kept_as": name},
        )
        try:
            durable.write_fd(descriptor, event.line + b"\n", self._path)
            durable.sync_fd(descriptor, self._path)
        except OSError as error:
            raise self._fail("writing", error) from error
        self._chain.take(event.line)
        self._index.add(event)
        self._offset = start + len(event.line) + 1
        self.mended.append(f"{place}: {len(tail)} bytes were set aside as {name}")

    # ---- appending (called by LockedTrail only)

    def _next(self, type: str, request_id: str | None, actor: str, data: Mapping[str, Any] | None) -> Event:
        chain = self._chain
        return make_event(
            seq=chain.seq + 1,
            time=max(format_time(self.clock()), chain.time),
            type=type,
            request_id=request_id,
            actor=actor,
            data=data,
            prev=chain.hash,
        )

    def _append(self, event: Event) -> None:
        self._chain.follow(event)
        self._index.add(event)

    def _reserve(self, length: int) -> None:
        """Space on disk for `length` more bytes before anything is promised. Raises Unavailable."""
        assert self._descriptor is not None
        if self._offset + length <= self._reserved:
            return
        try:
            durable.reserve_fd(
                self._descriptor, self._offset, length + limits.TRAIL_RESERVED_BYTES, self._path
            )
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Unavailable(
                f"{self._path}: {'the disk is full' if full else error.strerror or error}; "
                "nothing new is started until the trail has space"
            ) from error
        self._reserved = self._offset + length + limits.TRAIL_RESERVED_BYTES

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None
        try:
            durable.write_fd(self._descriptor, data, self._path)
            durable.sync_fd(self._descriptor, self._path)
        except OSError as error:
            raise self._fail("writing", error) from error
        self._offset += len(data)

    def _finish_rotation(self) -> None:
        """The last event says `rotated`: give the file its closed name and begin the next one."""
        assert self._descriptor is not None
        closed = segment_path(self._folder, self._chain.seq)
        if self._offset:
            durable.rename(self._path, closed)
            durable.sync_folder(self._folder)
            os.close(self._descriptor)
            self._descriptor = None
            self._open_current()


class LockedTrail:
    """The trail while its lock is held. Not to be kept beyond the block."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._pending: list[bytes] = []
        self._open = True

    @property
    def workspace(self) -> Workspace:
        """Whose trail this is."""
        return self._trail.workspace

    @property
    def index(self) -> TrailIndex:
        """What the trail says, everything appended so far included."""
        return self._trail._index

    @property
    def now(self) -> datetime:
        """max(system clock, time of the last event)."""
        last = self._trail._chain.time
        clock = self._trail.clock()
        return max(clock, parse_time(last)) if last else clock

    @property
    def clock_behind_seconds(self) -> float:
        """How far the system clock lies behind the last event; 0 when it does not."""
        last = self._trail._chain.time
        if not last:
            return 0.0
        return max(0.0, (parse_time(last) - self._trail.clock()).total_seconds())

    def append(
        self,
        type: str,
        *,
        request_id: str | None = None,
        actor: str,
        data: Mapping[str, Any] | None = None,
    ) -> Event:
        """Add an event; it is on disk only after `sync`. Raises TrailError, Unavailable (no space; nothing added)."""
        if not self._open:
            raise TrailError("the trail's lock was given back; take it again")
        self._trail._refuse_failed()
        event = self._trail._next(type, request_id, actor, data)
        waiting = sum(map(len, self._pending))
        self._trail._reserve(waiting + len(event.line) + 1)
        self._trail._append(event)
        self._pending.append(event.line + b"\n")
        return event

    def sync(self) -> None:
        """Put everything appended on disk: one write, one fdatasync. Raises TrailError; then the process must stop."""
        self._trail._refuse_failed()
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            self._trail._write(data)

    def rotate(self, *, actor: str, data: Mapping[str, Any]) -> Event:
        """Close this file of the trail with a `rotated` event and begin the next one. Raises TrailError, OSError."""
        event = self.append("rotated", actor=actor, data=data)
        self.sync()
        self._trail._finish_rotation()
        return event

    def keep_head(self) -> None:
        """Sync, and keep the head outside the workspace (before each launch). Raises TrailError, Unavailable."""
        self.sync()
        index = self.index
        try:
            OutsideState.of(index.workspace_id).write_head(
                {
                    "id": index.workspace_id,
                    "path": str(self.workspace.root),
                    "epoch": index.epoch,
                    "seq": index.head.seq,
                    "hash": index.head.hash,
                }
            )
        except OSError as error:
            raise Unavailable(
                f"the outside head cannot be kept ({error.strerror or error}); nothing new is started"
            ) from error

    def outside_problem(self) -> str | None:
        """None when the head kept outside agrees with this trail, else one line that says what does not.

        A difference means a restored backup, a copied or moved workspace or a cut trail; launches stop until a
        signed `threegate workspace adopt`. Raises Unavailable when the kept head cannot be read.
        """
        index = self.index
        kept = OutsideState.of(index.workspace_id).read_head()
        if kept is None:
            return (
                "no head of this workspace is kept on this side; it was copied here or another user runs it"
            )
        if kept.get("id") != index.workspace_id:
            return "the kept head is of another workspace"
        if kept.get("path") != str(self.workspace.root):
            return "the workspace lies elsewhere than before: it was copied or moved"
        if kept.get("epoch") != index.epoch:
            return f"the trail is of epoch {index.epoch}, the kept head of epoch {kept.get('epoch')}"
        seq = kept.get("seq")
        if type(seq) is not int or seq < 1:
            return "the kept head names no event"
        if seq > index.head.seq:
            return f"the trail ends at {index.head.seq}, but {seq} events were there before: it was cut or restored"
        found = index.hash_at(seq)
        if found is None:
            event = self._trail.event_at(seq)
            found = event.hash if event else None
        if found != kept.get("hash"):
            return f"event {seq} is another one than the kept head names: the trail was replaced"
        return None

    def close(self) -> None:
        """Leave nothing unsynced behind; called when the block is left."""
        self._open = False
        if self._pending and not self._trail._failed:
            self.sync()
