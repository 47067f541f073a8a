"""What the door adds to a call: its `requests` beside the one tool of a bare MCP server.

    python -m bench.door [--calls N]

The reference is a server of the same package (`mcp`) that answers at once. Both are processes of their own, called by
the same client in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests.door_client import parameters
from tests.plugins.agents.agent_runs import make_run
from tests.support import make_place

_BARE = """
from mcp.server import MCPServer
server = MCPServer("bare")
@server.tool()
def requests() -> dict[str, list[str]]:
    return {"requests": []}
server.run()
"""


async def call_ms(client: Client) -> float:
    """Milliseconds of one call."""
    begun = time.perf_counter()
    answer = await client.call_tool("requests", {})
    assert not answer.is_error, answer
    return (time.perf_counter() - begun) * 1000


async def medians(door: StdioServerParameters, calls: int) -> tuple[float, float]:
    """Of a bare call and of a call of the door."""
    bare = StdioServerParameters(command=sys.executable, args=["-c", _BARE])
    found: tuple[list[float], list[float]] = ([], [])
    async with Client(bare, read_timeout_seconds=90) as there, Client(door, read_timeout_seconds=90) as here:
        for _ in range(calls):
            found[0].append(await call_ms(there))
            found[1].append(await call_ms(here))
    return statistics.median(found[0]), statistics.median(found[1])


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=200)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory(prefix="threegate-bench-") as name:
        place = make_place(Path(name))
        bare, door = asyncio.run(medians(parameters(place, make_run(place)), calls))
    print(json.dumps({"calls": calls, "bare, ms": round(bare, 2), "door, ms": round(door, 2)}))


if __name__ == "__main__":
    main()
