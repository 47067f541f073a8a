"""What ThreeGate adds to a read call of a server's tool, beside the same call to a server that already runs.

    python -m bench.tools [--calls N]

Four ways, one call of each in turn: the MCP client of the `mcp` package and the server itself, which runs all the time;
a fresh process of the server in its jail, compared with its manifest and called once, as the daemon does it; and the
whole way: the client calls the door, the daemon uses the grant, makes the call, and the door returns the answer, once
with a server that was added with `--stateful`, whose process already runs, and once with a fresh process. What
ThreeGate adds is the third less the first (aim: p50 at most 30 ms), or the fourth less the second. Flat: the medians of
the first and of the last tenth of the calls; `--calls 10000` is the long form.

And beside them a server of the SDK at a URL, over TLS on this machine: a bare call by the SDK's client, which has a
connection already, and ThreeGate's call, which discovers and compares the server first and has a connection for each
of its three requests.

One line in place of the figures where the machine is too busy for an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from tests.door_client import daemon, parameters
from tests.plugins.agents.agent_runs import make_run
from tests.plugins.tools.https_servers import NAME, Authority, pinned_remote, sdk_server
from tests.support import Place, make_place
from threegate.core import limits
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.tools.manifest import Manifest, read_manifest
from threegate.plugins.tools.remote.guarded_http import Reach
from threegate.plugins.tools.server_process import Server, open_fresh
from threegate.trail.trail import Trail

_PYTHON = "/usr/bin/python3"
_FRESH, _KEPT = "bench", "kept"
_SECONDS = 120
"""For one call."""
_SERVER = r"""
import json, sys
TOOL = {"name": "ping", "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"],
        "additionalProperties": False}}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [TOOL]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": str(message["params"]["arguments"]["number"])}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""  # noqa: E501
_CONTRACT = """schema_version: "1.1"
tool: SERVER.ping
side_effect: read
evidence_class: ack_only
commit_requirement: acknowledged
timeouts: {total_ms: 30000}
retries: {max_attempts: 1, retry_on: []}
rate_limits: {on_429: {respect_retry_after: true, max_sleep_seconds: 60}}
assertions: {input_invariants: [], output_invariants: []}
golden_cases: [{id: ping, arguments: {number: 1}, expect_ok: true}]
allowed_errors: []
"""
_SESSION = 'schema_version: "1.0"\nagent: core\n'


def _fresh_ms(place: Place, manifest: Manifest, number: int) -> float:
    """A process of its own, called once."""
    workspace = Workspace(place.root)
    begun = time.perf_counter()
    with Server(workspace, workspace.load_settings(), manifest) as server:
        server.check_pinned()
        answer = server.call("ping", {"number": number}, 60, limits.TOOL_ANSWER_BYTES)
    assert not answer.is_error
    return (time.perf_counter() - begun) * 1000


async def _direct_ms(client: Client, number: int) -> float:
    begun = time.perf_counter()
    answer = await client.call_tool("ping", {"number": number})
    assert not answer.is_error, answer
    return (time.perf_counter() - begun) * 1000


@contextmanager
def _remote(folder: Path) -> Iterator[tuple[str, Reach, ssl.SSLContext]]:
    """A server at a URL: the URL, and how it is reached here."""
    authority = Authority.make(folder)
    server = MCPServer("bench", log_level="CRITICAL")

    @server.tool()
    def ping(number: int) -> str:
        return str(number)

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    with sdk_server(authority, server.streamable_http_app(json_response=True, transport_security=security)) as url:
        yield url, authority.reach(), ssl.create_default_context(cafile=str(authority.file))


def _remote_ms(place: Place, manifest: Manifest, reach: Reach, number: int) -> float:
    """Discovered, compared and called."""
    workspace = Workspace(place.root)
    begun = time.perf_counter()
    with open_fresh(workspace, workspace.load_settings(), manifest, reach=reach) as server:
        server.check_pinned()
        answer = server.call("ping", {"number": number}, 60, limits.TOOL_ANSWER_BYTES)
    assert not answer.is_error and answer.content[0]["text"] == str(number)
    return (time.perf_counter() - begun) * 1000


async def _measure_remote(place: Place, calls: int) -> list[list[float]]:
    """Milliseconds of both ways, call by call."""
    found: list[list[float]] = [[], []]
    with _remote(place.root.parent) as (url, reach, tls):
        manifest = pinned_remote(Workspace(place.root), url, reach)
        local = url.replace(NAME, "127.0.0.1")
        extensions = {"sni_hostname": NAME}  # the certificate is checked for the name all the same

        async def named(request: httpx2.Request) -> None:
            request.extensions |= extensions

        async with (
            httpx2.AsyncClient(verify=tls, event_hooks={"request": [named]}) as http,
            Client(streamable_http_client(local, http_client=http)) as bare,
        ):
            for number in range(calls):
                found[0].append(await _direct_ms(bare, number))
                found[1].append(await asyncio.to_thread(_remote_ms, place, manifest, reach, number))
    return found


async def _door_ms(client: Client, server: str, number: int) -> float:
    """The whole way. Raises TimeoutError."""
    begun = time.perf_counter()
    answer = await client.call_tool(f"{server}__ping", {"number": number})
    said = answer.structured_content or {}
    if said.get("status") == "pending":
        raise TimeoutError(f"call {number} has no answer after {_SECONDS} s: {said['waits_for']}")
    assert not answer.is_error and answer.content[0].text == str(number), answer
    return (time.perf_counter() - begun) * 1000


async def _measure(place: Place, run: AgentRun, manifest: Manifest, calls: int) -> list[list[float]]:
    """Milliseconds of each way, call by call. Raises an ExceptionGroup with one TimeoutError."""
    found: list[list[float]] = [[], [], [], []]
    bare = StdioServerParameters(command=_PYTHON, args=list(manifest.argv[1:]))
    door = parameters(place, run, "--wait-sec", str(_SECONDS))
    patience = 2 * _SECONDS
    async with (
        Client(bare, read_timeout_seconds=patience) as there,
        Client(door, read_timeout_seconds=patience) as here,
    ):
        for number in range(calls):
            found[0].append(await _direct_ms(there, number))
            found[1].append(_fresh_ms(place, manifest, number))
            found[2].append(await _door_ms(here, _KEPT, number))
            found[3].append(await _door_ms(here, _FRESH, number))
    return found


def _grant(place: Place, run: AgentRun, server: str, calls: int) -> None:
    """Sign the grant."""
    words = f"grant tool {server} ping --any number --by {run.run_id} --max-uses {calls} --expires 24h".split()
    place.run(*words, "--as", "operator", "--key", str(place.key), "--yes", expect=0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the exceptions that are in groups."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _p50(values: Sequence[float]) -> float:
    return round(statistics.median(values), 1)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        server = Path(name, "server", "server.py")
        server.parent.mkdir()
        server.write_text(_SERVER)
        Path(name).chmod(0o755)  # the server runs as another account
        place = make_place(Path(name), settings={"grants.allow": True})
        contracts = place.root / "tool-exec" / "contracts"
        (contracts / "session.yaml").write_text(_SESSION)
        signing = ("--as", "operator", "--key", str(place.key), "--yes")
        run = make_run(place)
        for added, way in ((_FRESH, ()), (_KEPT, ("--stateful",))):
            (contracts / f"{added}.ping.yaml").write_text(_CONTRACT.replace("SERVER", added))
            place.run("tools", "add", added, *way, *signing, "--", _PYTHON, "-I", str(server), expect=0)
        for granted in (_FRESH, _KEPT):  # a grant ends when a contract or a server changes
            _grant(place, run, granted, calls)
        workspace = Workspace(place.root)
        with Trail(workspace).locked() as held:
            manifest = read_manifest(workspace, held.index, _FRESH)
        try:
            with daemon(place):
                direct, fresh, kept, whole = asyncio.run(_measure(place, run, manifest, calls))
            bare, remote = asyncio.run(_measure_remote(place, calls))
        except* TimeoutError as slow:
            sys.exit(f"bench.tools: {_first(slow)}")
    tenth = max(1, calls // 10)
    print(
        json.dumps(
            {
                "calls": calls,
                "direct, p50 ms": _p50(direct),
                "the whole way to a process that runs, p50 ms": _p50(kept),
                "added, ms": round(statistics.median(kept) - statistics.median(direct), 1),
                "a fresh process, p50 ms": _p50(fresh),
                "the whole way, p50 ms": _p50(whole),
                "added besides the fresh process, ms": round(statistics.median(whole) - statistics.median(fresh), 1),
                "a server at a URL, bare call of the SDK, p50 ms": _p50(bare),
                "a server at a URL, discovered, compared and called, p50 ms": _p50(remote),
                "to a process that runs, first tenth, p50 ms": _p50(kept[:tenth]),
                "to a process that runs, last tenth, p50 ms": _p50(kept[-tenth:]),
                "the whole way, first tenth, p50 ms": _p50(whole[:tenth]),
                "the whole way, last tenth, p50 ms": _p50(whole[-tenth:]),
            }
        )
    )


if __name__ == "__main__":
    main()
