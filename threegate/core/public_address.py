"""Which addresses are on the public internet.

Invariant: `is_public` is true only for a unicast address that is in no private, local, reserved, documentation or
metadata network. An IPv6 address that carries an IPv4 address (mapped, translated, NAT64, 6to4, Teredo) is never
public: a gateway on the way would decide where it leads, and may lead it into a private network.

Sources: the IANA special-purpose address registries (RFC 6890), RFC 6052 and RFC 8215 (NAT64), RFC 3056 (6to4),
RFC 4380 (Teredo). The standard library's `is_global` is not used: it takes NAT64, 6to4 and site-local addresses for
public, and differs between versions.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Final

NOT_PUBLIC4: Final = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
    "192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
).split()
"""This network, private, shared, loopback, link-local, protocol, documentation, 6to4 relays, benchmarks, multicast,
reserved.
"""
METADATA4: Final = "169.254.169.0/24 169.254.170.0/24 100.100.100.200/32 192.0.0.192/32 168.63.129.16/32".split()
"""Where clouds answer what a machine may do; the last one has a public number."""
METADATA6: Final = "fd00:ec2::/32 fd20:ce::254/128".split()
GLOBAL_UNICAST6: Final = "2000::/3"
"""Everything else of IPv6 is local, multicast, translated or reserved."""
NOT_PUBLIC6: Final = "2001::/23 2001:db8::/32 2002::/16 3fff::/20".split()
"""Of the above: protocols and Teredo, documentation, 6to4, documentation."""

_REFUSED4: Final = [ipaddress.IPv4Network(text) for text in (*NOT_PUBLIC4, *METADATA4)]
_REFUSED6: Final = [ipaddress.IPv6Network(text) for text in NOT_PUBLIC6]
_UNICAST6: Final = ipaddress.IPv6Network(GLOBAL_UNICAST6)


def is_public(address: str) -> bool:
    """Whether an address, as `getaddrinfo` gives it, is public. Raises ValueError for what is not an address."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _REFUSED4)
    return found in _UNICAST6 and not any(found in network for network in _REFUSED6)


def own_addresses() -> list[str]:
    """Every address of this host, on all interfaces and of all families (from /proc/net)."""
    found: set[str] = set()
    address = ""
    for line in Path("/proc/net/fib_trie").read_text(encoding="ascii").splitlines():
        if match := re.match(r"\s+\|-- (\S+)", line):
            address = match[1]
        elif "/32 host LOCAL" in line:
            found.add(address)
    if (ipv6 := Path("/proc/net/if_inet6")).exists():
        for line in ipv6.read_text(encoding="ascii").splitlines():
            found.add(str(ipaddress.IPv6Address(int(line.split()[0], 16))))
    return sorted(found)
