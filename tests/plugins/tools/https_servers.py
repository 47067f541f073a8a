"""Tool servers at URLs for the tests: over TLS with an authority of their own, on 127.0.0.1.

Only public addresses may be spoken to, so a test gives its own `Reach` to the constructors that take one: names lead to
127.0.0.1, that address may be spoken to, and this authority counts. Nothing else of the way to a server differs.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import h11
import uvicorn

from tests.support import wait_until
from threegate.core.settings import Settings
from threegate.core.workspace import Workspace
from threegate.plugins.tools.manifest import Manifest
from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.plugins.tools.server_process import open_fresh

NAME: Final = "mcp.example.com"
OTHER: Final = "other.example.com"
STATELESS: Final = "2026-07-28"
SESSION: Final = "2025-11-25"
META: Final = "io.modelcontextprotocol/"
ECHO: Final[Mapping[str, Any]] = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and certificates that it issued."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Authority:
        made = cls(folder)
        made.openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.crt",
        )  # fmt: skip
        for name in (NAME, OTHER):
            made.issue(name)
        return made

    def issue(self, name: str) -> None:
        self.openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        (self.folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{name}\n")
        self.openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", f"{name}.ext", "-out", f"{name}.crt",
        )  # fmt: skip

    def openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    @property
    def file(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.crt"

    def certificate(self, name: str = NAME) -> tuple[str, str]:
        """The files of a name's certificate and key."""
        return str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")

    def reach(self, *addresses: str) -> Reach:
        return Reach(
            lambda _host, _port: addresses or ("127.0.0.1",),
            lambda address: address == "127.0.0.1",
            lambda: ssl.create_default_context(cafile=str(self.file)),
        )


@dataclass(frozen=True)
class Heard:
    """One request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def asked(self) -> str:
        """The method of its message; `DELETE` and the like where it has none."""
        return str(self.message.get("method", self.method))


Bytes = Iterable[bytes]


def json_answer(value: object, *, status: int = 200, more: str = "") -> bytes:
    """A whole HTTP answer."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode()
        + body
    )


STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(value: object) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(value).encode() + b"\r\n\r\n"


def result(heard: Heard, value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": heard.message["id"], "result": value}


def said(text: str) -> dict[str, Any]:
    """A tool's result."""
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"}


@dataclass
class LittleRemote:
    """A server of one tool, by hand, so that it can say what no SDK would. Everything that came is in `heard`."""

    authority: Authority
    port: int
    name: str = NAME
    version: str = STATELESS
    """The only one that it speaks."""
    tools: list[dict[str, Any]] = field(default_factory=lambda: [dict(ECHO)])
    heard: list[Heard] = field(default_factory=list)
    answers: dict[str, Callable[[Heard], Bytes]] = field(default_factory=dict)
    """By the method of the message, instead of the honest answer."""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"https://{self.name}:{self.port}/mcp"

    def came(self, asked: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.asked == asked]

    def answer(self, heard: Heard) -> Bytes:
        """What it says."""
        self.heard.append(heard)
        if heard.asked in self.answers:
            return self.answers[heard.asked](heard)
        if heard.headers.get("mcp-protocol-version", self.version) != self.version:
            return [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]
        return [self.honest(heard)]

    def honest(self, heard: Heard) -> bytes:
        message, info = heard.message, {"name": "little", "version": "1"}
        if heard.asked == "server/discover":
            found: dict[str, Any] = {
                "supportedVersions": [STATELESS], "capabilities": {"tools": {}}, "resultType": "complete",
                "cacheScope": "public", "ttlMs": 0, "_meta": {f"{META}serverInfo": info},
            }  # fmt: skip
        elif heard.asked == "initialize":
            found = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": info}
            return json_answer(result(heard, found), more=f"Mcp-Session-Id: session-{len(self.heard)}\r\n")
        elif heard.asked == "tools/list":
            found = {"tools": self.tools, "resultType": "complete"}
        elif heard.asked == "tools/call":
            found = said(json.dumps(message["params"]["arguments"]))
        else:
            return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
        return json_answer(result(heard, found))


@contextmanager
def little_remote(authority: Authority, **more: Any) -> Iterator[LittleRemote]:
    """One that runs."""
    listening = socket.create_server(("127.0.0.1", 0))
    made = LittleRemote(authority, listening.getsockname()[1], **more)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certificate(made.name))

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listening.accept()
                threading.Thread(target=one, args=(plain,), daemon=True).start()

    def one(plain: socket.socket) -> None:
        with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as secure:
            heard = _request(secure)
            if heard is not None:
                for piece in made.answer(heard):
                    secure.sendall(piece)
                secure.unwrap()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield made
    finally:
        made.over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _request(secure: ssl.SSLSocket) -> Heard | None:
    connection, body, head = h11.Connection(h11.SERVER), b"", None
    while True:
        part = connection.next_event()
        if part is h11.NEED_DATA:
            connection.receive_data(secure.recv(65536))
        elif isinstance(part, h11.Request):
            head = part
        elif isinstance(part, h11.Data):
            body += part.data
        elif isinstance(part, h11.EndOfMessage):
            assert head is not None
            headers = {name.decode(): value.decode() for name, value in head.headers}
            assert len(headers) == len(list(head.headers)), "a header came twice"
            return Heard(head.method.decode(), head.target.decode(), headers, body)
        else:
            return None


@contextmanager
def sdk_server(authority: Authority, app: Any, listening: socket.socket | None = None) -> Iterator[str]:
    """The URL of an app of the SDK that runs over TLS; where it listens may be given."""
    certificate, key = authority.certificate()
    config = uvicorn.Config(app, ssl_certfile=certificate, ssl_keyfile=key, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    listening = listening or socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it for sockets of its own only
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"https://{NAME}:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(20)


def remote_manifest(url: str, **more: Any) -> Manifest:
    """Of a server that was not asked yet."""
    values: dict[str, Any] = {
        "server": "little", "argv": (), "place": "remote", "account": "", "allow": (), "binds": (), "env": {},
        "secrets": (), "initialize": {}, "tools": (), "program": {}, "url": url,
    }  # fmt: skip
    return Manifest(**(values | more))


def pinned_remote(workspace: Workspace, url: str, reach: Reach) -> Manifest:
    """Of a server as it is now."""
    with open_fresh(workspace, Settings(), remote_manifest(url), reach=reach) as server:
        initialize = server.initialize()
        return remote_manifest(url, initialize=initialize, tools=server.list_tools())


@contextmanager
def tls_front(authority: Authority, port: int) -> Iterator[str]:
    """The URL under which a server that speaks plain HTTP on a port of this machine is reached over TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.certificate())
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listening.accept()
                threading.Thread(target=one, args=(plain,), daemon=True).start()

    def one(plain: socket.socket) -> None:
        with plain, suppress(OSError), context.wrap_socket(plain, server_side=True) as secure:
            heard = _request(secure)
            with socket.create_connection(("127.0.0.1", port)) as behind:
                if heard is not None:
                    behind.sendall(_written(heard, port))
                while piece := behind.recv(65536):
                    secure.sendall(piece)
            secure.unwrap()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"https://{NAME}:{listening.getsockname()[1]}/mcp"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def _written(heard: Heard, port: int) -> bytes:
    lines = [f"{name}: {value}" for name, value in heard.headers.items() if name != "host"]
    head = "\r\n".join((f"{heard.method} {heard.path} HTTP/1.1", f"host: localhost:{port}", *lines, "", ""))
    return head.encode() + heard.body
