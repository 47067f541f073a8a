"""The log of the proxy to allowed hosts, for the launcher: one line per host, ``reached NAME`` or ``refused
NAME``.
"""

from __future__ import annotations

import os

from threegate.core import limits


def read_hosts(log: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Hosts that were reached, and hosts that were refused."""
    lines = os.pread(log, limits.EGRESS_LOG_BYTES, 0).decode("ascii", "replace").splitlines()
    words = [line.split(" ", 1) for line in lines if " " in line]
    return (
        tuple(host for what, host in words if what == "reached"),
        tuple(host for what, host in words if what == "refused"),
    )
