"""An agent asks for thousands of hosts that it may not reach, and then reaches one: the record has the one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from threegate.core import limits
from threegate.plugins.agents.kinds import AgentEnded
from threegate.runners.jail.host_log import HostLog, read_hosts, unlisted_line
from threegate.runners.jail.host_proxy import HostProxy
from threegate.trail.event import make_event


@pytest.fixture
def log() -> Iterator[int]:
    descriptor = os.memfd_create("hosts")
    os.write(descriptor, unlisted_line(0))
    yield descriptor
    os.close(descriptor)


def asked(proxy: HostProxy, names: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The names, one connection after the other; nothing leaves this machine."""

    async def lookup(host: str, *_more: Any, **_named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))]

    async def nowhere(*_address: Any) -> Any:
        raise OSError

    async def talk() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup)
        for name in names:
            ours, theirs = socket.socketpair()
            ours.sendall(f"CONNECT {name}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            reader, writer = await asyncio.open_connection(sock=theirs)
            with monkeypatch.context() as patch:
                patch.setattr(asyncio, "open_connection", nowhere)
                await proxy.connection(reader, writer)
            ours.close()

    asyncio.run(talk())


def test_a_host_that_is_reached_after_the_noise_is_noted(log: int, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = [f"n{number}.example" for number in range(300)]
    asked(HostProxy(["listed.example:443"], log), [*noise, *noise[:100], "listed.example"], monkeypatch)
    found = read_hosts(log)
    assert found.reached == ("listed.example",)
    assert found.refused == tuple(noise[: limits.EGRESS_REFUSED])
    assert found.unlisted == 300 + 100 - 2 * limits.EGRESS_REFUSED


def test_the_longest_record_fits_a_line_of_the_trail() -> None:
    """Names as long as names may be, as many as are kept: a line that is too long would lose both lists."""
    reached, refused = (
        tuple(f"{letter}{number:03}".ljust(limits.HOST_CHARS, "x") + ":65535" for number in range(count))
        for letter, count in (("r", limits.ALLOWLIST_ENTRIES), ("n", limits.EGRESS_REFUSED))
    )
    ended = AgentEnded(
        run="AR-1", reached=reached, reached_bytes=(10**15,) * len(reached), refused=refused, refused_unlisted=10**6
    )
    event = make_event(
        seq=1, time="2026-01-01T00:00:00.000Z", type="agent_ended", request_id=None, actor="x",
        data=ended.to_data(), prev="0" * 64,
    )  # fmt: skip
    assert len(event.data["reached"]) == limits.ALLOWLIST_ENTRIES and "cut_sha256" not in event.data
    said = AgentEnded(
        run="AR-1", reached=("a.example",), reached_bytes=(12,), refused=("b.example",), refused_unlisted=7
    ).sentence()
    assert "it reached a.example (12 bytes)" in said and "refused 1 hosts and 7 more attempts" in said


def test_a_log_of_nothing_is_read() -> None:
    assert HostLog() == ((), (), 0)
