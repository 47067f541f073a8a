"""A real ssh-agent with keys in it, and agents that misbehave or hold a token in software (OpenSSH PROTOCOL.agent)."""

from __future__ import annotations

import hashlib
import socketserver
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.approval.fido import APPLICATION, SecurityKey, string
from threegate.approval.ssh_wire import WireReader

LIST, LISTED, SIGN, SIGNED = 11, 12, 13, 14


@contextmanager
def running_agent(folder: Path, *keys: Path) -> Iterator[str]:
    """The socket of OpenSSH's own ssh-agent that holds these keys; it ends with the block."""
    socket = str(folder / "agent")
    # It runs for a program that ends with its input.
    command = ["/usr/bin/ssh-agent", "-a", socket, "/bin/sh", "-c", "echo; exec cat >/dev/null"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == b"\n"
        for key in keys:
            subprocess.run(["/usr/bin/ssh-add", "-q", key], env={"SSH_AUTH_SOCK": socket}, check=True)
        yield socket
        agent.communicate()


@contextmanager
def agent_that(folder: Path, answer: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """The socket of an agent that sends what `answer` makes of each message; None: nothing until the block ends."""
    ended = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while len(size := self.rfile.read(4)) == 4:
                answered = answer(self.rfile.read(int.from_bytes(size, "big")))
                if answered is None:
                    ended.wait()
                    return
                self.wfile.write(answered)

    path = str(folder / "other-agent")
    with socketserver.ThreadingUnixStreamServer(path, Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield path
        finally:
            ended.set()
            server.shutdown()


def listing(keys: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The answer that lists these blobs and comments."""
    body = struct.pack(">BI", LISTED, len(keys)) + b"".join(string(blob) + string(comment) for blob, comment in keys)
    return string(body)


def token_in_agent(token: SecurityKey) -> Callable[[bytes], bytes]:
    """An agent with one Ed25519 key of a token, which somebody touches at once."""

    def answer(message: bytes) -> bytes:
        if message[0] == LIST:
            return listing([(token.blob, b"a token")])
        reader = WireReader(message[1:])
        assert message[0] == SIGN and reader.string() == token.blob
        data = reader.string()
        assert isinstance(token.private, ed25519.Ed25519PrivateKey)
        signed = hashlib.sha256(APPLICATION).digest() + struct.pack(">BI", 1, 7) + hashlib.sha256(data).digest()
        inner = string(token.type) + string(token.private.sign(signed)) + struct.pack(">BI", 1, 7)
        return string(bytes([SIGNED]) + string(inner))

    return answer
