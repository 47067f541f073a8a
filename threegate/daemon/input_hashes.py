"""sha256 of the input files that drafts declare, computed outside the loop.

Invariant: the loop never waits for a file: one not hashed yet is `PENDING`, and the loop asks again. One thread hashes,
a bounded piece at a time, the owners in turn, so that one owner's large files do not delay another's. A digest is that
of one descriptor, whose file was the same before and after; it is kept until the file changes.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from pathlib import Path
from typing import Any, Final

from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.launch.approved_file import identity_of

_READ_BYTES: Final = 1 << 20


class HashPending(Enum):
    """The type of `PENDING`."""

    PENDING = "pending"


PENDING: Final = HashPending.PENDING
"""The file exists, and its digest is not known yet."""


@dataclass
class _Job:
    """A file that is being hashed: its descriptor, its identity when it was opened, and the hash so far."""

    place: Path
    descriptor: int
    identity: tuple[int, ...]
    left: int
    digest: Any = field(default_factory=hashlib.sha256)


class InputHashes:
    """The digests of input files in the folders that drafts use. Used only by the loop's thread."""

    def __init__(self, workspace: Workspace, wake: Callable[[], None] = lambda: None, *, most: float = inf) -> None:
        """`most`: how often a changing file is hashed; after that it cannot be used as an input."""
        self._workspace = workspace
        self._wake = wake
        self._most = most
        self._times: Counter[Path] = Counter()
        """How often each file was queued for hashing, if that is bounded."""
        self._known: dict[Path, tuple[tuple[int, ...], str | None]] = {}
        self._lock = threading.Condition()
        self._waiting: dict[tuple[Path, int], deque[_Job]] = {}
        """By folder and owner, the files to be hashed: each run of an agent has a folder."""
        self._asked: dict[Path, tuple[int, ...]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def sha256(self, place: Path) -> str | HashPending | None:
        """The file's digest, `PENDING`, or None if it is missing or cannot be used as an input. Never blocks."""
        try:
            with self._workspace.hold(place.parent) as folder:
                descriptor, facts = folder.open_regular(place.name)
        except OSError:
            return None
        identity = identity_of(facts)
        with self._lock:
            known = self._known.get(place)
            stale = known is None or known[0] != identity
            asked = self._asked.get(place) == identity
            spent = not asked and self._times[place] >= self._most
            pending = stale and not spent and facts.st_size <= limits.INPUT_FILE_BYTES
            queue = self._waiting.get((place.parent, facts.st_uid), ())
            new = pending and not asked and len(queue) < limits.OPEN_HASHES
            if new:
                self._asked[place] = identity
                if self._most < inf:
                    self._times[place] += 1
                job = _Job(place, descriptor, identity, facts.st_size)
                self._waiting.setdefault((place.parent, facts.st_uid), deque()).append(job)
                self._start()
                self._lock.notify()
        # A file that is queued keeps its descriptor: what is hashed is the file that was declared, even if it is
        # renamed.
        if not new:
            os.close(descriptor)
        if pending:
            return PENDING
        return known[1] if known is not None and not stale else None

    def keep_only(self, places: set[Path]) -> None:
        """Drop files that no draft names any more."""
        with self._lock:
            for place in self._known.keys() - places:
                del self._known[place]

    def close(self) -> None:
        """Stop hashing; waits for the piece in progress."""
        with self._lock:
            self._closed = True
            self._lock.notify()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="input-hashes", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        """Take the owners in turn, one bounded piece each."""
        while True:
            with self._lock:
                while not self._closed and not self._waiting:
                    self._lock.wait()
                if self._closed:
                    for jobs in self._waiting.values():
                        for job in jobs:
                            os.close(job.descriptor)
                    return
                owner = next(iter(self._waiting))
                jobs = self._waiting.pop(owner)
                job = jobs[0]
            if _hash_piece(job):
                jobs.popleft()
                digest = _finished(job)
                with self._lock:
                    self._known[job.place] = (job.identity, digest)
                    if self._asked.get(job.place) == job.identity:
                        del self._asked[job.place]
                self._wake()
            with self._lock:
                if owner in self._waiting:  # more was requested meanwhile
                    jobs += self._waiting.pop(owner)
                if jobs:
                    self._waiting[owner] = jobs  # after the other owners


def _hash_piece(job: _Job) -> bool:
    """Hash at most HASH_PIECE_BYTES more; return whether the file is done (or cannot be read)."""
    piece = min(job.left, limits.HASH_PIECE_BYTES)
    try:
        while piece > 0 and (chunk := os.read(job.descriptor, min(piece, _READ_BYTES))):
            job.digest.update(chunk)
            piece -= len(chunk)
            job.left -= len(chunk)
    except OSError:
        return True
    return job.left == 0 or piece > 0


def _finished(job: _Job) -> str | None:
    """The digest, or None if the file changed since it was opened. Closes it."""
    try:
        same = identity_of(os.fstat(job.descriptor)) == job.identity and not job.left
        return job.digest.hexdigest() if same else None
    finally:
        os.close(job.descriptor)
