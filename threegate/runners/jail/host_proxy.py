"""The proxy to destinations that a person allowed for one run: a separate process outside the jail.

Invariant: it accepts a CONNECT, and a request for an ``http://`` URL, to a listed pair of host and port, and nothing
else. A name that is not listed is never looked up; a listed one of which an address is not public, or is this
machine's own, is refused. What passes through a CONNECT is not inspected: the card and the docs say "may send anything
there". A plain request is parsed and written anew, with the host that was checked. Each destination is logged with its
bytes (`host_log`). At most AGENT_HOST_CONNECTIONS are open at a time, so the memory that it holds for a run is bounded.

Run as ``python -m threegate.runners.jail.host_proxy SOCKET LOG PAIR…``: two descriptors, of the listening socket and of
the log file. With ``secret METHOD HOST PORT PATH CA_FILE`` after the pairs, the first line of stdin is the secret of
that one request (`egress.secret_forwarder`); with ``hint TEXT`` there, refusals end with TEXT. A further line of stdin
is a new list of pairs, which replaces the one before: connections to a pair that is not in it any more are broken off,
and then the line is written to stdout. It exits when stdin closes.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 for lookups: imported before root, and with it our files, is given up
import http.client
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import h11

from threegate.core import limits
from threegate.core.public_address import is_public, own_addresses
from threegate.runners.egress.secret_forwarder import REQUEST_BYTES, OneRequest
from threegate.runners.jail.host_log import destination_line, unlisted_line

_PIECE: Final = 1 << 16
_NOBODY: Final = 65532
"""The account of this process if it is started by root; the user of the proxy's container has the same number."""
_AUTHORITY: Final = re.compile(r"([a-z0-9.-]+)(?::([1-9][0-9]{0,4}))?")
_URL: Final = re.compile(r"http://(?:[^/?#@]*@)?([^/?#@]*)(/[^#]*|\?[^#]*)?", re.IGNORECASE)
_HOPS: Final = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer upgrade expect".split()
)
"""Headers about one connection, which no proxy passes on (RFC 9110, 7.6.1)."""
_FORBIDDEN, _BAD_GATEWAY = "403 Forbidden", "502 Bad Gateway"


class Asked(NamedTuple):
    """What a client asked for."""

    host: str
    port: int
    connection: h11.Connection
    request: h11.Request | None = None
    """A plain request; None for a CONNECT."""
    path: str = ""
    """Of a plain request: path and query."""

    @property
    def target(self) -> str:
        """Host and port in the form of the list."""
        return f"{self.host}:{self.port}"


class Noted:
    """The proxy's log, kept up to date: a line for each destination."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._end = os.fstat(log).st_size
        self._lines: dict[tuple[bool, str], tuple[int, str, int, bool]] = {}
        self._refused = self._unlisted = 0

    def allowed(self, target: str, size: int = 0, *, lacking: bool = False, busy: bool = False) -> None:
        """Bytes to or from a listed destination. No bound but the list: what else is asked for takes no room of it."""
        self._write(True, target, "lacking" if lacking else "reached", size, busy)

    def refused(self, target: str) -> None:
        """The first ones by name; of the others, which a run can make up, how many attempts there were."""
        if target and (False, target) not in self._lines:
            if self._refused < limits.EGRESS_REFUSED:
                self._refused += 1
                self._write(False, target, "refused", 0, False)
                return
        elif target:
            return
        self._unlisted += 1
        os.pwrite(self._log, unlisted_line(self._unlisted), 0)

    def _write(self, listed: bool, target: str, word: str, size: int, busy: bool) -> None:
        place, before, total, was_busy = self._lines.get((listed, target), (self._end, word, 0, False))
        if before == "reached":  # an address that is gone later takes nothing back
            word = before
        line = destination_line(word, total + size, busy or was_busy, target)
        self._lines[listed, target] = place, word, total + size, busy or was_busy
        self._end = max(self._end, place + len(line))
        os.pwrite(self._log, line, place)


class HostProxy:
    """Answers the connections of one run. `targets` are pairs ``host:port``; `hint` is part of each refusal."""

    def __init__(self, targets: Iterable[str], log: int, secret: OneRequest | None = None, hint: str = "") -> None:
        self._targets = frozenset(targets)
        self._noted = Noted(log)
        self._secret = secret
        self._forbidden = f"{_FORBIDDEN}: {hint}" if hint else _FORBIDDEN
        self._open = 0
        self._to: dict[asyncio.Task[None], str] = {}
        """The pair that each connection is for, once that is known."""

    def allow(self, targets: Iterable[str]) -> None:
        """Replace the list, and break off what leads elsewhere."""
        self._targets = frozenset(targets)
        for task, target in self._to.items():
            if target not in self._targets:
                task.cancel()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the run, to its end; one too many is closed before anything of it is read."""
        if self._open >= limits.AGENT_HOST_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        task = asyncio.current_task()
        assert task is not None
        try:
            await self._serve(task, reader, writer)
        except _RefusedError as refused:
            with suppress(OSError):
                writer.write(_refusal(str(refused)))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, h11.ProtocolError, ExceptionGroup):
            pass
        except asyncio.CancelledError:
            if task not in self._to or self._to[task] in self._targets:  # the whole process ends
                raise
            writer.transport.abort()  # what is still on its way does not arrive
        finally:
            self._open -= 1
            self._to.pop(task, None)
            with suppress(OSError):
                writer.close()

    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with asyncio.timeout(limits.AGENT_CONNECT_SECONDS):
            try:
                asked = await _asked(reader)
            except (ValueError, h11.ProtocolError):
                self._noted.refused("")
                raise _RefusedError(self._forbidden) from None
            with_secret = self._is_secret(asked)
            if asked.target not in self._targets and not with_secret:
                self._noted.refused(asked.target)
                raise _RefusedError(self._forbidden)
            self._to[task] = asked.target
            addresses = await self._addresses(asked)
            if not with_secret:
                other = await _connected(addresses, asked.port)
        if with_secret:
            await self._with_secret(asked, reader, writer)
        elif asked.request is None:
            await self._tunnel(asked, reader, writer, *other)
        else:
            await self._plain(asked, reader, writer, *other)

    def _is_secret(self, asked: Asked) -> bool:
        one = self._secret
        return (
            one is not None
            and asked.request is not None
            and (asked.request.method.decode("ascii"), asked.host, asked.port, asked.path)
            == (one.method, one.host, 80, one.path)
        )

    async def _addresses(self, asked: Asked) -> list[str]:
        """The addresses of a listed host, all of them public: who controls the name could otherwise mix in an address
        of this network.
        """
        loop = asyncio.get_running_loop()
        try:
            # With the final dot: else a name that is not found is asked for again below each domain of resolv.conf.
            found = await loop.getaddrinfo(f"{asked.host}.", asked.port, type=socket.SOCK_STREAM)
        except OSError:
            found = []
        if not found:
            self._noted.allowed(asked.target, lacking=True)
            raise _RefusedError(_BAD_GATEWAY)
        addresses = [str(item[4][0]) for item in found]
        if not all(map(is_public, addresses)) or not set(addresses).isdisjoint(own_addresses()):
            self._noted.refused(asked.target)
            raise _RefusedError(f"{_FORBIDDEN}: the address of this host is not public")
        self._noted.allowed(asked.target)  # before the connection is made
        return addresses

    async def _tunnel(
        self,
        asked: Asked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other_reader: asyncio.StreamReader,
        other_writer: asyncio.StreamWriter,
    ) -> None:
        async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, piece: bytes) -> None:
            while piece or (piece := await source.read(_PIECE)):
                self._noted.allowed(asked.target, len(piece))
                target.write(piece)
                await target.drain()
                piece = b""
            with suppress(OSError):
                target.write_eof()

        try:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.drain()
            async with asyncio.TaskGroup() as both:
                both.create_task(carry(reader, other_writer, asked.connection.trailing_data[0]))
                both.create_task(carry(other_reader, writer, b""))
        finally:
            self._close(other_writer, asked)

    def _close(self, writer: asyncio.StreamWriter, asked: Asked) -> None:
        """Close the connection to a host; once that is not listed any more, with what was not sent yet."""
        with suppress(OSError):
            if asked.target in self._targets:
                writer.close()
            else:
                writer.transport.abort()

    async def _plain(
        self,
        asked: Asked,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other_reader: asyncio.StreamReader,
        other_writer: asyncio.StreamWriter,
    ) -> None:
        """One request and its answer; then both connections are closed."""
        request = asked.request
        assert request is not None
        other = h11.Connection(h11.CLIENT)
        host = asked.host if asked.port == 80 else asked.target
        headers = [(b"Host", host.encode()), *_passed_on(request.headers, b"host"), (b"Connection", b"close")]

        async def send(event: h11.Event) -> None:
            data = other.send(event) or b""
            self._noted.allowed(asked.target, len(data))
            other_writer.write(data)
            await other_writer.drain()

        async def give(event: h11.Event) -> None:
            writer.write(asked.connection.send(event) or b"")
            await writer.drain()

        async def ask() -> None:
            await send(h11.Request(method=request.method, target=asked.path, headers=headers))
            if asked.connection.they_are_waiting_for_100_continue:
                await give(h11.InformationalResponse(status_code=100, headers=[]))
            while not isinstance(event := await _next(asked.connection, reader), h11.EndOfMessage):
                if isinstance(event, h11.Data):
                    await send(event)
                else:
                    raise h11.RemoteProtocolError("no body")
            await send(h11.EndOfMessage())

        asking = asyncio.create_task(ask())
        try:
            while True:
                event = await _next(other, other_reader, lambda size: self._noted.allowed(asked.target, size))
                if isinstance(event, h11.Response):
                    self._noted.allowed(asked.target, busy=event.status_code == 429)
                    kept = [*_passed_on(event.headers), (b"Connection", b"close")]
                    await give(h11.Response(status_code=event.status_code, headers=kept, reason=event.reason))
                elif isinstance(event, h11.Data):
                    await give(event)
                elif not isinstance(event, h11.InformationalResponse):
                    await give(h11.EndOfMessage())
                    return
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError, OSError, h11.ProtocolError):
                await asking
            self._close(other_writer, asked)

    async def _with_secret(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert asked.request is not None and self._secret is not None
        body = b""
        while not isinstance(event := await _next(asked.connection, reader), h11.EndOfMessage):
            body += event.data if isinstance(event, h11.Data) else b""
            if len(body) > REQUEST_BYTES or not isinstance(event, h11.Data):
                raise _RefusedError("413 Content Too Large")
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in asked.request.headers}
        try:
            answer = await asyncio.to_thread(self._secret.forward, body, headers)
        except (OSError, ValueError, http.client.HTTPException):
            answer = None  # not verified, or it shows the secret
        if answer is None:
            raise _RefusedError(_BAD_GATEWAY)
        status, passed, data = answer
        self._noted.allowed(asked.target, len(body) + len(data))
        kept = [*passed.items(), ("Content-Length", str(len(data))), ("Connection", "close")]
        for part in (h11.Response(status_code=status, headers=kept), h11.Data(data), h11.EndOfMessage()):
            writer.write(asked.connection.send(part) or b"")
        await writer.drain()


class _RefusedError(Exception):
    """Its text is the status line of the answer."""


def _refusal(status: str) -> bytes:
    """The answer to what is refused. Of what it says besides the status, clients show the line or the body."""
    body = f"{status}\n" if ": " in status else ""
    head = f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode("ascii", "replace")


async def _asked(reader: asyncio.StreamReader) -> Asked:
    """The host and port of a CONNECT or of a request for an http:// URL. Raises ValueError for anything else, OSError,
    h11.ProtocolError.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.SERVE_HEAD_BYTES)
    request = await _next(connection, reader)
    if not isinstance(request, h11.Request):
        raise ValueError("not a request")
    target = request.target.decode("ascii", "replace")
    if request.method == b"CONNECT":
        host, port = _authority(target)
        if not port:
            raise ValueError("no port")
        return Asked(host, int(port), connection)
    if (url := _URL.fullmatch(target)) is None:
        raise ValueError("not an http:// URL")
    host, port = _authority(url[1])
    path = url[2] or "/"
    return Asked(host, int(port or "80"), connection, request, path if path[0] == "/" else f"/{path}")


def _authority(text: str) -> tuple[str, str]:
    """Host in lower case, and port or nothing. Raises ValueError."""
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None or len(found[1]) > limits.HOST_CHARS or int(found[2] or 1) > 65535:
        raise ValueError("not a host and a port")
    return found[1], found[2] or ""


async def _next(
    connection: h11.Connection, reader: asyncio.StreamReader, read: Callable[[int], None] = lambda _: None
) -> h11.Event | type[h11.PAUSED]:
    """The next event of a connection; `read` gets the size of what was read for it."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        data = await reader.read(_PIECE)
        read(len(data))
        connection.receive_data(data)
    return event  # type: ignore[return-value]


def _passed_on(headers: Iterable[tuple[bytes, bytes]], *more: bytes) -> list[tuple[bytes, bytes]]:
    """Headers without those about the connection, and without `more`."""
    named = {
        word.strip().lower() for name, value in headers if name.lower() == b"connection" for word in value.split(b",")
    }
    return [(name, value) for name, value in headers if name.lower() not in {*_HOPS, *named, *more}]


async def _connected(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams to the first address that answers. Raises _RefusedError."""
    for address in addresses:
        with suppress(OSError):
            return await asyncio.open_connection(address, port)
    raise _RefusedError(_BAD_GATEWAY)


def _give_up_root() -> None:
    """Become an account without files, so that a fault in what reads a run's bytes is not root's."""
    if os.geteuid() == 0:
        with suppress(OSError):  # in a user namespace that maps no other account, root is an ordinary account
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)


async def _until_stdin_ends(proxy: HostProxy, listener: socket.socket) -> None:
    lines = asyncio.StreamReader(limit=limits.HOST_LIST_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), open(0, "rb", closefd=False))  # noqa: SIM115
    start = asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
    async with await start(proxy.connection, sock=listener):
        while line := await lines.readline():
            proxy.allow(line.decode("ascii").split())
            os.write(1, line)


def main() -> None:
    """Serve until stdin closes."""
    listener, log, *targets = sys.argv[1:]
    secret, hint = None, ""
    if "secret" in targets:
        at = targets.index("secret")
        method, host, port, path, authorities = targets[at + 1 :]
        context = ssl.create_default_context(cafile=authorities)
        secret = OneRequest((method, host, int(port), path), context, _first_line())
        del targets[at:]
    elif "hint" in targets:
        at = targets.index("hint")
        hint = targets[at + 1]
        del targets[at:]
    _give_up_root()
    proxy = HostProxy(targets, int(log), secret, hint)
    asyncio.run(_until_stdin_ends(proxy, socket.socket(fileno=int(listener))))


def _first_line() -> str:
    """The secret, without reading further: stdin stays open as long as this process is wanted."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(0, 1)):
            raise SystemExit("no secret received")
        line += byte
    return line.decode("ascii").strip()


if __name__ == "__main__":
    main()
