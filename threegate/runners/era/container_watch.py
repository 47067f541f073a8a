"""Watches a running container: its output, its deadline, its cgroups, the operator's requests.

Invariant: the watch ends when PID 1 reports that it is alone, when the streams end, or GRACE_SECONDS after a
reason to stop, whatever the engine does. The watch asks PID 1 to stop a run, and kills PID 1 if it does not,
if the user has the permission (root). If the run has a lease, the watch sends the beats without which PID 1 ends it.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from threegate.core import limits
from threegate.request.job import Job
from threegate.runners.cgroup import CgroupFiles
from threegate.runners.era import spec
from threegate.runners.era.container_stream import FrameReader
from threegate.runners.interface import Control, Ended, StreamMeter, timed_out
from threegate.runners.lease import Minder
from threegate.runners.live_output import LastOutput

BEAT: Final = 0.02
GRACE_SECONDS: Final = 3.0
_TOLD_SECONDS: Final = 1.5
"""How long PID 1 may take to stop a run before it is killed."""
_CHUNK = 1 << 18
_CLOSING = re.compile(rb"([0-9a-f]{32}) ([0-9 ]{3}) ([0-9 ]{12}) ([0-9 ]{12})\n")
_CLOSING_LENGTH = 63


@dataclass(frozen=True, slots=True)
class Closing:
    """PID 1's last line: no other process is left. The command's exit status, and how full /out is."""

    exit_code: int
    names: int
    free: int
    """Remaining names or blocks, whichever are fewer."""


class _MarkedStream:
    """One stream up to PID 1's last line, which only PID 1 can write: the run never learns the mark."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._tail = b""
        self._most: int | None = None
        self.meter = StreamMeter()
        self.closing: Closing | None = None

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self.meter.size + len(self._tail)

    @property
    def tail(self) -> bytes:
        """Its last LIVE_TAIL_BYTES so far."""
        return (self.meter.tail + self._tail)[-limits.LIVE_TAIL_BYTES :]

    def write(self, data: bytes) -> None:
        """Process the next bytes. As many as the last line has are held back, because they may be it."""
        data = self._tail + data
        cut = max(len(data) - _CLOSING_LENGTH, 0)
        self._keep(data[:cut])
        self._tail = data[cut:]
        found = _CLOSING.fullmatch(self._tail)
        if found is not None and secrets.compare_digest(found[1], self._mark):
            self.closing, self._tail = Closing(*(int(found[number]) for number in (2, 3, 4))), b""

    def stop(self) -> None:
        """Discard everything from now on."""
        self._most = self.size

    def flush(self) -> None:
        """The stream has ended: what was held back is output."""
        self._keep(self._tail)
        self._tail = b""

    def _keep(self, data: bytes) -> None:
        self.meter.write(data if self._most is None else data[: max(self._most - self.meter.size, 0)])


class Streams:
    """The two outputs of a run."""

    def __init__(self, mark: str, output: LastOutput) -> None:
        self.out, self.err = _MarkedStream(mark.encode()), _MarkedStream(mark.encode())
        self._output = output
        self._frames = FrameReader()

    @property
    def closing(self) -> Closing | None:
        """PID 1's last line, once it arrived on both streams: then all output is here."""
        return self.out.closing if self.err.closing is not None else None

    def feed(self, data: bytes) -> None:
        """Process the next bytes of the connection."""
        for kind, piece in self._frames.read(data):
            name, stream = ("stderr", self.err) if kind == 2 else ("stdout", self.out)
            stream.write(piece)
            if stream.closing is None:
                self._output.put(name, stream.tail)


class ContainerWatch:
    """One container's run, from its start to PID 1's last line."""

    def __init__(
        self, job: Job, control: Control, pid: int, connection: socket.socket, *, init_can_be_stopped: bool
    ) -> None:
        self._bounds = job.limits
        mark = secrets.token_hex(16)
        self._go = spec.told(mark, job, control.lease_sec)
        self._control = control
        self._connection = connection
        self._next_beat = 0.0
        self._pidfd = os.pidfd_open(pid)
        self._minder: Minder | None = None
        if control.lease_sec is not None and init_can_be_stopped:
            self._minder = Minder()
            self._minder.take(self._pidfd, control.lease_sec)
        try:
            self._files = CgroupFiles.of(pid)
        except FileNotFoundError:  # hidden from this user, and so not read back
            self._files = CgroupFiles()
        self.streams = Streams(mark, control.output)
        self.ended: Ended | None = None
        self.lost = False
        """The end of the run is unknown: the engine is gone or does not answer."""
        self.cpu_ms: int | None = None
        self.peak: int | None = None
        self.refused_forks = 0
        self.out_of_memory = False
        self.wall_ms = 0
        self._give_up = float("inf")

    def run(self) -> None:
        """Start the command and watch until the end."""
        begin = time.monotonic()
        deadline = begin + self._bounds.time_sec
        with suppress(OSError):  # then the streams have ended, which the loop notices
            self._connection.settimeout(GRACE_SECONDS)
            self._connection.sendall(self._go)
        self._connection.setblocking(False)
        next_look = begin
        while self.streams.closing is None:
            now = time.monotonic()
            if now >= next_look:
                self._look(now, deadline)
                next_look = now + BEAT
            if now >= self._give_up:
                self.lost = True
                break
            waiting = [self._connection.fileno(), self._pidfd]
            ready = select.select(waiting, [], [], BEAT)[0]
            if self._connection.fileno() in ready and not self._read():
                break
            # Only when nothing is left to read: the last bytes may be PID 1's last line.
            if ready == [self._pidfd]:
                self._drain()
                break
        self.wall_ms = int((time.monotonic() - begin) * 1000)
        self.streams.out.flush()
        self.streams.err.flush()
        self._measure()

    def alone(self) -> bool | None:
        """Whether PID 1 is the only process in its cgroup, by the kernel's count; None if this user may not read it."""
        count = self._files.processes()
        return None if count is None else count == 1

    def kill(self) -> None:
        """Kill PID 1, and with it everything in its namespace, if permitted."""
        with suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def gone(self) -> bool:
        """Whether PID 1, and with it everything in its namespace, has ended."""
        return bool(select.select([self._pidfd], [], [], 0)[0])

    def unheard(self) -> str | None:
        """One sentence if it was ended from outside, because no beat came; else None."""
        return None if self._minder is None else self._minder.over()

    def close(self) -> None:
        """Make sure that the process is gone, and drop it; the second call does nothing."""
        if self._pidfd >= 0:
            self.kill()
            os.close(self._pidfd)
            self._pidfd = -1
            if self._minder is not None:
                self._minder.close()

    def _look(self, now: float, deadline: float) -> None:
        if self._control.lease_sec is not None and now >= self._next_beat:
            self._next_beat = now + min(1.0, self._control.lease_sec / 4)
            with suppress(OSError):  # the streams have ended, or PID 1 has enough of them to read
                self._connection.send(b"b")
            if self._minder is not None:
                self._minder.beat()
        self._measure()
        self._end(self._ending(now, deadline))

    def _ending(self, now: float, deadline: float) -> Ended | None:
        if (stopped := self._control.stopped()) is not None:
            return stopped
        if (over := self.unheard()) is not None:
            return "interrupted", over
        return timed_out(self._bounds) if now >= deadline else None

    def _end(self, ending: Ended | None) -> None:
        """Store the first reason to stop, and keep killing while there is one."""
        if ending is not None and self.ended is None:
            self.ended = ending
            self._give_up = time.monotonic() + GRACE_SECONDS
            # Output still in the pipe after the decision to stop is read and discarded.
            self.streams.out.stop()
            self.streams.err.stop()
            with suppress(OSError):
                self._connection.send(b"e")
        if self.ended is not None and time.monotonic() >= self._give_up - GRACE_SECONDS + _TOLD_SECONDS:
            self.kill()

    def _read(self) -> bool:
        """Read what is available; False at the end of the streams."""
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.streams.feed(data)
        for name, stream in (("stdout", self.streams.out), ("stderr", self.streams.err)):
            if self.ended is None and stream.size > self._bounds.stream_bytes:
                most = self._bounds.stream_bytes
                self._end(("output_exceeded", f"output_exceeded: {name} reached its limit of {most} bytes."))
        return bool(data)

    def _drain(self) -> None:
        """PID 1 is gone: read what is still in transit, for at most half a second."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            ready, _, _ = select.select([self._connection], [], [], BEAT)
            if ready and not self._read():
                return

    def _measure(self) -> None:
        self.refused_forks = self._files.refused_forks() or self.refused_forks
        self.out_of_memory = self._files.out_of_memory() or self.out_of_memory
        self.cpu_ms = self._files.cpu_ms() or self.cpu_ms
        self.peak = self._files.peak() or self.peak
