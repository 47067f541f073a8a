"""PID 1 of a run's container: reports what it sees, runs one command, and outlives it until /out was
collected.

Invariant: when the end mark is written, no other process is left in the container, so that /out can no longer
change. The run can neither kill nor stop PID 1 of its namespace, nor inspect it, because it is not dumpable.
Everything ends when its standard input ends, which only the daemon holds: also if the daemon was killed.

This file is the text of ``python3 -I -S -c`` inside the container. It imports only the standard library.

out: one line of JSON (`seen`); then the run's output; at the end on both streams: mark, exit code, names and
bytes

in: 8 digits, that many bytes (mark NUL seconds NUL words…); later any byte: stop the run; end of input: exit
too
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


def take(count: int) -> bytes:
    """Exactly this many bytes of the standard input. Raises EOFError."""
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            raise EOFError
        data += part
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


def watch(child: int, wake: int, deadline: float) -> int:
    """Wait until the command ends, its time is up, or a byte stops it; return its exit code.

    Raises EOFError if the daemon is gone.
    """
    while (left := deadline - time.monotonic()) > 0:
        ready = select.select([0, wake], [], [], left)[0]
        if wake in ready:
            os.read(wake, 4096)
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == child:
                    code = os.waitstatus_to_exitcode(found[1])
                    return code if code >= 0 else 128 - code
        if 0 in ready:
            take(1)
            break
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
    os.write(1, json.dumps(seen()).encode() + b"\n")
    mark, seconds, *words = take(int(take(8))).split(b"\0")
    deadline = time.monotonic() + int(seconds)
    child = os.fork()
    if child == 0:
        become(words)
    code = watch(child, wake, deadline)
    end_all()
    volume = os.statvfs("/out")
    free = min(volume.f_ffree, volume.f_bfree)
    line = mark + b" %3d %12d %12d\n" % (code, volume.f_files - volume.f_ffree - 1, free)
    os.write(1, line)
    os.write(2, line)
    end = time.monotonic() + _COLLECT_SECONDS
    while (left := end - time.monotonic()) > 0 and select.select([0], [], [], left)[0]:
        take(1)


if __name__ == "__main__":
    try:
        main()
    finally:
        # Also in a child that could not execute, whatever went wrong: none of our text may appear in the
        # run's output.
        os._exit(125)
