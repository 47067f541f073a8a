"""The streams of a started container: its standard input, which only we hold, its two outputs in one, and the line that
PID 1 of a run writes before it gets one.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import docker

from threegate.core import limits

_FRAME: Final = struct.Struct(">BxxxL")
"""The header of each part of the engine's stream: 1 (stdout) or 2 (stderr), and the number of bytes that follow."""
_SEEN_SECONDS = 5.0
"""How long a started PID 1 may take to report what it sees."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What PID 1 reports about the inside before it gets a run (keeper.seen)."""

    uid: int
    namespaces: Mapping[str, str]
    inputs: tuple[int, int]
    """Device and inode of /in."""
    out_bytes: int
    out_files: int
    out_used: int


class FrameReader:
    """Splits the engine's stream into the two outputs of a container."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._kind = 1

    def read(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces in the next bytes of the connection: of 1 (stdout) or 2 (stderr)."""
        while data:
            if self._left == 0:
                need = _FRAME.size - len(self._head)
                self._head, data = self._head + data[:need], data[need:]
                if len(self._head) == _FRAME.size:
                    kind, self._left = _FRAME.unpack(self._head)
                    self._kind, self._head = (2 if kind == 2 else 1), b""
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            yield self._kind, piece


def attach(api: docker.APIClient, container: str, *, output: bool = True) -> socket.socket:
    """The container's standard input and its outputs, on a descriptor of our own. Raises the engine's errors."""
    outputs = {"stdout": 1, "stderr": 1} if output else {}
    stream = api.attach_socket(container, params={"stdin": 1, "stream": 1, **outputs})
    raw = getattr(stream, "_sock", stream)
    # The client's response object may close its descriptor when it is garbage-collected.
    connection = socket.socket(fileno=os.dup(raw.fileno()))
    # The client's timeout made the connection itself non-blocking.
    connection.setblocking(True)
    return connection


def greeting(connection: socket.socket) -> Greeting:
    """Read the one line that PID 1 writes first. Raises OSError, ValueError: not our PID 1, or it does not arrive."""
    end = time.monotonic() + _SEEN_SECONDS
    text = b""
    while not text.endswith(b"\n"):
        kind, size = _FRAME.unpack(_exactly(connection, _FRAME.size, end))
        if size + len(text) > limits.KEEPER_GREETING_BYTES:
            raise ValueError("PID 1 reports more than it should")
        part = _exactly(connection, size, end)
        if kind != 1:
            raise ValueError(f"PID 1 failed: {part.decode('ascii', 'backslashreplace').strip()[-200:]}")
        text += part
    connection.setblocking(True)
    said: dict[str, Any] = json.loads(text)
    device, inode = said["in"]
    size, names, used = said["out"]
    return Greeting(int(said["uid"]), dict(said["namespaces"]), (device, inode), size, names, used)


def _exactly(connection: socket.socket, count: int, end: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        part = connection.recv(count - len(data))
        if not part:
            raise ValueError("PID 1 exited before it reported what it sees")
        data += part
    return data
