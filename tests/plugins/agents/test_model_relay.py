"""The relay as a process, between a client that is an agent and an endpoint that is a provider."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import few
from tests.plugins.agents.test_model_protocols import GOOD, PATHS
from tests.support import processes
from threegate.plugins.agents.model_counts import ModelCounts, RelaySettings
from threegate.plugins.agents.profile import Protocol
from threegate.plugins.agents.side_processes import start_model_relay

KEY = "sk-the-operators"


class Endpoint:
    """A provider: keeps what came, answers what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.status, self.headers, self.pieces = (
            200,
            {"content-type": "application/json"},
            [b'{"usage":{"total_tokens":7}}'],
        )
        self.arrived = threading.Semaphore(0)
        """Released for each piece that the agent has read."""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                endpoint.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(endpoint.status)
                for name, value in endpoint.headers.items():
                    self.send_header(name, value)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in [*endpoint.pieces, b""]:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                    if len(endpoint.pieces) > 1:
                        endpoint.arrived.acquire(timeout=20)  # the pieces come one by one

            def log_message(self, *_arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


class Client:
    """An agent: speaks to the relay's socket."""

    def __init__(self, path: Path, counts: int) -> None:
        self.path, self._counts = path, counts

    @property
    def counts(self) -> ModelCounts:
        return ModelCounts.read(self._counts)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(20)
        connection.connect(str(self.path))
        return connection

    def raw(self, data: bytes) -> bytes:
        """What comes back for bytes that are no proper request."""
        with self.connect() as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found

    def post(
        self,
        path: str,
        body: object,
        headers: dict[str, str] | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer; `arrived` is called after each piece of it."""
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = self.connect()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        found = b""
        while piece := answer.read1():
            found += piece
            arrived()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, found


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


Start = Callable[..., Client]


@pytest.fixture
def relay(tmp_path: Path, endpoint: Endpoint) -> Iterator[Start]:
    ended: list[Callable[[], None]] = []

    def start(protocol: Protocol = "chat", **changes: Any) -> Client:
        given = {
            "url": endpoint.url,
            "models": ("m",),
            "key": KEY,
            "requests": 100,
            "bytes": 1 << 20,
            "tokens": 0,
        }
        path = tmp_path / f"{len(ended)}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            process, counts = start_model_relay(listener, RelaySettings(protocol=protocol, **{**given, **changes}))
        ended.extend([process.end, lambda: os.close(counts)])
        return Client(path, counts)

    yield start
    for end in ended:
        end()


@pytest.mark.parametrize(
    ("protocol", "header"),
    few(
        [
            ("responses", "authorization"),
            ("chat", "authorization"),
            ("messages", "x-api-key"),
            ("gemini", "x-goog-api-key"),
        ],
        2,
    ),
)
def test_the_key_is_the_operators_and_nothing_of_the_agents_head_goes_on(
    relay: Start, endpoint: Endpoint, protocol: Protocol, header: str
) -> None:
    mine = {
        "Authorization": "Bearer mine", "x-api-key": "mine", "x-goog-api-key": "mine", "Cookie": "mine", "OpenAI-Organization": "mine",  # noqa: E501
        "X-Anything": "mine", "anthropic-beta": "interleaved-thinking-2025-05-14,mcp-client-2025-04-04,files-api-2025-04-14",  # noqa: E501
        "Host": "evil.example", "User-Agent": "mine",
    }  # fmt: skip
    status, _, body = relay(protocol).post(PATHS[protocol], GOOD[protocol], mine)
    assert (status, body) == (200, b'{"usage":{"total_tokens":7}}')
    [(method, path, heads, sent)] = endpoint.seen
    assert (method, path) == ("POST", PATHS[protocol]) and json.loads(sent).items() >= GOOD[protocol].items()
    assert heads[header].endswith(KEY) and "mine" not in json.dumps(heads) and "evil" not in json.dumps(heads)
    assert set(heads) <= {
        "host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length", header,
        "anthropic-version", "anthropic-beta",
    }  # fmt: skip
    if protocol == "messages":
        assert heads["anthropic-beta"] == "interleaved-thinking-2025-05-14"


def test_a_stream_comes_piece_by_piece_and_is_counted(relay: Start, endpoint: Endpoint) -> None:
    endpoint.headers = {"content-type": "text/event-stream", "set-cookie": "a=b", "x-request-id": "r"}
    endpoint.pieces = [
        b'data: {"usage":{"input_tok',
        b'ens":5,"output_tokens":1}}\n\n',
        b'data: {"usage":{"output_tokens":9}}\n\n',
    ]
    client = relay("messages")
    status, heads, body = client.post(
        "/v1/messages?beta=true",
        {**GOOD["messages"], "stream": True},
        {"accept": "text/event-stream"},
        endpoint.arrived.release,
    )
    assert status == 200 and body == b"".join(endpoint.pieces)
    assert heads["content-type"] == "text/event-stream" and "set-cookie" not in heads and heads["x-request-id"] == "r"
    assert (client.counts.requests, client.counts.tokens, client.counts.bytes_in) == (1, 14, len(body))


def test_a_refusal_says_what_and_reaches_nobody(relay: Start, endpoint: Endpoint) -> None:
    client = relay()
    for path, body, headers in (
        ("/v1/files", GOOD["chat"], {}),
        (PATHS["chat"], {**GOOD["chat"], "model": "other"}, {}),
        (PATHS["chat"] + "?x=1", GOOD["chat"], {}),
        (PATHS["chat"], b'{"model": "m", "model": "m"}', {}),
        (PATHS["chat"], b"not json", {}),
        (PATHS["chat"], GOOD["chat"], {"Content-Encoding": "gzip"}),
        (PATHS["chat"], GOOD["chat"], {"Connection": "upgrade", "Upgrade": "websocket"}),
        ("http://evil.example/v1/chat/completions", GOOD["chat"], {}),
    ):
        status, _, said = client.post(path, body, headers)
        assert status == 403 and b"ThreeGate's model relay refuses" in said, (path, said)
    assert endpoint.seen == [] and client.counts.refused == 8 and client.counts.requests == 0


NO_PROPER_REQUESTS = [
    (
        403,
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
            b"chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        ),
    ),
    (
        400,
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ),
    (400, b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nBad Header : x\r\n\r\n"),
    (400, b"POST /v1/chat/completions HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n"),
    (403, b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"),
    (403, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"),
    (400, b"\x16\x03\x01\x02\x00"),
    (403, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    (400, b"POST " + b"/" * 40_000 + b" HTTP/1.1\r\n\r\n"),
]


def test_what_is_no_proper_request_goes_nowhere(relay: Start, endpoint: Endpoint) -> None:
    """400 is for what cannot be read, 403 for what can and is not let through."""
    client = relay()
    for status, data in NO_PROPER_REQUESTS:
        assert client.raw(data).startswith(b"HTTP/1.1 %d " % status), data[:80]
    assert endpoint.seen == []


def test_a_redirect_is_not_followed(relay: Start, endpoint: Endpoint) -> None:
    endpoint.status, endpoint.headers = 307, {"location": "http://127.0.0.1:1/"}
    status, heads, body = relay().post(PATHS["chat"], GOOD["chat"])
    assert status == 502 and b"redirect" in body and "location" not in heads and len(endpoint.seen) == 1


def test_an_endpoint_that_is_away_is_one_line(relay: Start) -> None:
    status, _, body = relay(url="http://127.0.0.1:1").post(PATHS["chat"], GOOD["chat"])
    assert status == 502 and b"cannot be reached" in body


def test_the_providers_refusals_reach_the_agent(relay: Start, endpoint: Endpoint) -> None:
    endpoint.status, endpoint.headers, endpoint.pieces = 429, {"retry-after": "7"}, [b'{"error":"slow down"}']
    status, heads, body = relay().post(PATHS["chat"], GOOD["chat"])
    assert (status, heads["retry-after"], body) == (429, "7", b'{"error":"slow down"}')


@pytest.mark.parametrize(("budget", "value"), few([("requests", 2), ("bytes", 120), ("tokens", 10)], 1))
def test_a_budget_ends_it(relay: Start, endpoint: Endpoint, budget: str, value: int) -> None:
    client = relay(**{budget: value})
    statuses = [client.post(PATHS["chat"], GOOD["chat"])[0] for _ in range(4)]
    assert statuses == [200, 200, 403, 403] and len(endpoint.seen) == 2
    assert b"budget" in client.post(PATHS["chat"], GOOD["chat"])[2]


def test_an_answer_that_is_larger_than_the_budget_is_cut(relay: Start, endpoint: Endpoint) -> None:
    endpoint.pieces = [b"x" * 1000] * 20
    client = relay(bytes=5000)
    _, _, body = client.post(PATHS["chat"], GOOD["chat"], arrived=endpoint.arrived.release)
    assert body == b"x" * 4000, "the request itself counts too"
    assert client.post(PATHS["chat"], GOOD["chat"])[0] == 403


def test_the_key_is_in_no_argument_and_no_environment(relay: Start, endpoint: Endpoint) -> None:
    relay().post(PATHS["chat"], GOOD["chat"])
    environments = dict(processes("environ"))
    found = [
        line + environments.get(pid, b"")
        for pid, line in processes()
        if b"threegate.plugins.agents.model_relay" in line
    ]
    assert found and all(KEY.encode() not in text for text in found)
