"""Watches a running container: its output, its deadline, its cgroups, the operator's wishes.

Invariant: the watch ends when the streams end, or GRACE_SECONDS after a reason to end it, whatever the engine does; it
kills through a pidfd of PID 1, so that it needs no answer from the engine for that.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import Final

from threegate.request.job import JobLimits
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.interface import Control, Status
from threegate.runners.streams import StreamMeter

BEAT: Final = 0.02
GRACE_SECONDS: Final = 3.0
_CHUNK = 1 << 18
_HEADER = struct.Struct(">BxxxL")


class Streams:
    """Takes the engine's multiplexed stream apart into stdout and stderr."""

    def __init__(self) -> None:
        self.out, self.err = StreamMeter(), StreamMeter()
        self._head = b""
        self._left = 0
        self._meter = self.out

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        while data:
            if self._left == 0:
                need = _HEADER.size - len(self._head)
                self._head, data = self._head + data[:need], data[need:]
                if len(self._head) < _HEADER.size:
                    return
                kind, self._left = _HEADER.unpack(self._head)
                self._meter = self.err if kind == 2 else self.out
                self._head = b""
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            self._meter.write(part)


class ContainerWatch:
    """One container's run, from the go byte to the end of its streams."""

    def __init__(self, bounds: JobLimits, control: Control, pid: int, connection: socket.socket) -> None:
        self._bounds = bounds
        self._control = control
        self._connection = connection
        self._pidfd = os.pidfd_open(pid)
        self._files = CgroupFiles.of(pid)
        self._refusals = self._files.watch_refused_forks()
        self.streams = Streams()
        self.ended: tuple[Status, str] | None = None
        self.lost = False
        """The streams never ended: the engine is gone or does not answer."""
        self.cpu_ms: int | None = None
        self.peak: int | None = None
        self.wall_ms = 0
        self._give_up = float("inf")

    def run(self) -> None:
        """Give the go and watch until the end."""
        begin = time.monotonic()
        deadline = begin + self._bounds.time_sec
        self._connection.setblocking(False)
        with suppress(OSError):
            self._connection.sendall(b"go\n")
            self._connection.shutdown(socket.SHUT_WR)
        next_look = begin
        while True:
            now = time.monotonic()
            if now >= next_look:
                self._look(now, deadline)
                next_look = now + BEAT
            if now >= self._give_up:
                self.lost = True
                break
            waiting = [self._connection.fileno(), self._pidfd]
            ready, _, told = select.select(waiting, [], self._refusals.waitable(), BEAT)
            if told or self._pidfd in ready:
                self._refusals.look()
            if self._connection.fileno() in ready and not self._read():
                break
            if ready == [self._pidfd]:
                self._drain()
                break
        self.wall_ms = int((time.monotonic() - begin) * 1000)
        self._measure()

    @property
    def refused_forks(self) -> int:
        """How often the kernel refused a fork so far."""
        return self._refusals.count

    def kill(self) -> None:
        """End PID 1, and with it everything in its namespace."""
        with suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Make sure that the process is gone, and forget it; the second time does nothing."""
        if self._pidfd >= 0:
            self.kill()
            os.close(self._pidfd)
            self._pidfd = -1
            self._refusals.close()

    def _look(self, now: float, deadline: float) -> None:
        self._measure()
        self._end(self._ending(now, deadline))

    def _ending(self, now: float, deadline: float) -> tuple[Status, str] | None:
        if self._control.cancelled.is_set():
            return "cancelled", "Cancelled by the operator while it ran."
        if self._control.interrupted.is_set():
            return "interrupted", "Interrupted because the daemon stopped."
        if now >= deadline:
            return "timed_out", f"timed_out: the time limit of {self._bounds.time_sec} s was reached."
        return None

    def _end(self, ending: tuple[Status, str] | None) -> None:
        """Keep the first reason to end, and kill for as long as there is one."""
        if ending is not None and self.ended is None:
            self.ended = ending
            self._give_up = time.monotonic() + GRACE_SECONDS
        if self.ended is not None:
            self.kill()

    def _read(self) -> bool:
        """Take what is there; False at the end of the streams."""
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self.ended is not None:
            # What was on its way when the end was decided is taken off the pipe and not kept.
            return bool(data)
        self.streams.feed(data)
        for name, meter in (("stdout", self.streams.out), ("stderr", self.streams.err)):
            if meter.size > self._bounds.stream_bytes:
                most = self._bounds.stream_bytes
                self._end(("output_exceeded", f"output_exceeded: {name} reached its limit of {most} bytes."))
        return bool(data)

    def _drain(self) -> None:
        """PID 1 is gone: take what is still on its way, for half a second at most."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            ready, _, _ = select.select([self._connection], [], [], BEAT)
            if ready and not self._read():
                return

    def _measure(self) -> None:
        self._refusals.look()
        self.cpu_ms = self._files.cpu_ms() or self.cpu_ms
        self.peak = self._files.peak() or self.peak
