"""The log of the proxy to allowed hosts, for the launcher.

Form: a line of fixed length, ``unlisted N``; then a line for each destination, ``WORD BYTES BUSY HOST:PORT``, whose
first three columns have a fixed width and are overwritten. WORD is ``reached``, ``refused`` or ``lacking`` (a listed
name that leads nowhere). Each listed destination is there once it was asked for; of the refused ones the first
EGRESS_REFUSED are there, and N counts the attempts at others.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from threegate.core import limits
from threegate.runners.interface import Destination


class HostLog(NamedTuple):
    """What the proxy wrote down."""

    destinations: tuple[Destination, ...] = ()
    """All of them, in the order in which they were first asked for."""
    lacking: tuple[Destination, ...] = ()
    """Those of them that are listed and have no address."""
    unlisted: int = 0
    """Refused attempts at further destinations."""

    @property
    def reached(self) -> tuple[str, ...]:
        """Names of the listed hosts to which a connection was made or tried."""
        return tuple(map(_name, self._reached))

    @property
    def reached_bytes(self) -> tuple[int, ...]:
        """Bytes to and from each of them together, in their order."""
        return tuple(item.bytes for item in self._reached)

    @property
    def _reached(self) -> list[Destination]:
        return [item for item in self.destinations if item.allowed and item not in self.lacking]

    @property
    def refused(self) -> tuple[str, ...]:
        """Names of the first hosts that were refused."""
        return tuple(_name(item) for item in self.destinations if not item.allowed)


def _name(destination: Destination) -> str:
    return destination.host if destination.port == 443 else f"{destination.host}:{destination.port}"


def unlisted_line(count: int) -> bytes:
    """The first line of the log; always as long."""
    return f"unlisted {count:019d}\n".encode()


def destination_line(word: str, size: int, busy: bool, target: str) -> bytes:
    """The line of one destination; as long for each word and size. `word` has seven letters."""
    return f"{word} {size:019d} {busy:d} {target}\n".encode()


def read_hosts(log: int) -> HostLog:
    """Read the log. Raises OSError."""
    first, *lines = os.pread(log, limits.EGRESS_LOG_BYTES, 0).decode("ascii", "replace").splitlines()
    found: list[Destination] = []
    lacking: list[Destination] = []
    for line in lines:
        word, size, busy, target = line.split(" ")
        host, _, port = target.rpartition(":")
        found.append(Destination(host, int(port), int(size), word != "refused", busy == "1"))
        if word == "lacking":
            lacking.append(found[-1])
    return HostLog(tuple(found), tuple(lacking), int(first.split()[1]))
