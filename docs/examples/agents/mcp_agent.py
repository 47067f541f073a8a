"""The same through MCP: `threegate serve mcp` takes the request, reports its state, and reads its result."""

import asyncio
from datetime import datetime, timezone
from pathlib import Path

from folder import REQUEST, fix
from mcp import Client, StdioServerParameters


async def run_python(command: list[str], workspace: Path, code: str, poll_seconds: float = 1.0) -> str:
    """Submit some Python, wait until a person decided, and return the result's text. `command` is threegate's."""
    server = StdioServerParameters(
        command=command[0], args=[*command[1:], "--workspace", str(workspace), "serve", "mcp"]
    )
    now = datetime.now(timezone.utc)
    name = f"TR-{now:%Y%m%d-%H%M%SZ}-mcp-example"
    text = REQUEST.format(
        name=name,
        now=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        agent="mcp-agent",
        purpose="Shows the way through MCP.",
        seconds=30,
        code=code.strip("\n"),
    )
    async with Client(server) as client:
        for _ in range(3):
            call = await client.call_tool("submit_request", {"file_name": f"{name}.md", "content": text})
            answer = call.structured_content
            if answer["submitted"]:
                break
            text = fix(text, answer["fixes"])
        while True:
            call = await client.call_tool("request_status", {"file_name": f"{name}.md"})
            if call.structured_content["state"] in ("finished", "refused"):
                break
            await asyncio.sleep(poll_seconds)
        call = await client.call_tool("read_result", {"request_id": name})
        return call.structured_content["results"][0]["text"]
