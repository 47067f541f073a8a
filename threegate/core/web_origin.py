"""Web origins (RFC 6454) that a passkey may be bound to: https, a host name with a dot, and a port where it is not 443.

Invariant: each origin has one spelling here, the one that browsers write into what a passkey signs.
"""

from __future__ import annotations

import re
from typing import Final

from threegate.core import limits

_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ORIGIN: Final = re.compile(rf"https://((?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?)(?::([1-9][0-9]{{0,4}}))?")
_HTTPS_PORT: Final = 443


def parse_origin(text: str) -> tuple[str, int]:
    """Host name and port. Raises ValueError for everything else, with one line that says what is needed.

    IP addresses and `localhost` are no names that only one server can answer to: `[::1]` or another program on the
    same port may take their place.
    """
    match = _ORIGIN.fullmatch(text)
    host, port = (match[1], int(match[2] or _HTTPS_PORT)) if match else ("", 0)
    if not host or len(host) > limits.HOST_CHARS or port > 65535 or (match and match[2] == str(_HTTPS_PORT)):
        raise ValueError("is not an origin like https://approve.example.org or https://approve.example.org:8443")
    if host.endswith(".localhost"):
        raise ValueError("is on localhost, where any program of this machine can take its place")
    return host, port
