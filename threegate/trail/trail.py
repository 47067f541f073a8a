"""The trail: the holder of its lock may append, and an event is on disk before it is acted on.

Invariant: `append` returns an event only under the exclusive lock, after everything that others wrote was
read and verified; `sync` returns only once every appended event is on disk, and so does the end of the block. After one
failed write or sync this trail refuses everything: the process must exit.

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
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from threegate.core import durable, limits
from threegate.core.durable import may_use_reserve, until_it_fits
from threegate.core.errors import DiskFull, InvalidInput, TrailError, Unavailable, is_disk_full
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail import tree, workspace_key
from threegate.trail.chain import WORKSPACE_ID, Chain, segment_paths
from threegate.trail.event import Event, format_time, make_event, parse_time
from threegate.trail.history import RequestHistory, refuse_unknown_event
from threegate.trail.index import TrailIndex
from threegate.trail.kept_index import KeptIndex, read_kept_index, write_kept_index
from threegate.trail.on_disk import Clock, TrailOnDisk, system_clock
from threegate.trail.payloads import (
    Approved,
    Claimed,
    Cleared,
    Countersigned,
    Payload,
    Promoted,
    Rotated,
    Started,
    WorkspaceCreated,
)
from threegate.trail.spilled_index import SpilledIndex
from threegate.trail.workspace_key import SigningKey

_LETS_RUN: Final = (Approved, Claimed, Cleared, Countersigned, Promoted, Started)


class Trail(TrailOnDisk):
    """A workspace's trail. One object may serve many threads; each process has its own."""

    def __init__(
        self,
        workspace: Workspace,
        *,
        clock: Clock = system_clock,
        spill: Callable[[RequestHistory], bool] | None = None,
    ) -> None:
        super().__init__(workspace, clock=clock, spill=spill)
        self._lock_path = self._folder / "lock"
        self._thread = threading.Lock()
        self._holder: int | None = None

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
            raise TrailError(f"{workspace_id!r} is no workspace id (ws- and 32 hex digits)")
        if workspace.trail_file.exists() or segment_paths(workspace.audit):
            raise TrailError(f"{workspace.trail_file}: there is a trail already; it is never begun again")
        key = workspace_key.make_key(workspace_id)
        vkey = key.public.render()
        durable.overwrite(workspace.audit / "workspace.pub", vkey.encode() + b"\n", 0o644)
        first = make_event(
            seq=1,
            time=format_time(clock()),
            type=WorkspaceCreated.kind,
            request_id=None,
            actor=actor,
            data=WorkspaceCreated(vkey=vkey, path=str(workspace.root), announces_files=True).to_data(),
            prev=workspace_id,
        )
        durable.deliver(workspace.trail_file, first.line + b"\n", 0o600)
        trail = cls(workspace, clock=clock)
        with trail.locked() as held:
            held.keep_head(replace=True)
        return trail

    def close(self) -> None:
        """Give back the descriptor; the trail can be used again afterwards."""
        with self._thread:
            self._leave_file()
            self._index, self._chain, self._offset, self._reserved = TrailIndex(), Chain(), 0, 0
            self._closed, self._base = [], 0

    @contextmanager
    def locked(self) -> Iterator[LockedTrail]:
        """Hold the trail: no other process or thread appends or moves a request meanwhile. Raises TrailError.

        What was appended in the block is on disk when the block is left, also by an exception.
        """
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
                if held._pending and not self._failed:
                    held.sync()

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
        if self._holder == threading.get_ident():
            parts = self._parts()
        else:
            with self._flock(fcntl.LOCK_SH):
                parts = self._parts()
        yield from self._stream(parts)

    def prove_consistency(self, old: int, new: int) -> list[bytes]:
        """The RFC 6962 consistency proof between two sizes of the tree, streaming. Raises InvalidInput, TrailError.

        The lines are hashed as they are: a line that was changed leads to a proof that verifies nowhere.
        """
        try:
            ranges = tree.consistency_ranges(old, new)
            with self._flock(fcntl.LOCK_SH):
                parts = self._parts()
            return tree.roots_of_ranges(ranges, self._leaf_blocks(parts))
        except IndexError as error:
            raise InvalidInput(f"no consistency proof from {old} to {new}: {error}") from None

    @contextmanager
    def _flock(self, kind: int) -> Iterator[None]:
        """Hold audit/lock (never unlinked, close-on-exec)."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise TrailError(
                f"{self._lock_path}: the trail's lock cannot be had ({error.strerror}); nothing is started"
            ) from None
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)


class LockedTrail:
    """The trail while its lock is held. Not to be kept beyond the block."""

    def __init__(self, trail: TrailOnDisk) -> None:
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
        self._stamp = None
        start = trail._offset + sum(map(len, self._pending))
        self._reserve(start + len(event.line) + 1)
        trail._chain.follow(event)
        self.index.add(event, trail._base + start)
        self._pending.append(event.line + b"\n")
        return event

    def _reserve(self, end: int) -> None:
        """Space on disk up to byte `end` of the file before anything is promised. Raises DiskFull, Unavailable.

        On a full disk the last TRAIL_KEPT_BYTES of what is reserved are only for who may use the disk reserve.
        """
        trail, privileged = self._trail, may_use_reserve()
        if end + (0 if privileged else limits.TRAIL_KEPT_BYTES) <= trail._reserved:
            return
        wanted = end - trail._offset + limits.TRAIL_RESERVED_BYTES
        try:
            try:
                durable.reserve_fd(trail._current, trail._offset, wanted, trail._path)
            except OSError as error:
                if not privileged or not is_disk_full(error):
                    raise
                wanted = end - trail._offset  # there, as a rule: who may not use the reserve leaves it behind the end
                until_it_fits(lambda: durable.reserve_fd(trail._current, trail._offset, wanted, trail._path))
        except OSError as error:
            full = is_disk_full(error)
            raise (DiskFull if full else Unavailable)(
                f"{trail._path}: {'the disk is full' if full else error.strerror or error}; "
                "nothing new is started until the trail has space"
            ) from error
        trail._reserved = trail._offset + wanted

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

    def whole_index(self) -> TrailIndex:
        """The index of all events, for who asks about every request; reads the whole trail when it is a long one.
        Raises TrailError.
        """
        self.sync()
        return self._trail._whole_index()

    def keep_index(self, key: SigningKey, is_open: Callable[[RequestHistory], bool]) -> bool:
        """Store the signed index outside if enough events were added; later readers start there. False: not
        due, or no space for it.

        `is_open` says for which requests something may still have to be done (`TrailIndex.open_histories`).
        Raises TrailError.
        """
        index, trail = self.index, self._trail
        before = index.kept.seq if isinstance(index.kept, KeptIndex) else 0
        if index.head.seq - before < max(limits.TRAIL_INDEX_LINES, before // 20):
            return False
        self.sync()
        sizes = [start for start, _ in trail._closed[1:]] + [trail._base]
        header = {
            **index.to_header(),
            "segments": [(path.name, end - start) for (start, path), end in zip(trail._closed, sizes, strict=False)],
            "open": index.open_requests(is_open),
        }
        rows = index.to_rows()
        if rows is None:
            return False
        try:
            write_kept_index(key, header, rows, index.kept.items if index.kept else tuple, index.to_table())
        except OSError:
            return False  # it only spares time
        if isinstance(index.kept, SpilledIndex):
            return True  # read to sign this checkpoint; who comes next begins from the file
        kept = read_kept_index(index.workspace_id, key.public)
        if kept is not None:
            self.index = trail._index = TrailIndex(kept, trail._read_line)
        return kept is not None

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
        seq = kept.get("seq")
        if type(seq) is not int or seq < 1:
            return "the kept head names no event"
        if seq > index.head.seq:
            return f"the trail ends at {index.head.seq}, but {seq} events were there before: it was cut or restored"
        if index.hash_at(seq) != kept.get("hash"):
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
