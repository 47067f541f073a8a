"""A second reader of URLs, written by hand, with which `threegate.plugins.proposals.urls` is compared.

It shares nothing with Ada. Whatever it refuses, and whatever it takes for private or metadata, must stay so.
"""

from __future__ import annotations

import bisect
import ipaddress
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

import idna

from threegate.core.public_address import GLOBAL_UNICAST6, METADATA4, METADATA6, NOT_PUBLIC4, NOT_PUBLIC6
from threegate.request.hosts import HostError, is_local_name, read_host

Reach = Literal["public", "address", "unnameable", "private", "metadata"]
"""public: may be in an allowlist · address: a public IP literal · unnameable: a name that no allowlist takes ·
private: not on the public internet · metadata: a cloud's secrets."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+\-.]*):[/\\]*([^/\\?#]*)([^#]*)")
"""Scheme, authority, and the rest without the fragment."""
_PORT: Final = re.compile(r"[0-9]{1,5}")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_IPV4_PART: Final = re.compile(r"0x(?P<hex>[0-9a-f]*)|0(?P<octal>[0-7]*)|(?P<decimal>[1-9][0-9]*)")
_BASES: Final = {"hex": 16, "octal": 8, "decimal": 10}
_FORBIDDEN: Final = re.compile(r"[\x00-\x20#/:<>?@\[\\\]^|%\x7f]")
_PORTS: Final = {"http": 80, "https": 443}


def _ends(network: str) -> tuple[int, int]:
    """First and last address of an IPv6 network."""
    found = ipaddress.IPv6Network(network)
    return int(found[0]), int(found[-1])


_METADATA6: Final = tuple(map(_ends, METADATA6))


def _ranges() -> list[tuple[int, int, Reach]]:
    """Ranges of IPv4 addresses that are not public, without overlaps, sorted: metadata cuts into what is private."""
    metadata = sorted((int(net[0]), int(net[-1])) for net in map(ipaddress.IPv4Network, METADATA4))
    found: list[tuple[int, int, Reach]] = [(first, last, "metadata") for first, last in metadata]
    for network in map(ipaddress.IPv4Network, NOT_PUBLIC4):
        first, end = int(network[0]), int(network[-1])
        for low, high in metadata:
            if first <= low and high <= end:
                found.append((first, low - 1, "private"))
                first = high + 1
        found.append((first, end, "private"))
    return sorted(item for item in found if item[0] <= item[1])


RANGES4: Final = _ranges()
"""First and last address and kind of each range, in order."""
_STARTS4: Final = [first for first, _, _ in RANGES4]
_METADATA_NAMES: Final = ("metadata", "instance-data", "metadata.goog")
_GLOBAL_UNICAST: Final = _ends(GLOBAL_UNICAST6)
_NOT_PUBLIC6: Final = tuple(map(_ends, NOT_PUBLIC6))
_EMBEDDING: Final = (
    (*_ends("::/96"), 0),
    (*_ends("::ffff:0:0/96"), 0),
    (*_ends("::ffff:0:0:0/96"), 0),
    (*_ends("64:ff9b::/96"), 0),
    (*_ends("64:ff9b:1::/48"), 0),
    (*_ends("2002::/16"), 80),
)
"""Networks whose addresses carry an IPv4 address, and how far it lies from the right end."""


class URLError(ValueError):
    """The text is not a URL that may be asked. `code` is stable; the message never repeats the text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class URL(NamedTuple):
    """An http or https URL: `name` is a lower-case ASCII host name without final dot, empty where there is an
    `address`.
    """

    scheme: str
    name: str
    port: int
    rest: str
    address: _Address | None

    @property
    def host(self) -> str:
        """The name, or the address without brackets."""
        return self.name if self.address is None else str(self.address)

    @property
    def text(self) -> str:
        """The URL in one spelling, with its port only when it is not the scheme's own."""
        host = f"[{self.host}]" if isinstance(self.address, ipaddress.IPv6Address) else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.rest}"


def read_url(text: str) -> URL:
    """Read an http or https URL of ASCII text. Raises URLError."""
    match = _URL.match(text)
    if match is None or (scheme := match[1].lower()) not in _PORTS:
        raise URLError("url_scheme", "only http and https URLs can be asked for")
    authority, rest = match.group(2, 3)
    if "@" in authority:
        raise URLError("url_credentials", "a URL with credentials is refused; leave them out")
    host_text, port = _split_port(authority, _PORTS[scheme])
    name, address = _read_host(host_text)
    if not rest.startswith("/"):
        rest = "/" + rest
    return URL(scheme, name, port, rest, address)


def reach(url: URL) -> Reach:
    """Where the host of a URL lies, as far as its spelling says (names are resolved at launch, by the proxy)."""
    if url.address is not None:
        return _reach_of_address(url.address)
    name = url.name
    if name in _METADATA_NAMES or name.startswith(("metadata.", "instance-data.")):
        return "metadata"
    try:
        read_host(name)
    except HostError:
        return "private" if is_local_name(name) else "unnameable"
    return "public"


def _split_port(authority: str, default: int) -> tuple[str, int]:
    host, colon, digits = authority.rpartition(":")
    if not colon or "]" in digits:
        return authority, default
    if not digits:
        return host, default
    number = digits.lstrip("0") or "0"
    if not _PORT.fullmatch(number) or int(number) > 65535:
        raise URLError("url_invalid", "the URL's port is not a number up to 65535")
    return host, int(number)


def _read_host(text: str) -> tuple[str, _Address | None]:
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1] if text.endswith("]") and "%" not in text else "")
        except ValueError:
            raise URLError("url_invalid", "the URL's host is no IPv6 address") from None
        return "", address
    try:
        name = unquote_to_bytes(text).decode("utf-8") if "%" in text else text
        if not name.isascii():
            name = idna.encode(name, uts46=True).decode("ascii")
    except (UnicodeError, ValueError):
        raise URLError("url_invalid", "the URL's host is no host name") from None
    name = name.lower()
    if not name or _FORBIDDEN.search(name):
        raise URLError("url_invalid", "the URL's host is missing or has a character that no host has")
    name = name.removesuffix(".")
    parts = name.split(".")
    if _NUMBER.fullmatch(parts[-1]):
        return "", _read_ipv4(parts)
    if "" in parts:
        raise URLError("url_invalid", "the URL's host has an empty part")
    return name, None


def _read_ipv4(parts: Sequence[str]) -> ipaddress.IPv4Address:
    *numbers, value = [_ipv4_number(part) for part in parts]
    if len(parts) > 4 or max(numbers, default=0) > 255 or value >= 256 ** (5 - len(parts)):
        raise URLError("url_invalid", "the URL's host is a number and no IPv4 address")
    for place, number in enumerate(numbers):
        value += number << 8 * (3 - place)
    return ipaddress.IPv4Address(value)


def _ipv4_number(part: str) -> int:
    """A part of an IPv4 address: decimal, octal with 0, hexadecimal with 0x. Long ones are cut: too large anyway."""
    if part.isdigit() and (part == "0" or part[0] != "0"):
        return int(part[:24])
    match = _IPV4_PART.fullmatch(part)
    if match is None:
        raise URLError("url_invalid", "the URL's host is a number and no IPv4 address")
    kind = str(match.lastgroup)
    digits = (match[kind] or "0").lstrip("0") or "0"
    return int(digits[:24], _BASES[kind])


def _reach_of_address(address: _Address) -> Reach:
    if isinstance(address, ipaddress.IPv4Address):
        return _reach_of_ipv4(int(address))
    number = int(address)
    for first, last, shift in _EMBEDDING:
        if first <= number <= last:
            return _reach_of_ipv4(number >> shift & 0xFFFF_FFFF)
    if _lies_in(number, _METADATA6):
        return "metadata"
    if not _lies_in(number, (_GLOBAL_UNICAST,)) or _lies_in(number, _NOT_PUBLIC6):
        return "private"
    return "address"


def _lies_in(number: int, networks: Sequence[tuple[int, int]]) -> bool:
    return any(first <= number <= last for first, last in networks)


def _reach_of_ipv4(number: int) -> Reach:
    place = bisect.bisect_right(_STARTS4, number) - 1
    _, last, kind = RANGES4[place]
    return kind if number <= last else "address"
