"""The trail on disk: the holder of its lock may append, and an event is on disk before it is acted on.

Invariant: `append` returns an event only under the exclusive lock, after everything that others wrote was
read and verified; `sync` returns only once every appended event is on disk. After one failed write or sync
this trail refuses everything: the process must exit.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from threegate.core import durable
from threegate.core.errors import InvalidInput, TrailError
from threegate.core.workspace import Workspace
from threegate.trail import tree, workspace_key
from threegate.trail.chain import WORKSPACE_ID, Chain, segment_paths
from threegate.trail.event import Event, format_time, make_event
from threegate.trail.history import RequestHistory
from threegate.trail.index import TrailIndex
from threegate.trail.locked_trail import LockedTrail
from threegate.trail.on_disk import Clock, TrailOnDisk, system_clock
from threegate.trail.payloads import Payload, WorkspaceCreated


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
