"""Serves an application on a listening socket until it is asked to stop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.plugins.serve.connections import BoundedServer
from threegate.plugins.serve.listening import BACKLOG, url_of

_KEEP_ALIVE_SECONDS = 5


def serve(
    listener: socket.socket, app: ASGIApp, *, ready: Callable[[str], None], certificate: tuple[Path, Path] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` is called with the URL before the first request is accepted.

    `certificate`: PEM files of the chain and of its key, for https. Raises Unavailable if they cannot be used.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        # X-Forwarded-For is a claim of the client.
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        # `connections` builds on this protocol, whatever else is installed.
        http="h11",
        ws="none",
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=limits.SERVE_HEAD_BYTES,
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is an OSError
        raise Unavailable(
            f"{certificate[0] if certificate else listener}: cannot be used ({error.strerror}); give a PEM "
            "chain and its key"
        ) from None
    # It logs what clients send, and clients are not trusted.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    ready(url_of(listener))
    BoundedServer(config).run(sockets=[listener])
