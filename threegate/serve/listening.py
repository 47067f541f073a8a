"""The socket that an HTTP server listens at. The gate without a token is this machine's alone.

Apart from the server, so that a wrong address is said before anything heavy is imported.
"""

from __future__ import annotations

import ipaddress
import socket

from threegate.core.errors import Refused, Unavailable

BACKLOG = 128


def bind(host: str, port: int, *, reachable: bool) -> socket.socket:
    """A listening socket. Raises Refused for an address that others can reach where `reachable` is false; Unavailable."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Unavailable(
            f"{host}: no such address ({error.strerror or error}); try --host 127.0.0.1"
        ) from None
    if not reachable and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise Refused(
            "no_auth", f"{host}: --no-auth is for loopback only; set THREEGATE_TOKEN and leave it out"
        )
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"{host}:{port}: cannot listen here ({error.strerror}); choose another --port"
        ) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL that a listening socket answers at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
