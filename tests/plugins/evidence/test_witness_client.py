"""Asking a witness that is away, hangs, lies or never ends: a bounded time, a bounded answer, one line, and nothing
believed.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.trail.proofs import consistency_proof
from threegate.core import limits
from threegate.core.errors import InvalidInput, Refused, Unavailable
from threegate.plugins.evidence.witness_client import WitnessClient
from threegate.trail import tree
from threegate.trail.checkpoint import sign_trail_checkpoint
from threegate.trail.cosignature import WitnessKey, cosign
from threegate.trail.workspace_key import SigningKey

LEAVES = [tree.leaf_hash(b"line %d" % number) for number in range(9)]
LOG = SigningKey("threegate.local/ws-" + "1" * 32, Ed25519PrivateKey.from_private_bytes(b"1" * 32))
OWN = SigningKey("witness.example/w1", Ed25519PrivateKey.from_private_bytes(b"w" * 32))
KEY = WitnessKey.of(OWN)
NOTE = sign_trail_checkpoint(LOG, 9, tree.root_of(LEAVES))
Serve = Callable[[socket.socket], None]


def prove(old: int, new: int) -> list[bytes]:
    return consistency_proof(old, LEAVES[:new])


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """A socket that accepts, and does with each connection what `serve` says."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                serve(connection)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/prefix/"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def answers(*raw: bytes) -> Serve:
    """Each connection gets the next answer, after its request was read."""
    left = list(raw)

    def serve(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(NOTE.render()):
            data += connection.recv(65536)
        assert data.startswith(b"POST /prefix/add-checkpoint HTTP/1.1\r\n")
        connection.sendall(left.pop(0))

    return serve


def answer(status: int, body: bytes, kind: str = "text/plain") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


GOOD = cosign(OWN, NOTE, 5).render().encode()
CONFLICT = answer(409, b"4\n", "text/x.tlog.size")


def test_the_size_of_a_conflict_is_followed_once() -> None:
    with server(answers(CONFLICT, answer(200, GOOD))) as url:
        assert WitnessClient(url, KEY).cosigned(NOTE, prove).render() == NOTE.render() + GOOD


@pytest.mark.parametrize(
    ("raw", "error", "said"),
    [
        ([answer(403, b"no\x1b[31m\n")], Refused, r"403 no \[31m"),
        ([answer(404, b"x" * 5000)], Refused, "404 x{120}$"),
        ([answer(422, b"other history\n")], Refused, "422 other history"),
        ([CONFLICT, CONFLICT], Refused, "409"),
        ([answer(409, b"10\n", "text/x.tlog.size")], Refused, "it cosigned 10 events before, here are 9"),
        ([answer(409, b"010\n", "text/x.tlog.size")], Unavailable, "409 without a size"),
        ([answer(409, b"4\n")], Unavailable, "409 without a size"),
        ([answer(500, b"")], Unavailable, "answers 500"),
        ([answer(302, b"").replace(b"Content-Type", b"Location: http://127.0.0.1:1/\r\nA")], Unavailable, ("answers "
        "302")),
        ([answer(200, b"x" * 70_000)], Unavailable, "more than 65536 bytes"),
        ([b"not http at all\r\n\r\n"], Unavailable, "cannot be reached"),
        ([b""], Unavailable, "cannot be reached"),
        ([answer(200, GOOD[:-4] + b"A==\n")], InvalidInput, "."),
        ([answer(200, b"")], InvalidInput, "."),
    ],
)  # fmt: skip
def test_nothing_else_is_believed(raw: list[bytes], error: type[Exception], said: str) -> None:
    with server(answers(*raw)) as url, pytest.raises(error, match=said) as found:
        WitnessClient(url, KEY).cosigned(NOTE, prove)
    assert "\n" not in str(found.value) and "\x1b" not in str(found.value)


def drip(connection: socket.socket) -> None:
    """One byte of an endless header at a time: no pause is longer than a timeout of the socket."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nA: ")
    while not select.select([connection], [], [], 0.02)[0] or connection.recv(65536):  # until the client leaves
        connection.sendall(b"x")


def hang(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


@pytest.mark.parametrize("serve", [drip, hang], ids=["drips", "hangs"])
def test_one_that_never_ends_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESS_SECONDS", 0.3)
    with server(serve) as url:
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"does not answer within 0\.3 s"):
            WitnessClient(url, KEY).cosigned(NOTE, prove)
        assert time.monotonic() - began < 0.95


def test_one_that_is_away_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable, match=r"cannot be reached \(Connection refused\)"):
        WitnessClient(f"http://127.0.0.1:{port}", KEY).cosigned(NOTE, prove)
    with pytest.raises(Unavailable, match="cannot be reached"):
        WitnessClient(f"https://127.0.0.1:{port}", KEY).cosigned(NOTE, prove)


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with server(answers(answer(200, GOOD))) as url:
        assert WitnessClient(url, KEY).cosigned(NOTE, prove)
