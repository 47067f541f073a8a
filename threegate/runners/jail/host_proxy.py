"""The proxy to hosts that a person allowed for one run: a separate process outside the jail.

Invariant: it accepts only a CONNECT to port 443 of a listed name. A name that is not listed is never looked up, and a
listed one that resolves to an address that is not public is refused. The forwarded data is not inspected: the card and
the docs say "may send anything there". Each host that was reached or refused is logged (`host_log`). At most
AGENT_HOST_CONNECTIONS are open at a time, so the memory that it holds for an agent is bounded.

Run as ``python -m threegate.runners.jail.host_proxy SOCKET LOG HOST…``: two descriptors, of the listening socket and of
the log file. It exits when stdin closes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import h11

from threegate.core import limits
from threegate.core.public_address import is_public
from threegate.runners.jail.host_log import unlisted_line

_PIECE: Final = 1 << 16
_PORT: Final = "443"


class HostProxy:
    """Answers the connections of one run."""

    def __init__(self, hosts: Iterable[str], log: int) -> None:
        self._hosts = frozenset(hosts)
        self._log = log
        self._reached: set[str] = set()
        self._refused: set[str] = set()
        self._unlisted = 0
        self._open = 0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the agent, to its end; one too many is closed before anything of it is read."""
        if self._open >= limits.AGENT_HOST_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(limits.AGENT_CONNECT_SECONDS):
                host = await _asked(reader)
                other = await self._reach(host) if host else None
            if other is None:
                writer.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass(reader, other[1]))
                both.create_task(_pass(other[0], writer))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, ExceptionGroup):
            pass
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _reach(self, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Streams to a listed host; None, with a log entry, for any other."""
        if host not in self._hosts:
            self._note_refused(host)
            return None
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, int(_PORT), type=socket.SOCK_STREAM)
        addresses = [str(item[4][0]) for item in found]
        # All of them: who controls the name could otherwise mix in an address of this network.
        if not addresses or not all(map(is_public, addresses)):
            self._note_refused(host)
            return None
        self._note_reached(host)
        return await asyncio.open_connection(addresses[0], int(_PORT))

    def _note_reached(self, host: str) -> None:
        """Before the connection is made. No bound but the list: whatever else is asked for takes no room of these."""
        if host not in self._reached:
            self._reached.add(host)
            os.write(self._log, f"reached {host}\n".encode())

    def _note_refused(self, host: str) -> None:
        """The first ones by name; of the others, which an agent can make up, how many attempts there were."""
        if host in self._refused:
            return
        if len(self._refused) < limits.EGRESS_REFUSED:
            self._refused.add(host)
            os.write(self._log, f"refused {host}\n".encode())
        else:
            self._unlisted += 1
            os.pwrite(self._log, unlisted_line(self._unlisted), 0)


async def _asked(reader: asyncio.StreamReader) -> str | None:
    """The host of a CONNECT; None for anything else. h11 parses the head."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.SERVE_HEAD_BYTES)
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return None
        if isinstance(event, h11.Request):
            host, _, port = event.target.decode("ascii", "replace").rpartition(":")
            listed = event.method == b"CONNECT" and port == _PORT and len(host) <= limits.HOST_CHARS
            return host.lower() if listed and host.replace(".", "").replace("-", "").isalnum() else None
        if event is not h11.NEED_DATA:
            return None
        data = await reader.read(_PIECE)
        if not data:
            return None
        connection.receive_data(data)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def _serve(proxy: HostProxy, listener: socket.socket) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: None if os.read(0, 1) else ended.set())
    async with await asyncio.start_unix_server(proxy.connection, sock=listener):
        await ended.wait()


def main() -> None:
    """Serve until stdin closes."""
    listener, log, *hosts = sys.argv[1:]
    asyncio.run(_serve(HostProxy(hosts, int(log)), socket.socket(fileno=int(listener))))


if __name__ == "__main__":
    main()
