"""The nonce journal: what has been started here, kept until it has expired.

Invariant: `spend` returns only when the entry is on disk (fdatasync), and never twice for a nonce, an approval or a
request, unless no start token came for it (`give_back`; the envelope's nonce stays spent); what was spent stays spent
over a restart until every signature that could start it again has expired. A clock that was set back behind the last
entry, or behind the time when an expired entry was forgotten, is a refusal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from threegate.core import canonical, durable, limits
from threegate.core.errors import Refused, Unavailable

LINES_BEFORE_REWRITE = 20_000
"""Lines after which the journal is written again, before the next entry, with what still counts."""


@dataclass(frozen=True, slots=True)
class Spent:
    """One start. `uses` are the single-use words that it used up: the envelope's nonce and the approval's."""

    nonce: str
    approval: str
    request_id: str
    grant: str | None
    expires: int
    """Seconds since 1970; the last end of envelope, approval and grant."""
    at: int


class NonceJournal:
    """The journal of one worker; an exclusive lock keeps a second worker off. Safe for threads."""

    def __init__(self, path: Path, *, now: datetime) -> None:
        """Open, read and compact. Raises Unavailable for a journal that is not whole, or that another worker has."""
        self._path = path
        self._lock = threading.Lock()
        self._spent: dict[str, Spent] = {}
        self._approvals: set[str] = set()
        self._requests: set[str] = set()
        self._latest = 0
        self._lines = 0
        self._descriptor: int | None = None
        """What is appended to. None: the file may end in a torn line, or is not open; it is written again first."""
        self._holder = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._holder)
            raise Unavailable(f"{path}: another worker works with this state folder") from None
        try:
            self._read()
            self._rewrite(now.timestamp())
        except OSError as error:
            os.close(self._holder)
            raise Unavailable(f"{path}: {error.strerror or error}") from None
        except Unavailable:
            os.close(self._holder)
            raise

    def close(self) -> None:
        """Give the lock back."""
        self._let_go()
        os.close(self._holder)

    def used(self, nonce: str) -> bool:
        """Whether an envelope's or an approval's nonce was spent here."""
        with self._lock:
            return nonce in self._spent or nonce in self._approvals

    def ran(self, request_id: str) -> bool:
        """Whether a request of this id was started here."""
        with self._lock:
            return request_id in self._requests

    def grant_uses(self, grant: str) -> int:
        """How many requests were started here under a grant."""
        with self._lock:
            return sum(1 for entry in self._spent.values() if entry.grant == grant)

    def clock_behind(self, now: datetime) -> float:
        """Seconds by which the clock is behind the last entry; 0 if it is not."""
        return max(0.0, self._latest - now.timestamp())

    def spend(self, entry: Spent) -> None:
        """Record that it starts. Raises Refused (replayed, clock_went_back), Unavailable: then nothing may run."""
        with self._lock:
            if entry.nonce in self._spent or entry.approval in self._approvals or entry.request_id in self._requests:
                raise Refused("replayed", "this envelope, approval or request was started here before")
            if self._latest - entry.at > limits.CLOCK_BEHIND_SECONDS:
                raise Refused("clock_went_back", "the clock is behind the nonce journal; set it right")
            try:
                self._append(entry)
            except OSError as error:
                raise Unavailable(
                    f"{self._path}: cannot be written ({error.strerror or error}); nothing is started"
                ) from None
            finally:
                self._keep(entry)  # also what could not be written: it may be on disk

    def give_back(self, nonce: str) -> None:
        """No start token came, so approval and request may come again, in another envelope. What cannot be written
        stays spent.
        """
        with self._lock, contextlib.suppress(OSError):
            entry = replace(self._spent[nonce], approval="", request_id="", grant=None)
            self._append(entry)
            self._keep(entry)

    def _append(self, entry: Spent) -> None:
        """One more line, on disk. Raises OSError: part of it may be there."""
        descriptor = self._descriptor
        if descriptor is None or self._lines >= LINES_BEFORE_REWRITE:
            descriptor = self._rewrite(entry.at)
        try:
            durable.write_fd(descriptor, _line(entry), self._path)
            durable.sync_fd(descriptor, self._path)
        except OSError:
            self._let_go()
            raise
        self._lines += 1

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _keep(self, entry: Spent) -> None:
        if (old := self._spent.get(entry.nonce)) is not None:
            self._approvals.discard(old.approval)
            self._requests.discard(old.request_id)
        self._spent[entry.nonce] = entry
        self._approvals.add(entry.approval)
        self._requests.add(entry.request_id)
        self._latest = max(self._latest, entry.at)

    def _read(self) -> None:
        """Take in every line; a last one without its newline was never synced, so nothing was started by it."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        *lines, _torn = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                value = canonical.loads_strict(line, max_bytes=limits.JOURNAL_LINE_BYTES)
                if set(value) == {"latest"}:
                    self._latest = max(self._latest, _whole(value["latest"]))
                    continue
                entry = Spent(**value)
                _whole(entry.at), _whole(entry.expires)
            except (ValueError, TypeError):
                raise Unavailable(
                    f"{self._path}:{number}: is not an entry of a nonce journal; nothing starts until it is fixed"
                ) from None
            self._keep(entry)

    def _rewrite(self, now: float) -> int:
        """Write the journal again without what has expired; returns the descriptor to append to. Raises OSError.

        What is forgotten has expired by every clock that is not refused later.
        """
        kept = [entry for entry in self._spent.values() if entry.expires + limits.CLOCK_BEHIND_SECONDS > now]
        if self._latest - now > limits.CLOCK_BEHIND_SECONDS:
            kept = list(self._spent.values())
        elif len(kept) < len(self._spent):
            self._latest = max(self._latest, int(now))
        self._spent = {entry.nonce: entry for entry in kept}
        self._approvals = {entry.approval for entry in kept}
        self._requests = {entry.request_id for entry in kept}
        head = canonical.canonical_bytes({"latest": self._latest}) + b"\n"
        self._let_go()
        durable.overwrite(self._path, head + b"".join(map(_line, kept)))
        self._lines = len(kept)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        return self._descriptor


def _line(entry: Spent) -> bytes:
    return json.dumps(asdict(entry), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError("no whole number")
    return value
