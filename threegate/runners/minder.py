"""A process of its own that ends runs from outside when nothing was heard from the process that watches them.

It is for runs that cannot do that themselves: Monty's program takes no beats, and gVisor lets a run stop PID 1. It has
a descriptor of each process and kills them all when the first lease ends, or when its socket ends.

Invariant: beats that waited while this process could not run renew nothing. It says that it ends the processes before
it does, so that its parent never takes that for an end of their own.

This file is the text of ``python3 -I -S -c``. It imports only the standard library.

in (standard input, a SEQPACKET socket): `b`: a beat; `seconds` with a pidfd: a process and its lease
out: `seconds` once, the lease that ended
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress


def since_boot() -> float:
    """Seconds, and those in which the machine slept count: a run may be reported as lost meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def mind(door: socket.socket, leases: dict[int, float]) -> None:
    """Take processes and beats, until a lease or the input ends. `leases`: pidfd of a living process → seconds."""
    heard = since_boot()
    while True:
        left = min(leases.values(), default=0) + heard - since_boot()
        ready = select.select([0, *leases], [], [], max(left, 0) if leases else None)[0]
        for pidfd in leases.keys() & set(ready):  # it has ended
            os.close(pidfd)
            del leases[pidfd]
        if leases and since_boot() - heard >= (least := min(leases.values())):
            door.send(b"%g" % least)
            return
        if 0 in ready:
            data, taken, _, _ = socket.recv_fds(door, 64, 1)
            if not data:
                return
            if data != b"b":
                leases[taken[0]] = float(data)
            heard = since_boot()


def main() -> None:
    """Mind until the end, then end all that were given."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service that stops gives its runs some time
    leases: dict[int, float] = {}
    try:
        mind(socket.socket(fileno=0), leases)
    finally:
        for pidfd in leases:
            with suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)


if __name__ == "__main__":
    main()
