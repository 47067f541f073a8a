"""The forwarder: one request to one host over checked TLS, and no answer that could show the secret."""

from __future__ import annotations

import base64
import http.client
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from threegate.runners.egress import secret_forwarder
from threegate.runners.egress.secret_forwarder import Forwarder

HOST, PATH, TOKEN = "localhost", "/repos/a/b/issues", "gate3-" + "0123456789"


class Api(ThreadingHTTPServer):
    """A TLS server that keeps what came and answers with `status`, `more` headers and `answer`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.came: list[tuple[str, str | None, str | None, bytes]] = []
        self.answer: Callable[[str], bytes] = lambda _authorization: b'{"ok": 1}'
        self.more: dict[str, str] = {}
        self.status = 201

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is expected here."""


class Answer(BaseHTTPRequestHandler):
    """Answers as its server says."""

    server: Api

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers["Authorization"]
        self.server.came.append((self.path, given, self.headers["X-Other"], body))
        data = self.server.answer(given)
        self.send_response(self.server.status)
        for name, text in self.server.more.items():
            self.send_header(name, text.replace("TOKEN", TOKEN))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for a name, with its key in the same file."""
    file = folder / f"{name}.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",  # noqa: E501
            "-keyout", str(file), "-out", str(file) + ".crt", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]  # fmt: skip  # noqa: E501
    subprocess.run(made, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + Path(f"{file}.crt").read_bytes())
    return file


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One for the host, one for another name."""
    folder = tmp_path_factory.mktemp("tls")
    return certificate(folder, HOST), certificate(folder, "other.example.com")


def serving(server: ThreadingHTTPServer | Forwarder) -> None:
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def api(certificates: tuple[Path, Path]) -> Iterator[Api]:
    """The host's own server."""
    with Api() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        serving(server)
        yield server
        server.shutdown()


def forwarding(api: Api, trusted: Path) -> Forwarder:
    request = ("POST", HOST, int(api.server_address[1]), PATH)
    made = Forwarder(("127.0.0.1", 0), request, ssl.create_default_context(cafile=str(trusted)), TOKEN)
    serving(made)
    return made


@pytest.fixture
def forwarder(api: Api, certificates: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Forwarder]:
    """The forwarder for it. The host of these tests is on loopback, which the rule of addresses refuses (see below)."""
    monkeypatch.setattr(secret_forwarder, "public", lambda address: address == "127.0.0.1")
    made = forwarding(api, certificates[0])
    yield made
    made.shutdown()
    made.server_close()


def ask(
    forwarder: Forwarder,
    method: str = "POST",
    path: str = PATH,
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
) -> tuple[int, dict[str, str], bytes]:
    """One request to the forwarder, as the proxy makes it: status, headers, body."""
    connection = http.client.HTTPConnection("127.0.0.1", int(forwarder.server_address[1]), timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, text in ({"Host": HOST, "Content-Length": str(len(body))} | (headers or {})).items():
        connection.putheader(name, text)
    connection.endheaders(body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), data


def test_the_one_request_gets_the_secret_and_nothing_else_of_the_run(api: Api, forwarder: Forwarder) -> None:
    api.more = {"Set-Cookie": "a=b", "Location": "https://x.example/1"}
    given = {"Authorization": "Bearer of-the-run", "X-Other": "y", "Accept-Encoding": "gzip"}
    status, headers, body = ask(forwarder, headers=given, body=b'{"title": 1}')
    assert (status, body) == (201, b'{"ok": 1}')
    assert api.came == [(PATH, f"Bearer {TOKEN}", None, b'{"title": 1}')]
    assert headers["Location"] == "https://x.example/1"
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
    ("method", "path", "host"),
    [
        ("GET", PATH, HOST),
        ("DELETE", PATH, HOST),
        ("POST", PATH + "/1", HOST),
        ("POST", PATH + "?a=b", HOST),
        ("POST", "/repos/a/b/../b/issues", HOST),
        ("POST", "//repos/a/b/issues", HOST),
        ("POST", PATH, "other.example.com"),
        ("POST", "http://other.example.com" + PATH, HOST),
    ],
)
def test_another_request_is_refused(api: Api, forwarder: Forwarder, method: str, path: str, host: str) -> None:
    assert ask(forwarder, method, path, {"Host": host})[0] == 403
    assert api.came == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": "x"}, 411),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": str(secret_forwarder.REQUEST_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 30}, 413),
    ],
)
def test_a_body_has_a_bounded_length(api: Api, forwarder: Forwarder, headers: dict[str, str], status: int) -> None:
    assert ask(forwarder, headers=headers, body=b"")[0] == status
    assert api.came == []


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        (lambda given: f'{{"you sent": "{given}"}}'.encode(), {}),
        (lambda given: base64.b64encode(f"me:{given}".encode()), {}),
        (lambda given: base64.encodebytes(b"x" * 47 + given.encode()), {}),
        (lambda given: base64.urlsafe_b64encode(b"xx" + given.encode()), {}),
        (lambda given: given.encode().hex(":").upper().encode(), {}),
        (lambda given: "".join(f"%{ord(char):02x}" for char in given).encode(), {}),
        (lambda given: "".join(f"%25{ord(char):02x}" for char in given).encode(), {}),
        (lambda given: "".join(f"\\u00{ord(char):02X}" for char in given).encode(), {}),
        (lambda _: b"", {"Location": "https://x.example/?t=TOKEN"}),
        (lambda _: b"", {"Location": f"https://x.example/?t=%67{TOKEN[1:]}"}),
        (lambda _: b"\x1f\x8b", {"Content-Encoding": "gzip"}),
        (lambda _: b"x" * (secret_forwarder.ANSWER_BYTES + 1), {}),
    ],
    ids=[
        "body",
        "base64",
        "wrapped",
        "url-safe",
        "hex",
        "percent",
        "percent twice",
        "JSON",
        "header",
        "header percent",
        "encoded",
        "long",
    ],  # fmt: skip
)
def test_an_answer_that_may_hold_the_secret_stays_out(
    api: Api, forwarder: Forwarder, answer: Callable[[str], bytes], more: dict[str, str]
) -> None:
    api.answer, api.more = answer, more
    status, headers, body = ask(forwarder)
    assert status == 502
    assert TOKEN.encode() not in body
    assert TOKEN not in str(headers)
    assert len(api.came) == 1


def test_a_redirect_is_told_and_not_followed(api: Api, forwarder: Forwarder) -> None:
    api.status, api.more = 307, {"Location": PATH}
    assert ask(forwarder)[0] == 307
    assert len(api.came) == 1


def test_another_certificate_gets_nothing(
    api: Api, certificates: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_forwarder, "public", lambda _address: True)
    made = forwarding(api, certificates[1])
    assert ask(made)[0] == 502
    assert api.came == []
    made.shutdown()
    made.server_close()


def test_a_trusted_certificate_of_another_name_gets_nothing(
    api: Api, certificates: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_forwarder, "public", lambda _address: True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[1])
    with Api() as other:
        other.socket = context.wrap_socket(other.socket, server_side=True)
        serving(other)
        made = forwarding(other, certificates[1])
        assert ask(made)[0] == 502
        assert other.came == []
        made.shutdown()
        made.server_close()
        other.shutdown()


def test_an_address_that_is_not_public_gets_nothing(api: Api, certificates: tuple[Path, Path]) -> None:
    made = forwarding(api, certificates[0])
    assert ask(made)[0] == 502
    assert api.came == []
    made.shutdown()
    made.server_close()
    for address in (
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.168.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "168.63.129.16",
    ):
        assert not secret_forwarder.public(address)
    assert secret_forwarder.public("140.82.112.5")


def test_without_a_secret_it_does_not_serve(certificates: tuple[Path, Path]) -> None:
    command = [
        sys.executable,
        "-I",
        secret_forwarder.__file__,
        "POST",
        HOST,
        "443",
        PATH,
        str(certificates[0]),
    ]
    done = subprocess.run(command, input=b"\n", capture_output=True, timeout=30)
    assert (done.returncode, done.stderr) == (1, b"no secret received\n")
