"""How many requests one client may send: a bucket for each address, whatever its headers say.

Invariant: memory is bounded; a full table forgets the client that was quiet longest, never the busy one.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

from threegate.core import limits

_ROUNDING = 1e-6
"""Tolerance for floating point, in seconds."""


class RateLimit:
    """`per_minute` requests per minute for each client, in bursts of up to that many. `clock` is in seconds."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float], clients: int = limits.SERVE_CLIENTS) -> None:
        """All buckets start full."""
        self._capacity = float(per_minute)
        self._clock = clock
        self._clients = clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, address: str) -> int:
        """Take one request of this address: 0 if it may pass, else the whole seconds to wait (at least 1)."""
        now = self._clock()
        client = client_of(address)
        # Taken out and put back at the end, so that the first is the one that was quiet longest.
        left, before = self._buckets.pop(client, (self._capacity, now))
        left = min(self._capacity, left + (now - before) * self._capacity / 60)
        passes = left >= 1
        self._buckets[client] = (left - 1 if passes else left, now)
        if len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)
        return 0 if passes else max(1, math.ceil((1 - left) * 60 / self._capacity - _ROUNDING))


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or an IPv6 client's whole /64."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        # So a dual-stack socket names an IPv4 client.
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        # One host usually has a whole /64, and could come from another address each time.
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)
