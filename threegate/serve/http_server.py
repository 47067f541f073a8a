"""Binds the HTTP surface to an address and serves until it is told to stop."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable

import uvicorn

from threegate.errors import Refused, Unavailable
from threegate.serve.http_app import HttpOptions, create_app

_BACKLOG = 128
_CONNECTIONS = 256
_KEEP_ALIVE_SECONDS = 5
_HEAD_BYTES = 16 * 1024


def bind(host: str, port: int, *, token: str | None) -> socket.socket:
    """A listening socket. Raises Refused for an address that others can reach when there is no token; Unavailable."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Unavailable(
            f"{host}: no such address ({error.strerror or error}); try --host 127.0.0.1"
        ) from None
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise Refused(
            "no_auth", f"{host}: --no-auth is for loopback only; set THREEGATE_TOKEN and leave it out"
        )
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
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


def serve(listener: socket.socket, options: HttpOptions, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is called with the URL before the first request is taken."""
    config = uvicorn.Config(
        create_app(options),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        http="h11",
        ws="none",
        backlog=_BACKLOG,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    ready(url_of(listener))
    uvicorn.Server(config).run(sockets=[listener])
