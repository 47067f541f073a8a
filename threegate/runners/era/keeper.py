"""PID 1 of a run's container: reports what it sees, runs one command, and outlives it until /out was
collected.

Invariant: when the end mark is written, no other process is left in the container, so that /out can no longer
change. The run can neither kill nor stop PID 1 of its namespace, nor inspect it, because it is not dumpable.
Everything ends when its standard input ends, which only the daemon holds: also if the daemon was killed. With a
lease everything ends when no beat came in for that long, also if the sender only stands still: beats that arrive
later renew nothing.

This file is the text of ``python3 -I -S -c`` inside the container. It imports only the standard library.

out: one line of JSON (`seen`); then the run's output; at the end on both streams: mark, exit code, names and
bytes

in: 8 digits, that many bytes (mark NUL seconds NUL lease NUL words…); later `b`: a beat; any other byte: stop the
run; end of input: exit too
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time
from contextlib import suppress

KILLED = 137
UNHEARD = 124
"""The exit code of PID 1 itself if the lease ended: the run cannot choose it."""
_PR_SET_DUMPABLE = 4
_COLLECT_SECONDS = 90
_NAMESPACES = ("net", "pid", "ipc", "mnt", "uts", "cgroup", "user")
_libc = ctypes.CDLL(None)


def seen() -> dict[str, object]:
    """What only a process inside can see: its namespaces, and the files behind /in and /out."""
    namespaces = {}
    for kind in _NAMESPACES:
        with suppress(OSError):
            namespaces[kind] = os.readlink(f"/proc/self/ns/{kind}")  # noqa: PTH115 pathlib is slow to import
    inputs, volume = os.stat("/in"), os.statvfs("/out")
    return {
        "uid": os.getuid(),
        "namespaces": namespaces,
        "in": [inputs.st_dev, inputs.st_ino],
        "out": [volume.f_blocks * volume.f_frsize, volume.f_files - 1, volume.f_files - volume.f_ffree - 1],
    }


def take_some(most: int = 4096) -> bytes:
    """The next bytes of the standard input. Raises EOFError."""
    data = os.read(0, most)
    if not data:
        raise EOFError
    return data


def take(count: int) -> bytes:
    """Exactly this many bytes of the standard input. Raises EOFError."""
    data = b""
    while len(data) < count:
        data += take_some(count - len(data))
    return data


def become(words: list[bytes]) -> None:
    """Execute the command, in the child. If memory runs out, the kernel should kill the run and not PID 1."""
    # Only PID 1 may read the daemon's input, whose end tells it that the daemon is gone.
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    # No other process exists yet that could look in.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.execve(words[0], words, {})  # noqa: S606 that is what it is for


def since_boot() -> float:
    """Seconds, and those in which the machine slept count: a run may be reported as lost meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def left_of(lease: float, heard: float) -> float:
    """Seconds until the lease ends. If it has ended, exit: the kernel then kills every process in the namespace."""
    left = heard + lease - since_boot()
    if left <= 0:
        os._exit(UNHEARD)
    return left


def watch(child: int, wake: int, deadline: float, lease: float) -> int:
    """Wait until the command ends, its time is up, or a byte stops it; return its exit code.

    Raises EOFError if the daemon is gone. Every step looks at the clocks and at the input: a run that makes endless
    orphans does not keep PID 1 from them.
    """
    heard = since_boot()
    while (left := deadline - time.monotonic()) > 0:
        left = min(left, left_of(lease, heard))
        found = 0
        with suppress(ChildProcessError):
            found, status = os.waitpid(-1, os.WNOHANG)
            if found == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        ready = select.select([0, wake], [], [], 0 if found else left)[0]
        if wake in ready:
            os.read(wake, 4096)
        if 0 in ready:
            # Before the beat counts: it may have waited while this process could not run.
            left_of(lease, heard)
            if take_some().strip(b"b"):
                break
            heard = since_boot()
    return KILLED


def end_all() -> None:
    """Kill every other process, and return when none is left."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
            alone = False
        except ProcessLookupError:
            alone = True
        try:
            os.waitpid(-1, os.WNOHANG if alone else 0)
        except ChildProcessError:
            if alone:
                return
            time.sleep(0.001)  # not our child: it joined from outside


def main() -> None:
    """Keep one run."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    # The kernel drops signals for which PID 1 has no handler; the run inherits the defaults.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    begun = since_boot()
    os.write(1, json.dumps(seen()).encode() + b"\n")
    mark, seconds, lease, *words = take(int(take(8))).split(b"\0")
    left_of(float(lease), begun)  # the sender may have stood still before it sent this
    deadline = time.monotonic() + int(seconds)
    child = os.fork()
    if child == 0:
        become(words)
    code = watch(child, wake, deadline, float(lease))
    end_all()
    volume = os.statvfs("/out")
    free = min(volume.f_ffree, volume.f_bfree)
    line = mark + b" %3d %12d %12d\n" % (code, volume.f_files - volume.f_ffree - 1, free)
    os.write(1, line)
    os.write(2, line)
    end = time.monotonic() + _COLLECT_SECONDS
    while (left := end - time.monotonic()) > 0 and select.select([0], [], [], left)[0]:
        take_some()


if __name__ == "__main__":
    try:
        main()
    finally:
        # Also in a child that could not execute, whatever went wrong: none of our text may appear in the
        # run's output.
        os._exit(125)
