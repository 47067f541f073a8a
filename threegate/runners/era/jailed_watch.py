"""Watches a run in bubblewrap: its output, its deadline, its limits, the operator's requests.

Invariant: after `run` no process of the jail is left. The end is the jail's first process: the kernel kills every
process of its namespace with it, and it is gone only when all of them are.

The bubblewrap process outside is stopped while the command runs: it would end, and the jail with it, the moment the
command does, and with it the CPU time that the jail's first process knows. It dies with this process also when stopped.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from typing import Final

from threegate.request.job import Job
from threegate.runners.era.jailed_limits import HeldLimits
from threegate.runners.interface import Control, Ended, StreamMeter, timed_out
from threegate.runners.jail.jail import JailProcess
from threegate.runners.lease import Minder

BEAT: Final = 0.02
_CHUNK: Final = 1 << 18
_CODE_SECONDS: Final = 5.0
"""How long bubblewrap may take to pass on the exit code of a command that has ended."""


class JailedWatch:
    """One run, from the word that starts it to the end of its last process."""

    def __init__(self, job: Job, control: Control, process: JailProcess, command: int, held: HeldLimits) -> None:
        """`command` is a descriptor of the process that becomes the command; it still waits."""
        assert process.stdout is not None and process.stderr is not None
        self._bounds = job.limits
        self._control = control
        self._process = process
        self._command = command
        self._held = held
        self._pipes = {process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr"}
        self._minder: Minder | None = None
        if control.lease_sec is not None:
            self._minder = Minder()
            self._minder.take(process.first, control.lease_sec)
        self.meters = {"stdout": StreamMeter(), "stderr": StreamMeter()}
        self.ended: Ended | None = None
        """Why it was stopped; None: the command ended by itself."""
        self.exit_code: int | None = None
        """The command's, or 128 and the signal; None if it was stopped, or if it is not known."""
        self.wall_ms = 0
        process.send_signal(signal.SIGSTOP)

    def run(self) -> None:
        """Watch until the end. Raises Unavailable if a process does not go away."""
        begin = time.monotonic()
        deadline = begin + self._bounds.time_sec
        waiting = select.poll()
        for descriptor in self._pipes:
            os.set_blocking(descriptor, False)
            waiting.register(descriptor, select.POLLIN)
        waiting.register(self._command, select.POLLIN)
        next_look = begin
        while self.ended is None:
            now = time.monotonic()
            if now >= next_look:
                self._end(self._ending(now, deadline))
                after = time.monotonic()
                # A run that shares much memory makes a look long; it must not take more than half of our time.
                next_look = after + max(BEAT, after - now)
            ready = {descriptor for descriptor, _ in waiting.poll(BEAT * 1000)}
            for descriptor in ready & self._pipes.keys():
                if not self._read(descriptor):
                    waiting.unregister(descriptor)
            if self._command in ready:
                break
        self.wall_ms = int((time.monotonic() - begin) * 1000)
        self._held.look()  # what it used: its parents have reaped what ended
        self._process.send_signal(signal.SIGCONT)
        if self.ended is None:
            code = _wait(self._process)
            self.exit_code = code if code is not None and code >= 0 else None
        self._process.wait_empty()
        for descriptor in self._pipes:
            while self._read(descriptor):
                pass

    def unheard(self) -> str | None:
        """One sentence if it was ended from outside, because no beat came; else None."""
        return None if self._minder is None else self._minder.over()

    def close(self) -> None:
        """End what helps to watch."""
        if self._minder is not None:
            self._minder.close()

    def _ending(self, now: float, deadline: float) -> Ended | None:
        if self._minder is not None:
            self._minder.beat()
        found = self._held.look()
        if (stopped := self._control.stopped()) is not None:
            return stopped
        if (over := self.unheard()) is not None:
            return "interrupted", over
        if found is not None:
            return found
        return timed_out(self._bounds) if now >= deadline else None

    def _end(self, ending: Ended | None) -> None:
        """Store the first reason to stop, and kill every process of the run."""
        if ending is not None and self.ended is None:
            self.ended = ending
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process.first, signal.SIGKILL)

    def _read(self, descriptor: int) -> bool:
        """Read what is available; False at the end, or if nothing is there. What comes after a stop is discarded."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        name = self._pipes[descriptor]
        if data and self.ended is None:
            meter = self.meters[name]
            meter.write(data)
            self._control.output.put(name, meter.tail)
            most = self._bounds.stream_bytes
            if meter.size > most:
                self._end(("output_exceeded", f"output_exceeded: {name} reached its limit of {most} bytes."))
        return bool(data)


def _wait(process: JailProcess) -> int | None:
    """Its exit code; None if it does not end. Not as `Popen.wait` with a time limit, which sleeps between its looks."""
    if process.poll() is None:
        pidfd = os.pidfd_open(process.pid)
        try:
            waiting = select.poll()
            waiting.register(pidfd, select.POLLIN)
            waiting.poll(_CODE_SECONDS * 1000)
        finally:
            os.close(pidfd)
    return process.poll()
