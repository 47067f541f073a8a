"""An agent holds many half-sent connections to the proxy of its hosts: what the proxy holds for it is bounded."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support import wait_until
from threegate.core import limits
from threegate.core.errors import Unavailable
from threegate.runners.jail.side_process import start_host_proxy

REFUSED = b"HTTP/1.1 403 Forbidden"


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "hosts.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(limits.AGENT_HOST_CONNECTIONS + 8)
        process, log = start_host_proxy(listener, ["listed.example:443"])
    yield path
    process.end()
    os.close(log)


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(str(path))
    return connection


def answer(path: Path) -> bytes:
    with connected(path) as connection, suppress(OSError):
        connection.sendall(b"CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        return connection.recv(100)
    return b""


def test_one_connection_too_many_is_closed_unread(proxy: Path) -> None:
    with ExitStack() as held:
        for _ in range(limits.AGENT_HOST_CONNECTIONS):
            held.enter_context(connected(proxy)).sendall(b"CONNECT other.exa")
        with connected(proxy) as surplus:
            assert surplus.recv(100) == b""
    wait_until(lambda: answer(proxy).startswith(REFUSED))  # those that ended made room


def test_a_cgroup_that_cannot_be_entered_starts_no_proxy(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(Unavailable, match="cannot enter it"):
        start_host_proxy(listener, ["listed.example:443"], (tmp_path / "gone" / "cgroup.procs",))
