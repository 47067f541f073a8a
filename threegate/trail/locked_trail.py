"""The trail while its lock is held: append, sync, and the head that is stored outside.

Invariant: every event returned as appended is put on disk by `sync` or at the end of the block.

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

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from threegate.core import limits
from threegate.core.errors import DiskFull, TrailError, Unavailable, is_disk_full
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.trail.event import Event, parse_time
from threegate.trail.history import RequestHistory, refuse_unknown_event
from threegate.trail.index import TrailIndex
from threegate.trail.kept_index import KeptIndex, read_kept_index, write_kept_index
from threegate.trail.on_disk import TrailOnDisk
from threegate.trail.payloads import Approved, Claimed, Cleared, Countersigned, Payload, Promoted, Rotated, Started
from threegate.trail.spilled_index import SpilledIndex
from threegate.trail.workspace_key import SigningKey

_LETS_RUN: Final = (Approved, Claimed, Cleared, Countersigned, Promoted, Started)


class LockedTrail:
    """The trail while its lock is held. Not to be kept beyond the block."""

    def __init__(self, trail: TrailOnDisk) -> None:
        self._trail = trail
        self._pending: list[bytes] = []
        self._open = True
        self._stamp: str | None = None
        self._agreed = False

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
        """How far the system clock is behind the last event; 0 if it is not."""
        last = self._trail._chain.time
        if not last:
            return 0.0
        return max(0.0, (parse_time(last) - self._trail.clock()).total_seconds())

    def next_event(self) -> tuple[int, datetime]:
        """Number and time of the next appended event, for what the event itself must name."""
        self._stamp = self._trail._next_time()
        return self._trail._chain.seq + 1, parse_time(self._stamp)

    def append(self, payload: Payload, *, request_id: str | None = None, actor: str) -> Event:
        """Add an event; it is on disk only after `sync`. Raises TrailError, Unavailable (no space; nothing added), and
        Refused (unknown_event) for what would let a request run whose history nothing here can read.
        """
        if not self._open:
            raise TrailError("the trail's lock was given back; take it again")
        self._trail._refuse_failed()
        if request_id is not None and isinstance(payload, _LETS_RUN):
            refuse_unknown_event(self.index.history(request_id))
        event = self._trail._next(payload, request_id, actor, self._stamp)
        self._stamp = None
        waiting = sum(map(len, self._pending))
        self._trail._reserve(waiting + len(event.line) + 1)
        self._trail._append(event, waiting)
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
            raise Unavailable(f"{problem}; when this is as it should be: threegate workspace adopt")

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
            trail._index = TrailIndex(kept, trail._read_line)
        return kept is not None

    def outside_problem(self) -> str | None:
        """None when the head kept outside agrees with this trail, else one line that says what does not.

        A difference means a restored backup, a copied or moved workspace or a cut trail; launches stop until a
        signed `threegate workspace adopt`. Once they agree, they do until the lock is given back: both change only
        under it. Raises Unavailable when the kept head cannot be read.
        """
        if not self._agreed:
            problem = self._disagreement()
            if problem is not None:
                return problem
            self._agreed = True
        return None

    def _disagreement(self) -> str | None:
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

    def close(self) -> None:
        """Leave nothing unsynced behind; called when the block is left."""
        self._open = False
        if self._pending and not self._trail._failed:
            self.sync()


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
