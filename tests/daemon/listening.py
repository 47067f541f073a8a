"""A service manager's side of sd_notify: a real datagram socket that a real daemon process speaks to."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.support import THREEGATE, Place


class Manager:
    """Starts `threegate run` as systemd would and keeps everything that it says."""

    def __init__(self, place: Place, folder: Path, *, watchdog: float = 0.0, more: tuple[str, ...] = ()) -> None:
        self.said: list[dict[str, str]] = []
        self._unread: list[dict[str, str]] = []
        path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        environment = {**os.environ, "NOTIFY_SOCKET": str(path)}
        if watchdog:
            environment["WATCHDOG_USEC"] = str(int(watchdog * 1e6))
        self.log = folder / "daemon.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*THREEGATE, "run", *more],
                cwd=place.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def __enter__(self) -> Manager:
        self.wait(lambda message: message.get("READY") == "1")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(60)
        self._socket.close()

    def receive(self, seconds: float) -> list[dict[str, str]]:
        """What is said within `seconds`, and what nobody waited for yet."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._next(left)
        got, self._unread = self._unread, []
        return got

    def wait(self, wanted: Callable[[dict[str, str]], bool], seconds: float = 60) -> dict[str, str]:
        """Wait for a message; those before it are read away."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            while self._unread:
                if wanted(message := self._unread.pop(0)):
                    return message
            self._next(0.1)
            assert self._unread or self.process.poll() is None, self.log.read_text()
        raise AssertionError(f"not said within {seconds} s: {self.said}\n{self.log.read_text()}")

    def _next(self, seconds: float) -> None:
        if select.select([self._socket], [], [], seconds)[0]:
            lines = self._socket.recv(65536).decode().splitlines()
            self._unread.append(dict(line.split("=", 1) for line in lines))
            self.said.append(self._unread[-1])
