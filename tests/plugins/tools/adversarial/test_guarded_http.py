"""A host that somebody else named gets one request at a public address, and answers shortly, in time and plainly."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from threegate.core import limits
from threegate.core.errors import Refused, ThreeGateError, Unavailable
from threegate.plugins.tools.remote.guarded_http import PUBLIC, Reach, Request, checked_url, fetch, origin_of

NAME = "mcp.example.com"


@dataclass
class Host:
    """Answers each connection with the same bytes; `heard` are the requests."""

    port: int
    authority: Path
    answer: list[bytes] = field(default_factory=lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])
    heard: list[bytes] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    """Set: the connection is kept open after the answer until `held` is cleared by its end."""

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.port}/mcp"

    def reach(self, *addresses: str) -> Reach:
        return Reach(
            lambda _host, _port: addresses or ("127.0.0.1",),
            lambda address: address.startswith("127."),
            lambda: ssl.create_default_context(cafile=str(self.authority)),
        )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls") / "host.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", made, "-out", f"{made}.crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    made.write_bytes(made.read_bytes() + Path(f"{made}.crt").read_bytes())
    return made


@pytest.fixture
def host(authority: Path) -> Iterator[Host]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    listening = socket.create_server(("127.0.0.1", 0))
    made = Host(listening.getsockname()[1], authority)

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(plain,), daemon=True).start()

    def answer(plain: socket.socket) -> None:
        try:
            with context.wrap_socket(plain, server_side=True) as secure:
                made.heard.append(secure.recv(65536))
                for piece in made.answer:
                    secure.sendall(piece)
                if made.held.is_set():
                    secure.recv(1)
        except OSError:
            plain.close()

    threading.Thread(target=serve, daemon=True).start()
    yield made
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def refused(host: Host, *addresses: str, url: str = "") -> str:
    with pytest.raises(ThreeGateError) as caught:
        fetch(url or host.url, "the metadata", reach=host.reach(*addresses))
    return str(caught.value)


def test_one_request_and_its_answer(host: Host) -> None:
    host.answer[:0] = [b"HTTP/1.1 103 Early Hints\r\n\r\n"]
    answer, body = fetch(f"{host.url}?a=1", "it", "POST", [("accept", "x/y")], b"{}", reach=host.reach())
    assert (answer.status, answer.header("content-length"), answer.header("x"), body) == (200, "2", "", b"ok")
    head, _, sent = host.heard[0].partition(b"\r\n\r\n")
    assert sent == b"{}" and head.split(b"\r\n") == [
        b"POST /mcp?a=1 HTTP/1.1", f"host: {NAME}:{host.port}".encode(), b"accept-encoding: identity",
        b"content-length: 2", b"accept: x/y", b"connection: close",
    ]  # fmt: skip


def test_an_address_that_is_not_public_gets_nothing(host: Host) -> None:
    """Nor one of several: who controls the name decides which of them comes first."""
    for addresses in (("169.254.169.254",), ("127.0.0.1", "10.0.0.1"), ("::1",)):
        assert refused(host, *addresses) == f"the metadata: {NAME} leads to an address that is not public"
    for url in ("https://169.254.169.254/a", "https://[::1]/a", "https://127.0.0.1/"):
        with pytest.raises(Refused, match="not public"):
            fetch(url, "the metadata", reach=PUBLIC)
    assert host.heard == []


def test_the_address_that_was_checked_is_the_one_connected_to(host: Host) -> None:
    """A name that leads elsewhere when it is looked up again: there is no second lookup."""
    asked: list[str] = []

    def lookup(name: str, _port: int) -> list[str]:
        asked.append(name)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    kept = host.reach()
    assert fetch(host.url, "it", reach=Reach(lookup, kept.may, kept.tls))[1] == b"ok"
    assert asked == [NAME]


def test_another_certificate_gets_nothing(host: Host) -> None:
    other = f"https://other.example.com:{host.port}/"
    assert refused(host, url=other).startswith("the metadata: the certificate of other.example.com is not good: ")
    with pytest.raises(Unavailable, match="self.signed certificate"):
        fetch(host.url, "it", reach=Reach(host.reach().lookup, host.reach().may))
    assert host.heard == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://169.254.169.254/\r\n\r\n", "it leads elsewhere (302)"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", "is compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n\r\n", "content-encoding twice"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n" + b"x" * 4194304, "the answer is too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no HTTP, or broke off"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 40_000, "no HTTP, or broke off"),
        (b"SSH-2.0-x\r\n\r\n", "no HTTP, or broke off"),
        (b"", "no HTTP, or broke off"),
    ],
)
def test_an_odd_answer_is_an_error(host: Host, answer: bytes, says: str) -> None:
    host.answer[:] = [answer]
    assert says in refused(host)
    assert len(host.heard) == 1


def test_what_keeps_the_connection_alive_does_not_move_the_deadline(host: Host) -> None:
    host.answer[:] = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 3]
    host.held.set()
    with Request(host.url, "it", reach=host.reach()) as request:
        answer = request.send("GET", seconds=0.7)
        with pytest.raises(Unavailable, match="no answer in time"):
            answer.read()
    with pytest.raises(Unavailable, match="was not found"), Request(host.url, "it", reach=never_found()) as request:
        request.send("GET", seconds=0.1)
    with pytest.raises(Unavailable, match="no answer in time"), Request(host.url, "it", reach=host.reach()) as request:
        request.send("GET", seconds=-1)


def never_found() -> Reach:
    return Reach(lambda _host, _port: threading.Event().wait(30) and [] or [])


def test_stopped_from_another_thread(host: Host) -> None:
    host.answer[:] = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]
    host.held.set()
    with Request(host.url, "it", reach=host.reach()) as request:
        answer = request.send("GET")
        threading.Thread(target=request.stop).start()
        with pytest.raises(Unavailable, match="broke off"):
            answer.read()
    stopped = Request(host.url, "it", reach=host.reach())
    stopped.stop()
    with pytest.raises(Unavailable, match="broke off"):
        stopped.send("GET")
    assert not stopped.sent and len(host.heard) == 1


@contextmanager
def listening_only(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections are given to `serve`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                plain, _ = listening.accept()
                threading.Thread(target=serve, args=(plain,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def test_stopped_while_the_host_does_not_shake_hands(host: Host) -> None:
    """Or a call could not be cancelled before its time is over."""
    came = threading.Event()
    with (
        listening_only(lambda plain: came.set() or threading.Event().wait(20) or plain.close()) as port,
        Request(f"https://{NAME}:{port}/", "it", reach=host.reach()) as request,
    ):
        threading.Thread(target=lambda: came.wait(10) and request.stop()).start()
        began = time.monotonic()
        with pytest.raises(Unavailable, match="broke off"):
            request.send("GET", seconds=15)
        assert time.monotonic() - began < 10 and not request.sent


def test_what_is_sent_while_it_is_stopped_is_never_in_the_clear(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one thread may be sending the head, with a token in it, at the very moment in which the other one stops."""
    crossed: list[bytes] = []

    def relay(plain: socket.socket) -> None:
        with plain, suppress(OSError), socket.create_connection(("127.0.0.1", host.port)) as behind:
            back = threading.Thread(target=forward, args=(behind, plain, []), daemon=True)
            back.start()
            forward(plain, behind, crossed)

    def forward(source: socket.socket, target: socket.socket, kept: list[bytes]) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                kept.append(piece)
                target.sendall(piece)

    really = socket.socket.shutdown

    def meanwhile(stopped: socket.socket, how: int) -> None:
        if isinstance(stopped, ssl.SSLSocket):
            stopped.send(b"Authorization: Bearer at-1")
            sent.set()
        really(stopped, how)

    host.answer[:] = [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]
    host.held.set()
    sent = threading.Event()
    with listening_only(relay) as port:
        with Request(f"https://{NAME}:{port}/", "it", reach=host.reach()) as request:
            request.send("GET")
            monkeypatch.setattr(socket.socket, "shutdown", meanwhile)
            request.stop()
            monkeypatch.undo()
        assert sent.is_set() and crossed
        assert b"Bearer" not in b"".join(crossed)


def test_a_host_that_reads_slowly_does_not_move_the_deadline(authority: Path) -> None:
    """Each record that it takes would otherwise have the whole time anew."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)

    def slow(plain: socket.socket) -> None:
        with suppress(OSError):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with context.wrap_socket(plain, server_side=True) as secure:
                for _ in range(200):
                    threading.Event().wait(0.1)
                    secure.recv(16384)

    with (
        listening_only(slow) as port,
        Request(f"https://{NAME}:{port}/", "it", reach=Host(port, authority).reach()) as request,
    ):
        began = time.monotonic()
        with pytest.raises(Unavailable, match="no answer in time"):
            request.send("POST", body=b"x" * 16_000_000, seconds=1.5)
        assert time.monotonic() - began < 5


def test_nobody_there(host: Host) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert refused(host, url=f"https://{NAME}:{port}/") == f"the metadata: {NAME} cannot be reached on port {port}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://mcp.example.com/", "must begin with https://"),
        ("javascript:alert(1)", "must begin with https://"),
        ("https://a@mcp.example.com/", "no user, password or fragment"),
        ("https://mcp.example.com/#", "no user, password or fragment"),
        ("https://localhost/", "must name a host by its full name"),
        ("https://-a.example.com/", "must name a host by its full name"),
        ("https:///x", "must name a host by its full name"),
        ("https://mcp.example.com:0/", "must name a host by its full name"),
        ("https://mcp.example.com:99999/", "is no URL"),
        ("https://[::1/", "is no URL"),
        ("https://mcp.example.com\\@evil.example/", "printable ASCII"),
        ("https://mcp.example.com/ x", "printable ASCII"),
        ("https://mcp.exämple.com/", "printable ASCII"),
        ("https://mcp.example.com/" + "a" * limits.REMOTE_URL_CHARS, "more than"),
    ],
)
def test_a_url_that_is_refused(url: str, says: str) -> None:
    with pytest.raises(Refused, match="^it ") as caught:
        checked_url(url, "it")
    assert says in str(caught.value) and caught.value.code == "url_refused"


def test_origins() -> None:
    assert origin_of("https://MCP.example.com:443/a?b") == "https://mcp.example.com"
    assert origin_of("https://[2606:4700::1]:8443/") == "https://[2606:4700::1]:8443"
