"""`--allow HOST`: an operator's signed act for one run, a proxy that knows these names only, and what it wrote down."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from typing import Any

import pytest

from tests.plugins.agents.people import Person
from tests.plugins.agents.test_agent_run_command import no_run_is_left, one_line
from threegate.runners.jail import host_proxy
from threegate.runners.jail.host_log import read_hosts, unlisted_line
from threegate.runners.jail.host_proxy import HostProxy

ASK_FOR = """
import os, socket
print(os.environ.get('HTTPS_PROXY'))
for target in (%r):
    s = socket.create_connection(('127.0.0.1', 8301)); s.sendall(b'CONNECT ' + target + b' HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    print(s.recv(200).split(b'\\r')[0].decode())
"""  # noqa: E501
ASK = "ask for this host with the tool request_host of the MCP server threegate"


def test_a_signed_act_lets_a_run_reach_a_host(somebody: Person) -> None:
    """`localhost.localdomain` is a name that is listed here and leads to no public address: it is refused all the
    same.
    """
    program = ASK_FOR % ([b"example.org:443", b"intern.invalid:443"],)
    options = ["--allow", "example.com", "--key", str(somebody.key), "--operator", "operator"]
    done = somebody.run("/usr/bin/python3", "-c", program, options=options)
    assert done.stdout.splitlines() == ["http://127.0.0.1:8301", *[f"HTTP/1.1 403 Forbidden: {ASK}"] * 2], done
    [started], [ended] = somebody.events("agent_started"), somebody.events("agent_ended")
    assert started["hosts"] == ["example.com"] and started["key"].startswith("SHA256:") and started["act_sha256"]
    assert ended["refused"] == ["example.org", "intern.invalid"] and "reached" not in ended
    assert somebody.threegate("audit", "verify").returncode == 0


def test_without_a_key_there_is_no_host(user: Person) -> None:
    done = user.run("sh", options=["--allow", "example.com", "--key", "/nothing"])
    assert done.returncode == 2 and "/nothing" in done.stderr.splitlines()[-1], done
    one_line(user.run("sh", options=["--allow", "https://example.com/x", "--key", str(user.key)]), "--allow")
    no_run_is_left(user)


def test_without_allowed_hosts_the_proxy_says_whom_to_ask(user: Person) -> None:
    done = user.run("/usr/bin/python3", "-c", ASK_FOR % ([b"example.org:443"],))
    assert done.stdout.splitlines() == ["http://127.0.0.1:8301", f"HTTP/1.1 403 Forbidden: {ASK}"], done
    [started], [ended] = user.events("agent_started"), user.events("agent_ended")
    assert ended["refused"] == ["example.org"] and "hosts" not in started and "reached" not in ended


def ask(
    head: bytes, monkeypatch: pytest.MonkeyPatch, address: str
) -> tuple[bytes, tuple[tuple[str, ...], tuple[str, ...]]]:
    """What the proxy says to a head, where every listed name leads to `address`, and what it writes down."""

    async def talk() -> bytes:
        loop = asyncio.get_running_loop()

        async def lookup(host: str, *_more: Any, **_named: Any) -> list[Any]:
            assert host == "listed.example.", "a name that is not listed is never looked up"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]

        monkeypatch.setattr(loop, "getaddrinfo", lookup)
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        agent_reader, agent_writer = await asyncio.open_connection(sock=ours)
        agent_writer.write(head)
        await asyncio.wait_for(HostProxy(["listed.example:443"], log.fileno()).connection(reader, writer), 20)
        return await agent_reader.read(100)

    with tempfile.TemporaryFile(buffering=0) as log:
        log.write(unlisted_line(0))
        said = asyncio.run(talk())
        found = read_hosts(log.fileno())
        return said, (found.reached, found.refused)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "::1", "fe80::1", "100.64.0.1", "0.0.0.0"]
    + ["64:ff9b::7f00:1", "64:ff9b:1::a00:1", "2002:7f00:1::1", "2001:0:4136:e378::1", "fec0::1", "168.63.129.16"],
)
def test_a_listed_name_that_is_not_public_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    said, (reached, refused) = ask(b"CONNECT listed.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", monkeypatch, address)
    assert said.startswith(b"HTTP/1.1 403") and (reached, refused) == ((), ("listed.example",))


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://listed.example/ HTTP/1.1\r\nHost: listed.example\r\n\r\n",
        b"CONNECT listed.example:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT listed.example HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: listed.example\r\n\r\n",
        b"CONNECT listed.example.:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT listed.example@evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_nothing_but_a_listed_pair(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    said, (reached, _) = ask(head, monkeypatch, "93.184.216.34")
    assert said.startswith(b"HTTP/1.1 403") and reached == () and host_proxy is not None
