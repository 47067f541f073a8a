"""An agent asks its model many times at once, breaks off, sends large bodies, and hides what an answer used: its
budgets hold, and the relay's memory is bounded.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

# ruff: noqa: F811 - a fixture is an argument of its name
from tests.conftest import few, missing
from tests.plugins.agents.test_model_protocols import GOOD, PATHS
from tests.plugins.agents.test_model_relay import KEY, Client, Endpoint, Start, endpoint, relay  # noqa: F401 - the fixtures
from tests.support import children, processes, wait_until
from threegate.core import limits
from threegate.plugins.agents.model_counts import RelaySettings
from threegate.plugins.agents.side_processes import start_model_relay
from threegate.runners.jail.jail_cgroup import JailCgroup

MIB = 1 << 20
GOOD_BODY = json.dumps(GOOD["chat"]).encode()


def begin(client: Client, body: bytes, *, sent: int) -> http.client.HTTPConnection:
    """A request of which only the first bytes of the body were sent."""
    connection = http.client.HTTPConnection("127.0.0.1")
    connection.sock = client.connect()
    connection.putrequest("POST", PATHS["chat"])
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body[:sent])
    return connection


def finish(connection: http.client.HTTPConnection, rest: bytes) -> int:
    """The status, once the rest of the body was sent; a refusal may come before it."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.send(rest)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def at_once(client: Client, times: int, protocol: Any = "chat", body: Any = None) -> list[int]:
    with ThreadPoolExecutor(times) as pool:
        asked = [pool.submit(client.post, PATHS[protocol], body or GOOD[protocol]) for _ in range(times)]
        return sorted(each.result()[0] for each in asked)


def relays() -> list[int]:
    """The relays that this process started."""
    mine = children(os.getpid())
    return [pid for pid, line in processes() if pid in mine and b"threegate.plugins.agents.model_relay" in line]


def resident(pid: int) -> int:
    """Bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("budget", "value", "forwarded"), [("requests", 1, 1), ("requests", 5, 5), ("bytes", 100, 2)])
def test_twelve_half_sent_requests_do_not_share_one_budget(
    relay: Start,
    endpoint: Endpoint,
    budget: str,
    value: int,
    forwarded: int,
) -> None:
    """Each would have passed the check before the first of them was counted."""
    assert 50 < len(GOOD_BODY) < 100
    client = relay(**{budget: value})
    begun = [begin(client, GOOD_BODY, sent=9) for _ in range(12)]
    statuses = sorted(finish(connection, GOOD_BODY[9:]) for connection in begun)
    assert statuses == [200] * forwarded + [403] * (12 - forwarded)
    assert len(endpoint.seen) == forwarded == client.counts.requests


def test_a_request_that_is_refused_or_broken_off_gives_its_budget_back(relay: Start, endpoint: Endpoint) -> None:
    client = relay(requests=1)
    assert client.post(PATHS["chat"], {**GOOD["chat"], "model": "other"})[0] == 403
    begin(client, GOOD_BODY, sent=9).close()
    wait_until(lambda: client.counts.refused == 2)
    assert (client.counts.requests, client.counts.bytes_out) == (0, 0)
    assert client.post(PATHS["chat"], GOOD["chat"])[0] == 200
    assert client.post(PATHS["chat"], GOOD["chat"])[0] == 403 and len(endpoint.seen) == 1


def test_a_body_of_no_declared_size_is_reserved_as_the_largest(relay: Start, endpoint: Endpoint) -> None:
    client = relay(bytes=MIB)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with client.connect() as connection:
        connection.sendall(head)
        wait_until(lambda: client.counts.bytes_out == limits.AGENT_MODEL_REQUEST_BYTES)
        assert client.post(PATHS["chat"], GOOD["chat"])[0] == 403
        connection.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD_BODY), GOOD_BODY))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    [(_, _, _, body)] = endpoint.seen
    assert client.counts.bytes_out == len(body) < len(GOOD_BODY) + 1, "what is not used is given back"


def test_six_requests_at_once_do_not_share_one_budget_of_tokens(relay: Start, endpoint: Endpoint) -> None:
    """What an answer used is known at its end, so the next request waits for it."""
    client = relay(tokens=10)
    assert at_once(client, 6) == [200, 200, 403, 403, 403, 403]
    assert len(endpoint.seen) == 2 and client.counts.tokens == 14


def test_a_stream_is_asked_to_report_its_tokens(relay: Start, endpoint: Endpoint) -> None:
    client = relay()
    for given in ({}, {"stream_options": None}, {"stream_options": {"include_usage": False}}):
        client.post(PATHS["chat"], {**GOOD["chat"], "stream": True, **given})
    client.post(PATHS["chat"], GOOD["chat"])
    *streamed, plain = [json.loads(body) for *_, body in endpoint.seen]
    assert [body["stream_options"]["include_usage"] for body in streamed] == [True, True, True]
    assert "stream_options" not in plain


def test_tokens_that_nobody_reports_are_counted_by_size(relay: Start, endpoint: Endpoint) -> None:
    endpoint.pieces = [b'data: {"choices":[{"delta":{"content":"hello"}}]}\n\ndata: [DONE]\n\n']
    client = relay(tokens=60)
    assert client.post(PATHS["chat"], {**GOOD["chat"], "stream": True})[0] == 200
    moved = len(endpoint.seen[0][3]) + len(endpoint.pieces[0])
    assert client.counts.tokens == -(-moved // limits.AGENT_MODEL_TOKEN_BYTES)
    statuses = [client.post(PATHS["chat"], {**GOOD["chat"], "stream": True})[0] for _ in range(2)]
    assert statuses == [200, 403]


def test_an_error_uses_no_tokens_and_neither_does_counting_them(relay: Start, endpoint: Endpoint) -> None:
    endpoint.pieces = [b'{"input_tokens":700}']
    client = relay("messages")
    assert client.post("/v1/messages/count_tokens", GOOD["messages"])[0] == 200
    endpoint.status, endpoint.pieces = 500, [b'{"error":"x"}']
    assert client.post("/v1/messages", GOOD["messages"])[0] == 500
    assert client.counts.tokens == 0 and client.counts.requests == 2


@pytest.mark.parametrize(
    ("answer", "tokens"),
    few([
        ({"content": [{"input": {"total_tokens": 1}}], "usage": {"input_tokens": 100, "output_tokens": 5}}, 105),
        ({"usage": {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 4000}}, 4321),  # noqa: E501
        ({"content": [{"text": '"total_tokens": 9999'}], "usage": {"input_tokens": 1, "output_tokens": 1}}, 2),
        ({"args": {"totalTokenCount": 3}, "usageMetadata": {"totalTokenCount": 70}}, 70),
    ], 2),
)  # fmt: skip
def test_data_in_an_answer_does_not_hide_what_it_used(
    relay: Start,
    endpoint: Endpoint,
    answer: dict[str, Any],
    tokens: int,
) -> None:
    endpoint.pieces = [json.dumps(answer).encode()]
    client = relay("messages")
    client.post("/v1/messages", GOOD["messages"])
    assert client.counts.tokens == tokens


@pytest.fixture
def broken() -> Iterator[str]:
    """A provider that breaks off in the middle of each answer: its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while not connection.recv(65536).endswith(b"}"):
                        pass
                    said = b'data: {"usage":{"input_tokens":500,"output_tokens":1}}\n\n'
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n" + said)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_an_answer_that_breaks_off_is_counted(relay: Start, broken: str) -> None:
    client = relay("messages", url=broken, tokens=500)
    with pytest.raises(http.client.HTTPException):
        client.post("/v1/messages", {**GOOD["messages"], "stream": True})
    wait_until(lambda: client.counts.tokens == 501)
    assert client.post("/v1/messages", GOOD["messages"])[0] == 403


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bodies_wait_outside_of_the_relay(relay: Start, endpoint: Endpoint, whole: bool) -> None:
    """Of half-sent bodies of 31 MiB it holds two; the others are read when there is room, and none is refused."""
    client = relay(bytes=1024 * MIB)
    client.post(PATHS["chat"], GOOD["chat"])
    [pid] = relays()
    before = resident(pid)
    body = json.dumps({**GOOD["chat"], "messages": [{"role": "user", "content": "x" * (31 * MIB)}]}).encode()
    sent, go = threading.Semaphore(0), threading.Event()

    def send() -> int:
        connection = begin(client, body, sent=0)
        connection.send(body[:-1])  # blocks while the relay does not read
        sent.release()
        go.wait(60)
        if whole:
            return finish(connection, body[-1:])
        connection.close()
        return 0

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(send) for _ in range(6)]
        try:
            for _ in range(limits.AGENT_MODEL_HELD_BYTES // len(body)):
                assert sent.acquire(timeout=30)
            assert not sent.acquire(timeout=0.3), "no other body is read"
            assert resident(pid) - before < limits.AGENT_MODEL_HELD_BYTES + 16 * MIB
        finally:
            go.set()
        assert [each.result(60) for each in asked] == [200 if whole else 0] * 6
    assert client.post(PATHS["chat"], GOOD["chat"])[0] == 200
    assert len(endpoint.seen) == (8 if whole else 2), "a body that broke off gives its room back"


def test_the_relay_has_a_limit_of_memory_of_its_own(relay: Start) -> None:
    relay().post(PATHS["chat"], GOOD["chat"])
    [pid] = relays()
    rows = Path(f"/proc/{pid}/limits").read_text().splitlines()
    [row] = [row.split() for row in rows if row.startswith("Max data size")]
    assert row[3:5] == [str(limits.AGENT_MODEL_MEMORY_MB * MIB)] * 2


@pytest.mark.parametrize(
    ("part", "times", "why"),
    [(b"[],{},", 5 * MIB, b"brackets"), pytest.param(b'"ab",', 6 * MIB, b"memory", marks=pytest.mark.slow)],
)
def test_a_body_that_grows_in_memory_is_refused_and_the_relay_lives(
    relay: Start, endpoint: Endpoint, part: bytes, times: int, why: bytes
) -> None:
    client = relay(bytes=1024 * MIB)
    bomb = b'{"model":"m","metadata":[' + part * times + b"1]}"
    status, _, said = client.post(PATHS["chat"], bomb)
    assert status == 403 and why in said
    assert client.post(PATHS["chat"], GOOD["chat"])[0] == 200 and len(endpoint.seen) == 1


def test_the_relay_is_in_the_runs_cgroups(tmp_path: Path) -> None:
    cgroup = JailCgroup.make(f"test-{os.getpid()}-relay", memory_mb=1024)
    if cgroup.missing:
        missing("no cgroup can be made here (only root can)")
    settings = RelaySettings("chat", "http://127.0.0.1:1", ("m",), KEY, 1, 1, 0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        process, counts = start_model_relay(listener, settings, cgroup.entered)
    try:
        wait_until(lambda: len(relays()) == 1)
        [pid] = relays()
        assert all(str(pid) in file.read_text().split() for file in cgroup.entered)
    finally:
        process.end()
        os.close(counts)
        cgroup.close()
    assert cgroup.folder is not None and not cgroup.folder.exists()


@pytest.mark.parametrize(
    "pieces",
    [
        [b'{"error":"bad key %s"}' % KEY.encode()],
        [b'{"error":"bad key %s' % KEY[:7].encode(), b'%s!"}' % KEY[7:].encode()],
        [b'{"error":"bad key %s' % KEY[:1].encode(), KEY[1:9].encode(), b'%s!"}' % KEY[9:].encode()],
        [b'{"header":"%s"}' % KEY.encode().hex().encode()],
    ],
)
def test_a_key_that_the_provider_repeats_does_not_reach_the_agent(
    relay: Start,
    endpoint: Endpoint,
    pieces: list[bytes],
) -> None:
    endpoint.status, endpoint.pieces = 401, pieces
    endpoint.headers = {"content-type": "application/json", "x-request-id": f"r-{KEY}"}
    for _ in pieces:
        endpoint.arrived.release()
    status, heads, body = relay().post(PATHS["chat"], GOOD["chat"])
    assert status == 401 and b"[secret]" in body and KEY.encode() not in body and KEY[:7].encode() not in body
    assert heads["x-request-id"] == "r-[secret]"
