"""The connections of an HTTP server, from accept to close: how long each may take, and how many there may be.

Invariant: no connection lives on what its client does not send or read. The first head has a deadline from accept on,
so the TLS handshake counts; an answer has one to be read, and with the next head to follow. A new
connection always finds room, unless all those of its address are being answered: otherwise the one closes that has
been waiting longest for its client's bytes, first among those of its address, then among those of the address that has
most. An application reads a body with `read_body`, which has a deadline of its own.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from typing import Any

import uvicorn
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from threegate.core import limits
from threegate.plugins.serve.rate_limit import client_of

_PAUSE_SECONDS = 0.1


async def read_body(request: Request, most: int, seconds: float) -> bytes | None:
    """The body of a request; None if it has more than `most` bytes. Raises TimeoutError, ClientDisconnect."""
    data = bytearray()
    async with asyncio.timeout(seconds):
        async for chunk in request.stream():  # counted as it arrives: a client may lie in Content-Length
            data += chunk
            if len(data) > most:
                return None
    return bytes(data)


class Connection:
    """One accepted connection. `client` is what counts as one address (`client_of`)."""

    def __init__(self, client: str) -> None:
        """It waits for its first head; `opening` is set by who opens it."""
        self.client = client
        self.waits = True
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self._deadlines: dict[str, asyncio.TimerHandle] = {}

    def must(self, what: str, seconds: float) -> None:
        """Close it unless `did` is called with the same word in time; a deadline that runs is not moved."""
        # A client that sends a byte now and then must not get more time for it.
        if what not in self._deadlines:
            self._deadlines[what] = asyncio.get_running_loop().call_later(seconds, self.close)

    def did(self, what: str) -> None:
        """Its client did what was asked for."""
        if deadline := self._deadlines.pop(what, None):
            deadline.cancel()

    def close(self) -> None:
        """End it now, whatever was not sent."""
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()
        self.forget()

    def forget(self) -> None:
        """Cancel its deadlines."""
        while self._deadlines:
            self._deadlines.popitem()[1].cancel()


class Connections:
    """All connections of one server, the one that has waited longest first."""

    def __init__(self) -> None:
        """None yet."""
        self._all: dict[Connection, None] = {}

    def admit(self, client: str) -> Connection | None:
        """A place for a new connection, for which another one may be closed; None if there is none."""
        counts = Counter(item.client for item in self._all)
        crowded = counts[client] >= limits.SERVE_CONNECTIONS_EACH
        if crowded or len(self._all) >= limits.SERVE_CONNECTIONS:
            waiting = [item for item in self._all if item.waits and (item.client == client or not crowded)]
            if not waiting:
                return None
            longest = max(waiting, key=lambda item: counts[item.client])  # of equal ones the first
            longest.close()
            self.remove(longest)
        made = Connection(client)
        self._all[made] = None
        return made

    def remove(self, connection: Connection) -> None:
        """It is closed."""
        connection.forget()
        self._all.pop(connection, None)

    def waits(self, connection: Connection, waits: bool) -> None:
        """Whether it waits for bytes of its client now; who begins to wait is last in the order."""
        if waits and not connection.waits and connection in self._all:
            del self._all[connection]
            self._all[connection] = None
        connection.waits = waits


class _Protocol(H11Protocol):
    """uvicorn's protocol, which reports what a connection waits for."""

    def __init__(self, connections: Connections, connection: Connection, **options: Any) -> None:
        super().__init__(**options)
        self._held, self._connection = connections, connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._connection.transport = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._held.remove(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        self._connection.must("read the answer", limits.SERVE_SEND_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._connection.did("read the answer")
        super().resume_writing()

    def _look(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete
        self._held.waits(self._connection, not answering or self.cycle.more_body)
        if answering:
            self._connection.did("send a head")
        elif self._connection.transport is not None and self in self.connections:
            self._connection.must("send a head", limits.SERVE_SEND_SECONDS)


class BoundedServer(uvicorn.Server):
    """A uvicorn server that accepts its connections itself."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Nothing is accepted before it runs."""
        super().__init__(config)
        self._connections = Connections()
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's, and then accept on these sockets."""
        # No sockets: uvicorn would accept connections without asking `admit`.
        await super().startup(sockets=[])
        for listener in sockets or []:
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, then uvicorn's."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError:  # the client is gone again, or there is no descriptor left: some will close
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            connection = self._connections.admit(client_of(str(address[0])))
            if connection is None:
                accepted.close()
            else:
                connection.must("send a head", limits.SERVE_HEAD_SECONDS)
                connection.opening = asyncio.create_task(self._open(accepted, connection))
            await asyncio.sleep(0)  # what arrived on others is read before the next one is accepted

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        def protocol() -> asyncio.Protocol:
            return _Protocol(
                self._connections,
                connection,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        loop, context = asyncio.get_running_loop(), self.config.ssl
        # asyncio refuses these timeouts where there is no TLS.
        seconds = float(limits.SERVE_HEAD_SECONDS) if context else None
        try:
            await loop.connect_accepted_socket(
                protocol, accepted, ssl=context, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
        except BaseException as error:
            # Also if `close` cancelled it: a place that is not given back is lost for good.
            self._connections.remove(connection)
            if not isinstance(error, OSError | ssl.SSLError | asyncio.CancelledError):
                raise
