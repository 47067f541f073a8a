"""A socket between a client and the engine that delays, breaks and swallows answers by rule."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

Action = Literal["error", "hang", "late", "cut", "nonsense"] | float
"""A number is a delay in seconds; `late` asks the engine and never tells the answer."""
_ERROR = b'HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 25\r\nConnection: close\r\n\r\n{"message":"out of luck"}'  # noqa: E501


class Between:
    """Forwards to the engine's socket; `rules` are (pattern of ``METHOD path``, action), the first that fits counts."""

    def __init__(self, upstream: str, rules: list[tuple[str, Action]]) -> None:
        self.upstream = upstream
        self.rules = rules
        self.seen: list[str] = []
        self.closed = threading.Event()

    def serve(self, client: socket.socket) -> None:
        """One connection: one request and its answer, then it is closed; a hijacked one until either side ends."""
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(65536)
            if not part:
                return
            head += part
        line = head.split(b" HTTP/", 1)[0].decode("latin-1")
        self.seen.append(line)
        action = next((action for pattern, action in self.rules if re.search(pattern, line)), None)
        if action == "error":
            client.sendall(_ERROR)
        elif action == "nonsense":
            client.sendall(b"\xff" * 300)
        elif action == "hang":
            self.closed.wait()
        elif action != "cut":
            self._forward(client, head, action)

    def _forward(self, client: socket.socket, head: bytes, action: Action | None) -> None:
        if isinstance(action, float):
            self.closed.wait(action)
        if b"upgrade: tcp" not in head.lower():
            head = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head, count=1)
            head = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.upstream)
            engine.sendall(head)
            up = threading.Thread(target=_pump, args=(client, engine), daemon=True)
            up.start()
            if action == "late":
                while engine.recv(65536):
                    pass
                self.closed.wait()
            else:
                _pump(engine, client)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            up.join(5)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def between(engine_url: str, folder: Path, *rules: tuple[str, Action]) -> Iterator[tuple[str, Between]]:
    """The URL of such a socket, and what it saw."""
    made = Between(engine_url.removeprefix("unix://"), list(rules))

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                made.serve(self.request)

    path = folder / "s"
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"unix://{path}", made
        finally:
            made.closed.set()
            server.shutdown()
            path.unlink()
