"""Which daemon works with the broker, when a workspace was copied or restored and more than one is connected.

The broker has one message in `lead`, for one consumer at a time: the head of the leading daemon's trail. A daemon that
gets it leads if its own trail contains that head, and publishes its own; it leads from when its own head comes back,
so everything that was published before came first.

Invariant: a daemon whose trail lacks what the last leader recorded never leads, so it never starts what that one did.
No start token is given before a head that includes its claim is in the queue (`cover`). Leading ends by itself when the
broker is away for longer than LEAD_SECONDS, which is before the broker gives the message to another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.core.user_state import UserState
from threegate.core.workspace import Workspace
from threegate.plugins.cluster.seal import seal, unseal
from threegate.trail.trail import Trail
from threegate.trail.workspace_key import SigningKey

_TYPE: Final = "lead"
_ALONE_SECONDS: Final = 5.0
"""How long a daemon waits for the message before it says that another one has it."""


class Lead:
    """One daemon's part. Safe for threads; `heard` is called by the listener, the rest by others."""

    def __init__(
        self,
        workspace: Workspace,
        key: SigningKey,
        boot: str,
        publish: Callable[[bytes], None],
        say: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._key = key
        self._boot = boot
        self._publish = publish
        self._say = say
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._round = 0
        """Counts connections: only a head that was published over this one shows that nobody came in between."""
        self._first = False
        """Whether it is this daemon's turn: its own question or an earlier leader's head came to it."""
        self._covered = 0
        self._heard: float | None = None
        self._others: set[str] = set()
        self.behind: str | None = None
        """Why this daemon never leads: its trail lacks what another one recorded."""

    @property
    def leads(self) -> bool:
        """Whether this daemon may beat, place and start now."""
        heard = self._heard if self.behind is None else None
        return heard is not None and time.monotonic() - heard < limits.CLUSTER_LEAD_SECONDS

    @property
    def problem(self) -> str | None:
        """None when it leads, else one line for people."""
        if self.behind is not None:
            return self.behind
        if self.leads:
            return None
        if not self.waits:
            return "the broker has not answered yet"
        return "another daemon of this workspace works with the broker (a copy?); this one starts nothing until it ends"

    @property
    def waits(self) -> bool:
        """Whether another daemon has the message. One that had it and does not get it back waits for the broker."""
        asked = None if self.leads or self._first else self._asked
        return asked is not None and time.monotonic() - asked >= _ALONE_SECONDS

    def lose(self) -> None:
        """The connection ended: the message is the broker's again."""
        self._heard, self._asked, self._first = None, None, False
        self._round += 1

    def turn(self) -> None:
        """While connected, every CLUSTER_BEAT_SECONDS: ask for the message, or send it round. Raises Unavailable."""
        if self.behind is not None:
            return
        if self.leads or self._first:
            self._announce()
        elif self._asked is None:
            self._publish(seal(self._key, _TYPE, {"boot": self._boot}))
            self._asked = time.monotonic()

    def cover(self) -> None:
        """Return when the broker has a head with everything that this daemon claimed so far. Raises Unavailable."""
        self._check()
        if int(self._head()["seq"]) > self._covered:
            self._announce()
        self._check()

    def heard(self, data: bytes) -> bool:
        """A message of the queue; True to hold it. Raises Refused for one that this workspace's key did not sign."""
        note = unseal(data, self._key.public, _TYPE)
        boot, head = note.get("boot"), note.get("head")
        if head is None:
            if boot == self._boot:
                self._first = True
            elif boot not in self._others:
                self._others.add(str(boot))
                self._say("another daemon with this workspace's key came to the broker; it waits while this one works")
            return False
        if boot != self._boot:
            try:
                self.behind = _lacks(self._workspace, head)
            except Exception as error:  # noqa: BLE001 - unknown means no, and the message must not be lost for it
                self.behind = (
                    "the state that the broker has seen of this workspace cannot be compared with its trail "
                    f"({str(error) or type(error).__name__}); until a restart this daemon starts nothing on workers"
                )
            if self.behind is not None:
                self._say(self.behind)
        elif note.get("round") == self._round:
            self._heard = time.monotonic()
        self._first = self.behind is None
        return True

    def _check(self) -> None:
        if (problem := self.problem) is not None:
            raise Unavailable(problem)

    def _announce(self) -> None:
        with self._lock:  # a later head never stands before an earlier one
            head = self._head()
            self._publish(seal(self._key, _TYPE, {"boot": self._boot, "round": self._round, "head": head}))
            self._covered = max(self._covered, int(head["seq"]))

    def _head(self) -> dict[str, int | str]:
        kept = UserState.of(self._key.name.rpartition("/")[2]).read_head()
        if kept is None:
            raise Unavailable("no head of this workspace is kept on this machine: threegate settings adopt")
        return {name: kept[name] for name in ("epoch", "seq", "hash")}


def _lacks(workspace: Workspace, head: Mapping[str, Any]) -> str | None:
    """None when this workspace's trail contains the head, else one line. Raises Unavailable, TrailError."""
    trail = Trail(workspace)
    try:
        with trail.locked() as held:
            problem = held.lacks(head)
    finally:
        trail.close()
    if problem is None:
        return None
    return f"the broker has seen a later state of this workspace ({problem}); this daemon starts nothing on workers"
