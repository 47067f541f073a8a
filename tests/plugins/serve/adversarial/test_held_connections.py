"""Clients that hold connections and send nothing, half a head, half a TLS handshake or half a body, or read nothing:
others are answered at once, and what is held is closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.acts.bench_workspace import make_bench
from tests.conftest import few
from tests.servers import TOKEN, Running, start, stop
from tests.support import wait_until
from threegate.core import limits
from threegate.core.workspace import Workspace
from threegate.plugins.page.page_certificate import certificate_files, make_certificate
from threegate.plugins.serve.connections import BoundedServer, Connections
from threegate.plugins.serve.listening import bind

HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n"
END = b"Connection: close\r\n\r\n"
BIG = b"x" * (8 << 20)
POST = (
    b"POST /pre-tool-check HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
)


async def _app(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[dict[str, Any]], Any]) -> None:
    """/big answers more than the kernel buffers; /slow answers when the test lets it; a POST reads its body."""
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    _at_work.extend([1] if scope["path"] == "/slow" else [])
    if scope["path"] == "/slow":
        await asyncio.to_thread(_let_go.wait)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": BIG if scope["path"] == "/big" else b"fine"})


_let_go = threading.Event()
_at_work: list[int] = []
"""One for each /slow that is being answered."""


@contextmanager
def serving(certificate: tuple[Path, Path] | None = None) -> Iterator[int]:
    """The server in a thread; its port."""
    listener = bind("127.0.0.1", 0, reachable=False)
    config = uvicorn.Config(
        _app, log_config=None, lifespan="off", http="h11", ws="none", timeout_graceful_shutdown=1,
        ssl_certfile=certificate and certificate[0], ssl_keyfile=certificate and certificate[1],
    )  # fmt: skip
    config.load()
    server = BoundedServer(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        _let_go.set()
        server.should_exit = True
        thread.join(20)
        _let_go.clear()
        _at_work.clear()
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start(tmp_path_factory.mktemp("held"), "--rate", "100000")
    yield running
    stop(running)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(limits, "SERVE_CONNECTIONS", 24)
    monkeypatch.setattr(limits, "SERVE_CONNECTIONS_EACH", 8)
    with serving() as number:
        yield number


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines that a test can wait for."""
    monkeypatch.setattr(limits, "SERVE_HEAD_SECONDS", 0.4)
    monkeypatch.setattr(limits, "SERVE_SEND_SECONDS", 0.6)


def connect(port: int, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    connection.sendall(data)
    return connection


def asked(port: int, source: str = "127.0.0.1", data: bytes = HEAD + END) -> bytes:
    """The first line that the server answers; empty where it closes."""
    with connect(port, data, source) as connection:
        try:
            return connection.recv(4096).split(b"\r\n", 1)[0]
        except ConnectionResetError:
            return b""


def closes(connection: socket.socket) -> float:
    """The seconds until the server closes it."""
    begun = time.monotonic()
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begun


@pytest.mark.parametrize(
    "held",
    few([b"", HEAD, POST + b"{", HEAD + b"\r\n"], 1),
    ids=["nothing", "half a head", "half a body", "idle after an answer"],
)
def test_270_from_one_address_keep_nobody_out(server: Running, held: bytes) -> None:
    """The whole server as a process, asked from the same address and with the usual limits."""
    with ExitStack() as stack:
        for _ in range(270):
            stack.enter_context(connect(server.port, held))
        begun = time.monotonic()
        assert asked(server.port) == b"HTTP/1.1 200 OK"
        assert asked(server.port, data=POST + b"{}") == b"HTTP/1.1 200 OK"
        assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_270_keep_no_operator_from_the_page_that_takes_passkeys(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    name = "approve.threegate.test"
    bench.settings(approval__passkey_origin=f"https://{name}:{port}")
    make_certificate(bench.workspace, name)
    command = [sys.executable, "-m", "threegate", "--workspace", str(bench.workspace.root), "serve", "passkeys"]
    with subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline().startswith("listening on ")
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with ExitStack() as stack:
                for _ in range(270):
                    held = context.wrap_socket(connect(port), server_hostname=name)
                    stack.enter_context(held).sendall(HEAD)
                begun = time.monotonic()
                with context.wrap_socket(connect(port), server_hostname=name) as page:
                    page.sendall(f"GET /page/ HTTP/1.1\r\nHost: {name}:{port}\r\n".encode() + END)
                    assert page.recv(4096).startswith(b"HTTP/1.1 200 OK")
                assert time.monotonic() - begun < 5
        finally:
            process.kill()


def test_many_addresses_keep_nobody_out(port: int) -> None:
    """More addresses than connections, each with its share; and the one that has most gives way."""
    with ExitStack() as stack:
        for number in range(60):
            stack.enter_context(connect(port, HEAD, f"127.0.{number // 8 + 1}.{number % 8 + 1}"))
        assert asked(port) == asked(port, "127.0.9.9") == b"HTTP/1.1 200 OK"
    with ExitStack() as stack:
        patient = stack.enter_context(connect(port, HEAD, "127.0.7.7"))
        crowd = [stack.enter_context(connect(port, HEAD, f"127.0.8.{n % 4 + 1}")) for n in range(120)]
        patient.sendall(END)
        assert patient.recv(4096).startswith(b"HTTP/1.1 200 OK"), "few of its own: nobody's crowd closes it"
        assert closes(crowd[0]) < 10


def test_who_is_being_answered_is_not_closed_for_others(port: int) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(port, HEAD.replace(b"/health", b"/slow") + END)) for _ in range(8)]
        wait_until(lambda: len(_at_work) == 8, "eight that are being answered", 20)
        assert asked(port) == b"", "this address has all of its connections at work"
        assert asked(port, "127.0.0.9") == b"HTTP/1.1 200 OK"
        _let_go.set()
        assert [connection.recv(15) for connection in slow] == [b"HTTP/1.1 200 OK"] * 8


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("sent", "longest"),
    [(b"", 5), (HEAD, 5), (HEAD + b"\r\n" + HEAD, 5)],
    ids=["nothing", "half a head", "half of a second head"],
)
def test_what_is_not_sent_has_a_deadline(sent: bytes, longest: float) -> None:
    with serving() as port, connect(port, sent) as connection:
        assert 0.3 < closes(connection) < longest


@pytest.mark.usefixtures("hasty")
def test_a_head_byte_by_byte_has_the_same_deadline() -> None:
    with serving() as port, connect(port) as connection:
        connection.settimeout(0.05)
        begun = time.monotonic()
        gone = False
        while not gone and time.monotonic() - begun < 10:
            try:
                connection.sendall(b"X")
                gone = connection.recv(1) == b""
            except TimeoutError:
                continue
            except OSError:
                gone = True
        assert gone and time.monotonic() - begun < 5


@pytest.mark.usefixtures("hasty")
def test_an_answer_that_nobody_reads_has_a_deadline() -> None:
    with serving() as port, connect(port, HEAD.replace(b"/health", b"/big") + b"\r\n") as connection:
        time.sleep(2)
        read = 0
        try:
            while piece := connection.recv(1 << 16):
                read += len(piece)
        except ConnectionResetError:
            pass
        assert read < len(BIG), "the rest was dropped with the connection"


@pytest.mark.usefixtures("hasty")
def test_half_a_tls_handshake_has_the_same_deadline(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.control.mkdir(parents=True)
    make_certificate(workspace, "localhost")
    with serving(certificate_files(workspace)) as port:
        begin = ssl.MemoryBIO()
        client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), begin, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        hello = begin.read()
        for sent in (b"", hello[:40], hello):
            with connect(port, sent) as connection:
                assert closes(connection) < 5
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(connect(port)) as whole:
            assert closes(whole) < 5
        with context.wrap_socket(connect(port)) as whole:
            whole.sendall(HEAD + END)
            assert whole.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_who_gives_way() -> None:
    """The table alone: the longest waiting of the same address, then of the address that has most."""

    async def go() -> None:
        held = Connections()
        made = [held.admit("a") for _ in range(limits.SERVE_CONNECTIONS_EACH)]
        assert all(made)
        held.waits(made[0], False)  # type: ignore[arg-type]
        assert held.admit("a") is not None and made[1] not in held._all and made[0] in held._all
        held.waits(made[2], False)  # type: ignore[arg-type]
        held.waits(made[2], True)  # type: ignore[arg-type]
        assert held.admit("a") is not None and made[3] not in held._all and made[2] in held._all
        number = 0
        while len(held._all) < limits.SERVE_CONNECTIONS:
            assert held.admit(f"b{number}")
            number += 1
        assert held.admit("new") is not None
        assert sum(item.client == "a" for item in held._all) == limits.SERVE_CONNECTIONS_EACH - 1
        for item in held._all:
            item.waits = False
        assert held.admit("newer") is None and len(held._all) == limits.SERVE_CONNECTIONS

    asyncio.run(go())
