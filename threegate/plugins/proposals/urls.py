"""URLs of proposals, read as a browser reads them (WHATWG URL Standard, by Ada, which Node.js uses as well).

Invariant: whatever spelling a host has (octal, hexadecimal, short, percent-encoded, fullwidth, a final dot, an
IPv6 form that carries an IPv4 address), `read_url` gives the host that a client would really ask, and `reach`
says where it is. Names are judged with the host reader of gate 1 (`threegate.request.hosts`).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, Literal, NamedTuple

import ada_url
import idna

from threegate.core.public_address import METADATA4, METADATA6, is_public
from threegate.plugins.proposals.formats import is_uri
from threegate.request.hosts import HostError, is_local_name, read_host

Reach = Literal["public", "address", "unnameable", "private", "metadata"]
"""public: may be in an allowlist · address: a public IP literal · unnameable: a name that no allowlist takes ·
private: not on the public internet · metadata: a cloud's secrets."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+\-.]*):/*([^/?#]*)([^#]*)")
"""Scheme, authority, and the rest without the fragment, of a URI of RFC 3986."""
_PORTS: Final = {"http": 80, "https": 443}
_METADATA_NAMES: Final = ("metadata", "instance-data", "metadata.goog")
_METADATA: Final = tuple(map(ipaddress.ip_network, (*METADATA4, *METADATA6)))
_EMBEDDING: Final = (
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("64:ff9b:1::/48"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
"""Networks whose addresses carry an IPv4 address, and how far it is from the right end."""


class URLError(ValueError):
    """The text is not a URL that may be asked. `code` is stable; the message never repeats the text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class URL(NamedTuple):
    """An http or https URL. `name` is lower-case ASCII without final dot; empty if there is an `address`."""

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
    if "@" in authority:  # Ada drops empty credentials
        raise URLError("url_credentials", "a URL with credentials is refused; leave them out")
    # Ada removes tabs and line breaks, takes a backslash for a slash and encodes what is not ASCII: such a text is
    # not what a reader sees.
    if not is_uri(text):
        raise URLError("url_invalid", "the URL is not a URI of RFC 3986")
    try:
        parsed = ada_url.URL(text)
    except ValueError:
        raise URLError("url_invalid", "the URL has an invalid host or port") from None
    if not rest.startswith("/"):
        rest = "/" + rest
    name, address = _read_host(parsed.hostname, percent_encoded="%" in authority)
    return URL(scheme, name, int(parsed.port or _PORTS[scheme]), rest, address)


def reach(url: URL) -> Reach:
    """Where the host of a URL is, as far as its spelling says (names are resolved at launch, by the proxy)."""
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


def _read_host(host: str, *, percent_encoded: bool) -> tuple[str, _Address | None]:
    """The name or the address that Ada read."""
    try:
        return "", ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        name = host.removesuffix(".")
    if "" in name.split("."):
        raise URLError("url_invalid", "the URL's host has an empty part")
    if percent_encoded:
        # Ada maps by UTS 46, which also takes symbols and unassigned letters; IDNA 2008 is stricter.
        try:
            idna.decode(name)
        except UnicodeError:
            raise URLError("url_invalid", "the URL's host is not a host name") from None
    return name, None


def _reach_of_address(address: _Address) -> Reach:
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _EMBEDDING:
            if address in network:
                return _reach_of_address(ipaddress.IPv4Address(int(address) >> shift & 0xFFFF_FFFF))
    if any(address in network for network in _METADATA):
        return "metadata"
    return "address" if is_public(str(address)) else "private"
