"""MCP on a stream of lines: stdin and stdout, or the connections of a listening socket (the door of a run).

Invariant: every line of a client that contains an id is answered (`mcp_reading`), and an answer counts as
delivered only when its last byte was written. A client that disconnects or sends garbage disturbs no other.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO, Final, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import PROTOCOL_VERSION_META_KEY, ErrorData, JSONRPCError

from threegate.core import limits
from threegate.plugins.serve.mcp_reading import read_lines
from threegate.plugins.serve.mcp_server import ToolServer

_PAUSE_SECONDS: Final = 0.01
_BARE: Final = frozenset({"tools/list", "tools/call"})
"""What a client may ask for without a handshake, as its first request: one line, one answer."""
_HANDSHAKE_DONE: Final = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


class _Lines:
    """The lines of a client in the form that `stdio_server` expects, after strict parsing. `write` is its
    stream to the client.

    The stream of lines ends only after all due answers, so that piped-in lines get all of theirs.
    """

    write: Any = None

    def __init__(self, stream: BinaryIO, tools: ToolServer) -> None:
        self._stream = stream
        self._tools = tools
        self._begun = False
        self.due: set[Any] = set()
        """Ids of requests that were read and are not answered yet."""

    async def __aiter__(self) -> AsyncIterator[str]:
        async for text in read_lines(self._readline, self._answer):
            message = json.loads(text)
            if "method" in message and "id" in message:
                self.due.add(message["id"])
                if not self._begun and _is_bare(message):
                    yield _HANDSHAKE_DONE
                self._begun = True
            elif message.get("method") == "notifications/cancelled":
                self._cancelled(message.get("params"))
            yield text
        with anyio.move_on_after(limits.MCP_LAST_ANSWERS_SECONDS):
            while self.due:
                await anyio.sleep(_PAUSE_SECONDS)

    def _cancelled(self, params: Any) -> None:
        number = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(number, int | str) and number in self.due:
            self.due.discard(number)  # the protocol forbids an answer then
            self._tools.cancelled(number)

    async def _readline(self, most: int) -> bytes:
        try:
            return await anyio.to_thread.run_sync(self._stream.readline, most)
        except OSError:
            return b""  # the client is gone

    async def _answer(self, message_id: int | str | None, code: int, message: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=message_id, error=ErrorData(code=code, message=message))
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self.write.send(SessionMessage(error))


def _is_bare(message: dict[str, Any]) -> bool:
    """Whether a first request may come without a handshake, and without the envelope that replaces it."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return message["method"] in _BARE and not (isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta)


class _Out:
    """The stream to the client, which reports to lines and tools what was written."""

    def __init__(self, write: Callable[[bytes], object], lines: _Lines, tools: ToolServer) -> None:
        self._write = write
        self._lines = lines
        self._tools = tools

    async def write(self, text: str) -> None:
        await anyio.to_thread.run_sync(self._write, text.encode())
        message = json.loads(text)
        if "id" in message and "method" not in message:
            self._lines.due.discard(message["id"])
            self._tools.sent(message["id"])

    async def flush(self) -> None:
        """Nothing is buffered."""


async def serve_stdio(tools: ToolServer) -> None:
    """Serve on stdin and stdout until the client disconnects. Other output goes to stderr."""
    with open(os.dup(0), "rb") as stdin, open(os.dup(1), "wb", buffering=0) as stdout:
        # A library that prints to stdout would break the protocol.
        os.dup2(2, 1)

        def write(data: bytes) -> None:
            view = memoryview(data)
            while view:
                view = view[stdout.write(view) or 0 :]

        try:
            await serve_stream(tools, stdin, write)
        except* BrokenPipeError:
            pass  # the client is gone; its requests are kept


def listening_stdin() -> socket.socket | None:
    """The listening socket that this process received as its stdin; None if stdin is anything else."""
    if not stat.S_ISSOCK(os.fstat(0).st_mode):
        return None
    found = socket.socket(fileno=os.dup(0))
    if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return found
    found.close()
    return None


async def serve_socket(listener: socket.socket, make: Callable[[], ToolServer]) -> None:
    """Serve each client that connects, up to DOOR_CONNECTIONS at a time, as long as this process lives."""
    room = anyio.CapacityLimiter(limits.DOOR_CONNECTIONS)
    listener.setblocking(False)
    async with anyio.create_task_group() as clients:
        while True:
            await anyio.wait_readable(listener)
            # The client may be gone between the two calls.
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                if room.available_tokens < 1:
                    connection.close()
                else:
                    clients.start_soon(_serve_client, connection, make(), room)
                    await anyio.sleep(0)


async def _serve_client(connection: socket.socket, tools: ToolServer, room: anyio.CapacityLimiter) -> None:
    async with room:
        connection.setblocking(True)
        # A client that never reads must not hold a thread forever.
        seconds = struct.pack("ll", limits.DOOR_SEND_SECONDS, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        # Any failure ends this client only; in the task group it would end all of them.
        with connection, connection.makefile("rb") as stream, contextlib.suppress(Exception):
            await serve_stream(tools, stream, connection.sendall)


async def serve_stream(tools: ToolServer, stream: BinaryIO, write: Callable[[bytes], object]) -> None:
    """Serve one client, whose lines come from `stream`, until they end."""
    lines = _Lines(stream, tools)
    server = tools.server()
    out = _Out(write, lines, tools)
    async with stdio_server(stdin=cast(Any, lines), stdout=cast(Any, out)) as (read_stream, write_stream):
        lines.write = write_stream
        await server.run(read_stream, write_stream, server.create_initialization_options())
