"""Which call made which request, and whether its answer was delivered.

Invariant: a call that is repeated while its request is open, or before its answer reached the client, finds that
request; afterwards the same call makes a new one, unless a person rejected it. What is here outlives the MCP server,
and two servers of one requester share it: whoever drafts holds its lock from the look to the draft, and an entry is on
disk before the draft that it names. For a run it is in the run's folder, where the agent can neither read nor write it.
For the inbox it is in a folder of the account that serves, which writes to the inbox anyway: nothing here decides
anything.

After a crash an entry may name a draft that never appeared (`placed` is false then); the door looks whether it did.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pydantic import Field, ValidationError

from threegate.core import canonical, durable, limits
from threegate.core.errors import InvalidInput, Unavailable
from threegate.core.held_folder import HeldFolder
from threegate.core.record import Record
from threegate.core.workspace import AgentRun, Workspace

_ENTRY: Final = re.compile(r"([0-9a-f]{64})\.json").fullmatch


class MadeRequest(Record):
    """A request that a call made."""

    request_id: str = Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")
    file: str = Field(pattern=r"^TR-[A-Za-z0-9._-]{1,196}\.md$")
    tool: str = Field(max_length=128)
    delivered: bool = False
    """Whether its answer reached the client."""
    withdrawn: bool = False
    placed: bool = True
    """Whether its draft is known to have reached the inbox."""
    again: bool = False
    """Whether the same call may be made again although a person rejected it."""
    where: str = Field(default="", max_length=16)
    """What the door chose for `where: "auto"`, and why."""
    why: str = Field(default="", max_length=600)
    code_line: int = 0
    """The draft's line with the first line of the caller's code, and how many it has; 0 if it is not in the draft."""
    code_lines: int = 0
    kept: bool = False
    """Whether it is never forgotten: what a person says of it counts for as long as the run lives."""


class CallLedger:
    """The calls of one requester."""

    def __init__(self, workspace: Workspace, run: AgentRun | None) -> None:
        """Store where they are; nothing is opened."""
        self._workspace = workspace
        self._folder = run.calls if run is not None else workspace.inbox / f".calls-{os.geteuid()}"

    @contextmanager
    def locked(self) -> Iterator[OpenLedger]:
        """The ledger for whoever changes it. Raises Unavailable, OSError."""
        with self._held() as folder:
            fcntl.flock(folder.fileno(), fcntl.LOCK_EX)
            yield OpenLedger(folder)

    def last(self, digest: str) -> MadeRequest | None:
        """The last request of a call, as `OpenLedger.last`. Raises Unavailable, OSError."""
        with self._held() as folder:
            return OpenLedger(folder).last(digest)

    def own(self, request_id: str) -> tuple[str, MadeRequest] | None:
        """The call of a request. Raises Unavailable, OSError."""
        with self._held() as folder:
            found = ((digest, made) for digest, made in OpenLedger(folder).all() if made.request_id == request_id)
            return next(found, None)

    def all(self) -> list[MadeRequest]:
        """Every request, in the order of their files. Raises Unavailable, OSError."""
        with self._held() as folder:
            return sorted((made for _, made in OpenLedger(folder).all()), key=lambda made: made.file)

    def delivered(self, digest: str, request_id: str) -> None:
        """The answer about a request reached the client. Raises Unavailable, OSError."""
        with self.locked() as ledger:
            made = ledger.last(digest)
            if made is not None and made.request_id == request_id and not made.delivered:
                ledger.put(digest, replaced(made, delivered=True))

    @contextmanager
    def _held(self) -> Iterator[HeldFolder]:
        parent = self._folder.parent
        with self._workspace.hold(parent) as above:
            try:
                durable.make_folder_at(above.fileno(), self._folder.name, self._folder)
                durable.sync_folder_at(above.fileno(), parent)
            except FileExistsError:
                pass
            with above.folder(self._folder.name) as folder:
                facts = folder.facts()
                # Others may write to the inbox: what is not ours was made by someone else.
                if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                    raise Unavailable(f"{self._folder}: does not belong to this account alone; remove it")
                yield folder


class OpenLedger:
    """The open folder: a file for each call, by its digest."""

    def __init__(self, folder: HeldFolder) -> None:
        self._folder = folder

    def last(self, digest: str) -> MadeRequest | None:
        """The last request of a call; None if there is none, or if its entry cannot be read."""
        with suppress(OSError, ValidationError, canonical.StrictJSONError):
            data, _ = self._folder.read(f"{digest}.json", max_bytes=limits.DOOR_CALL_BYTES)
            return MadeRequest.model_validate(canonical.loads_strict(data, max_bytes=limits.DOOR_CALL_BYTES))
        return None  # derived data: at worst, a repeated call makes a new request

    def all(self) -> Iterator[tuple[str, MadeRequest]]:
        """Every call that can be read, with its digest. Raises OSError."""
        for name in self._names():
            if (match := _ENTRY(name)) and (made := self.last(match[1])) is not None:
                yield match[1], made

    def put(self, digest: str, made: MadeRequest) -> None:
        """Store the call. An earlier one with the same digest is kept under its own request. Raises InvalidInput if
        too many are open, OSError.
        """
        earlier = self.last(digest)
        if earlier is None or earlier.request_id != made.request_id:
            self._make_room()
        if earlier is not None and earlier.request_id != made.request_id and earlier.placed:
            self._write(canonical.sha256_hex(earlier.request_id.encode()), earlier)
        self._write(digest, made)

    def _write(self, digest: str, made: MadeRequest) -> None:
        self._folder.overwrite(f"{digest}.json", canonical.canonical_bytes(made.model_dump()))

    def _names(self) -> list[str]:
        with self._folder.entries() as entries:
            return sorted(entry.name for entry in entries)

    def _make_room(self) -> None:
        """Forget the oldest calls that were answered or withdrawn, and what a crash left."""
        names = self._names()
        for name in names:
            if not _ENTRY(name):
                self._remove(name)
        left = sum(bool(_ENTRY(name)) for name in names) - limits.DOOR_CALLS + 1
        if left <= 0:
            return
        done = [
            (made.file, digest) for digest, made in self.all() if (made.delivered or made.withdrawn) and not made.kept
        ]
        for _, digest in sorted(done)[:left]:
            self._remove(f"{digest}.json")
        if len(done) < left:
            raise InvalidInput(f"{limits.DOOR_CALLS} of your requests are open; `wait` for some, or `cancel` them")

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            self._folder.unlink(name)


def replaced(made: MadeRequest, **changes: object) -> MadeRequest:
    """The entry with changes."""
    return made.model_copy(update=changes)
