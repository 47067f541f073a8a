"""Keeps the proxy of a live run at what the trail says: opens a host that was signed, closes one that was taken back.

Invariant: the list comes from the trail and from claimed bytes alone (`reach.asked_hosts`), and only this gives it to
the proxy. While the trail cannot be read, nothing is open besides what the run was started with, and once that is taken
back, not even that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from threegate.core.errors import ThreeGateError
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.reach.asked_hosts import OpenHosts, write_open_hosts
from threegate.plugins.agents.reach.host_action import PORT
from threegate.runners.jail.side_process import SideProcess, allow_hosts
from threegate.trail.trail import Trail

_LOOK_SECONDS: Final = 0.05
_AGAIN_SECONDS: Final = 0.5
_END_SECONDS: Final = 10.0


class HostWatch(threading.Thread):
    """Looks at the trail whenever it grows, until the block ends."""

    def __init__(self, workspace: Workspace, run: AgentRun, proxy: SideProcess, allowed: Sequence[str]) -> None:
        super().__init__(name="host-watch", daemon=True)  # the trail's lock may be held by others when the run ends
        self._workspace, self._run, self._proxy = workspace, run, proxy
        self._hosts = OpenHosts(workspace, run, allowed)
        self._given: tuple[str, ...] = tuple(allowed)
        self._noted: tuple[str, ...] | None = None
        self._trail = Trail(workspace)
        self._over = threading.Event()

    def __enter__(self) -> HostWatch:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join(_END_SECONDS)

    def run(self) -> None:
        """Look, until the end."""
        self._note()
        seen: tuple[int, ...] = ()
        while not self._over.wait(_LOOK_SECONDS):
            now = self._state()
            if now == seen and not self._hosts.on_their_way:
                continue
            if self._look():
                seen = now
            else:
                seen, self._trail = (), Trail(self._workspace)
                self._over.wait(_AGAIN_SECONDS)

    def _state(self) -> tuple[int, ...]:
        """What differs once there is another event."""
        try:
            facts = os.stat(self._workspace.trail_file)
        except OSError:
            return ()
        return facts.st_ino, facts.st_size, facts.st_mtime_ns

    def _look(self) -> bool:
        """Give the proxy what is open now; whether that is known, in force, and noted."""
        try:
            with self._trail.locked() as held:
                hosts, known = self._hosts.now(held.index), True
        except (ThreeGateError, OSError):
            hosts, known = self._hosts.without_the_trail, False
        if hosts != self._given:
            if not allow_hosts(self._proxy, [f"{host}:{PORT}" for host in hosts]):
                return False
            self._given = hosts
        # The note comes after the proxy: whoever reads there that a host is open, or closed, can rely on it.
        return self._note() and known

    def _note(self) -> bool:
        """Write down what the proxy was given; whether that is there."""
        with suppress(OSError):  # a full disk, for instance
            if self._noted != self._given:
                write_open_hosts(self._run, self._given)
                self._noted = self._given
            return True
        return False
