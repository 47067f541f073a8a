"""What a run with an allowlist may reach, as a squid configuration, and what was reached, from squid's log.

Invariant: only the listed (host, port) pairs pass; a name that is not listed is never looked up, so that not even a DNS
query leaves; a listed name that resolves to this host, or to an address that is not public, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from threegate.core import limits
from threegate.core.public_address import METADATA4, NOT_PUBLIC4, NOT_PUBLIC6
from threegate.runners.egress.secret_header import SecretHeader, squid_lines
from threegate.runners.interface import Destination

PROXY_PORT = 3129
_NOT_PUBLIC = [
    *NOT_PUBLIC4,
    *METADATA4,
    *NOT_PUBLIC6,
    "::/127",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
]
"""What is not public (`core.public_address`). Of IPv6 outside of global unicast what can be routed is named one by one:
squid keeps an IPv4 address as an IPv6 address of ``::ffff:0:0/96``.
"""
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?")

_HEAD = f"""\
http_port 127.0.0.1:{PROXY_PORT}
visible_hostname threegate
pid_filename none
coredump_dir none
netdb_filename none
pinger_enable off
cache deny all
cache_mem 8 MB
memory_pools off
max_filedescriptors 256
hosts_file none
forwarded_for delete
via off
request_header_access X-Forwarded-For deny all
negative_dns_ttl 60 seconds
positive_dns_ttl 60 seconds
connect_timeout 20 seconds
dns_timeout 10 seconds
shutdown_lifetime 0 seconds
cache_log /dev/null
cache_store_log none
logfile_rotate 0
buffered_logs off
logformat threegate %Ss %>Hs %>st %<st %<lp %rm %ru
umask 022
access_log stdio:/egress/access.log logformat=threegate
acl literal dstdom_regex -n : % \\[ (^|\\.)([0-9]+|0x[0-9a-f]*)\\.?$
"""


def squid_conf(pairs: Sequence[str], own_addresses: Iterable[str], secret: SecretHeader | None = None) -> str:
    """squid.conf for ``host:port`` pairs, and for the one request that gets a secret. Raises ValueError for a
    pair that gate 1 would have refused.
    """
    targets = [read_pair(pair) for pair in pairs]
    refused = [*_NOT_PUBLIC, *own_addresses]
    lines = [_HEAD + f"acl refused dst {' '.join(refused)}"]
    # `-n`: otherwise squid asks for the name of an address, which the owner of the address can choose.
    lines.append("acl names dstdomain -n " + " ".join(sorted({host for host, _ in targets})))
    for number, (host, port) in enumerate(targets):
        lines += [f"acl host{number} dstdomain -n {host}", f"acl port{number} port {port}"]
    lines += ["http_access deny manager", "http_access deny literal", "http_access deny !names"]
    if secret is not None:
        lines += squid_lines(secret)
    # A pair's port is checked before its name is looked up.
    lines.append("http_access deny " + " ".join(f"!port{number}" for number in range(len(targets))))
    lines.append("http_access deny refused")
    lines += [f"http_access allow host{number} port{number}" for number in range(len(targets))]
    lines.append("http_access deny all")
    return "\n".join(lines) + "\n"


def read_pair(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not _HOST.fullmatch(host) or not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise ValueError(f"not a host and a port: {text[:80]!r}")
    return host, int(port)


class AccessLog(NamedTuple):
    """What squid's access log has."""

    destinations: list[Destination]
    """All that were allowed, and the first EGRESS_REFUSED of the others, of which a run can make up any number."""
    unlisted: int
    """Refused attempts at others."""


def read_access_log(text: str) -> AccessLog:
    """Destinations from squid's access log, one for each host, port and answer, with the bytes of both directions."""
    sums: dict[tuple[str, int, bool], int] = {}
    busy: set[tuple[str, int, bool]] = set()
    refused = unlisted = 0
    for line in text.splitlines():
        fields = line.split(" ", 6)
        if len(fields) != 7:
            continue
        result, status, sent, received, port, method, url = fields
        target = _target(method, url)
        allowed = "DENIED" not in result
        # Without a port of its own squid had no connection: nobody was reached, and the answer is squid's.
        if target is None or (allowed and port in ("-", "0")):
            continue
        key = (*target, allowed)
        known = key in sums
        if known or allowed or refused < limits.EGRESS_REFUSED:
            refused += not known and not allowed
            sums[key] = sums.get(key, 0) + sum(int(size) for size in (sent, received) if size.isdigit())
            if status == "429":
                busy.add(key)
        else:
            unlisted += 1
    found = [
        Destination(host, port, size, allowed, allowed and (host, port, allowed) in busy)
        for (host, port, allowed), size in sorted(sums.items())
    ]
    return AccessLog(found, unlisted)


def _target(method: str, url: str) -> tuple[str, int] | None:
    """Host and port of a request line; the host is what the run wrote, made printable."""
    if method == "CONNECT":
        host, _, port = url.rpartition(":")
    elif match := re.match(r"([a-z]+)://([^/?#]*)", url):
        host, _, port = match[2].rpartition("@")[2].partition(":")
        port = port or {"http": "80", "https": "443", "ftp": "21"}.get(match[1], "0")
    else:
        return None
    clean = host.lower().rstrip(".").encode("unicode_escape").decode("ascii")[: limits.TRAIL_STRING_CHARS]
    return (clean, int(port)) if port.isdigit() and clean and int(port) <= 65535 else None
