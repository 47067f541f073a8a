"""The other side of `minder`: starts it, gives it processes, beats, and tells whether it ended them.

Invariant: once `over` returned a text it returns the same text for ever, and whoever asked ends the processes as well.
"""

from __future__ import annotations

import math
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from threegate.core.own_process import standard_library_only
from threegate.runners import minder
from threegate.runners.interface import unheard

_END_SECONDS = 5.0
_WORDS = standard_library_only(Path(minder.__file__).read_text(encoding="utf-8"))


class Minder:
    """It serves until the first lease ends. Raises OSError if it cannot be started."""

    def __init__(self) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    _WORDS,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,  # what stops this process from a terminal must not stop it too
                )
        except OSError:
            self._door.close()
            raise
        self._door.setblocking(False)
        self._lock = threading.Lock()
        self._over: str | None = None
        self._pause = math.inf
        self._next = 0.0

    def take(self, pidfd: int, lease_sec: float) -> None:
        """End this process if no beat comes for so long. Raises OSError."""
        socket.send_fds(self._door, [b"%r" % lease_sec], [pidfd])
        self._pause = min(self._pause, 1.0, lease_sec / 4)

    def beat(self) -> None:
        """Send a beat if one is due; called often."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._pause
            with suppress(OSError):  # `over` finds out
                self._door.send(b"b")

    def over(self) -> str | None:
        """One sentence if it ended the processes, or is gone itself; else None."""
        with self._lock:
            if self._over is None and self._door.fileno() >= 0:
                with suppress(BlockingIOError):
                    self._over = _text(self._door)
            return self._over

    def close(self) -> None:
        """End it, and every process that it still has. `over` still returns what it found before that."""
        self.over()
        self._door.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # somebody stopped it
            self._process.kill()
            self._process.wait()


def _text(door: socket.socket) -> str:
    """Raises BlockingIOError if nothing came."""
    said = b""
    with suppress(ConnectionError):
        try:
            said = door.recv(64)
        except ConnectionResetError:  # it ended before it read all beats; what it said comes after that
            said = door.recv(64)
    if not said:
        return "Ended because the process that would end it without beats is gone."
    return unheard(float(said))
