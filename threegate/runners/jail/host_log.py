"""The log of the proxy to allowed hosts, for the launcher.

Form: a line of fixed length, ``unlisted N``, that is overwritten; then one line for each host, ``reached NAME`` or
``refused NAME``. Each listed host is there once it was reached; of the refused ones the first EGRESS_REFUSED are there,
and N counts the attempts at others.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from threegate.core import limits


class HostLog(NamedTuple):
    """What the proxy wrote down."""

    reached: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unlisted: int = 0
    """Refused attempts at further hosts."""


def unlisted_line(count: int) -> bytes:
    """The first line of the log; always as long."""
    return f"unlisted {count:019d}\n".encode()


def read_hosts(log: int) -> HostLog:
    """Read the log. Raises OSError."""
    lines = os.pread(log, limits.EGRESS_LOG_BYTES, 0).decode("ascii", "replace").splitlines()
    words = [line.split(" ", 1) for line in lines if " " in line]
    return HostLog(
        tuple(host for what, host in words if what == "reached"),
        tuple(host for what, host in words if what == "refused"),
        next((int(count) for what, count in words if what == "unlisted"), 0),
    )
