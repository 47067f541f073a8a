"""The socket on which an HTTP server listens. Without a token, the gate is reachable only from this machine.

This is a module of its own so that a wrong address is reported before anything heavy is imported.
"""

from __future__ import annotations

import ipaddress
import socket

from threegate.core.errors import Refused, Unavailable

BACKLOG = 128


def bind(host: str, port: int, *, reachable: bool) -> socket.socket:
    """A listening socket. Raises Refused for an address that others can reach if `reachable` is false; Unavailable."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Unavailable(f"{host}: no such address ({error.strerror or error}); try --host 127.0.0.1") from None
    if not reachable and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise Refused("no_auth", f"{host}: --no-auth works only on loopback; set THREEGATE_TOKEN instead")
    listener = socket.socket(family, kind, protocol)
    try:
        # After a restart, connections of the previous server may still be closing.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(f"{host}:{port}: cannot listen here ({error.strerror}); choose another --port") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
