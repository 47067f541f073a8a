"""The one reader for network targets: allowlists of requests and URLs of proposals use it.

Invariant: what `read_host` accepts is a public DNS name in lower-case ASCII with at least two labels; never
an IP address in any notation, a wildcard, a local or private name.
"""

from __future__ import annotations

import re

from threegate.core import limits
from threegate.request.characters import has_hidden
from threegate.request.model import NetworkTarget

DEFAULT_PORT = 443

LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}")
NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")

# Names that are private, reserved (RFC 6761, 6762, 8375) or resolve to an address written in the name.
_LOCAL_NAMES = frozenset(
    "localhost local localdomain internal intranet private lan home corp mail arpa invalid test onion localtest.me "
    "lvh.me vcap.me nip.io sslip.io xip.io".split()
)
_BELOW_LOCAL = tuple(f".{name}" for name in _LOCAL_NAMES)


class HostError(ValueError):
    """The text names no public host; the message says why in a few words and never repeats the text."""


def read_target(text: str) -> NetworkTarget:
    """Read ``host`` or ``host:port``. Raises HostError."""
    host, colon, port = text.partition(":")
    number = DEFAULT_PORT
    if colon:
        if not is_port(port):
            raise HostError("the port is not a number from 1 to 65535 (an IPv6 address or a URL is not a host)")
        number = int(port)
    return NetworkTarget(read_host(host), number)


def is_port(text: str) -> bool:
    """Whether a text is a number from 1 to 65535, without zeros before it."""
    return _PORT.fullmatch(text) is not None and int(text) <= 65535


def read_host(text: str) -> str:
    """Read a bare host name and return it. Raises HostError."""
    if len(text) > limits.HOST_CHARS:
        raise HostError(f"longer than {limits.HOST_CHARS} characters")
    if "*" in text:
        raise HostError("no wildcards; name each host")
    labels = text.split(".")
    for label in labels:
        if not LABEL.fullmatch(label):
            raise HostError("not a lower-case ASCII host name (use punycode for others)")
        if label[2:4] == "--":
            _refuse_bad_punycode(label)
    # What ends with a number is an address to some reader (127.1, 0x7f.0.0.1).
    if NUMERIC.fullmatch(labels[-1]):
        raise HostError("an IP address; name the host")
    if len(labels) < 2:
        raise HostError("a name without a dot is a local name")
    if is_local_name(text):
        raise HostError("a private, local or address-bearing name")
    return text


def is_local_name(text: str) -> bool:
    """Whether a lower-case name without a final dot is local, reserved, or bears an address."""
    return "." not in text or text in _LOCAL_NAMES or text.endswith(_BELOW_LOCAL)


def _refuse_bad_punycode(label: str) -> None:
    """A label with hyphens in the third and fourth place must be punycode that decodes (RFC 5891)."""
    try:
        decoded = label[4:].encode("ascii").decode("punycode") if label.startswith("xn--") else ""
    except UnicodeError:
        decoded = ""
    if decoded.isascii() or has_hidden(decoded):
        raise HostError("not valid punycode")
