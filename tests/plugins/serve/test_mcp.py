"""The MCP server as a real process over stdio, driven by the mcp package's own client."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.plugins.serve.test_requests import request_text, workspace_in
from threegate import aana
from threegate.plugins.serve.event_examples import EXAMPLES
from threegate.plugins.serve.mcp_server import ToolServer
from threegate.plugins.serve.mcp_transport import serve_stream

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def with_server(
    work: Callable[[Client], Awaitable[Any]], folder: Path, *options: str, workspace: Path | None = None
) -> Any:
    """Run `work` with a client of a fresh server process."""
    before = ["--workspace", str(workspace)] if workspace else []
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "threegate", *before, "serve", "mcp", "--log", str(folder / "decisions.jsonl"), *options],
        cwd=folder,
        env={"XDG_STATE_HOME": str(folder / "state")},
    )

    async def go() -> Any:
        async with Client(parameters, read_timeout_seconds=90) as client:
            return await work(client)

    return asyncio.run(go())


@pytest.mark.slow
def test_the_tools_and_every_decision(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [
            "aana_pre_tool_check",
            "submit_request",
            "request_status",
            "read_result",
        ]
        assert not any("approv" in tool.name for tool in listed)
        for name, example in EXAMPLES.items():
            result = await client.call_tool("aana_pre_tool_check", example["value"])
            structured = result.structured_content
            assert not result.is_error and name.endswith(structured["route"])
            assert structured["execution_allowed"] == (structured["route"] == "accept")
            assert structured["gate_decision"] == ("pass" if structured["route"] == "accept" else "fail")
            assert isinstance(structured["hard_blockers"], list)
            assert aana.should_execute_tool(structured) == (structured["route"] == "accept")
            assert json.loads(result.content[0].text) == structured
        for arguments in (
            {},
            {"tool_name": SECRET, "x": SECRET},
            {SECRET: [SECRET]},
            {"tool_name": ["x"] * 100},
            None,
        ):
            result = await client.call_tool("aana_pre_tool_check", arguments)
            assert not result.is_error and result.structured_content["route"] == "refuse"
            assert SECRET not in result.model_dump_json()
        for name in ("approve", "approve_request", "aana_approve", "sign", SECRET):
            result = await client.call_tool(name, {"request_id": "x"})
            assert result.is_error and result.content[0].text == "no such tool"
        for name in ("submit_request", "request_status", "read_result"):
            result = await client.call_tool(name, {})
            assert result.is_error and result.content[0].text.startswith("no workspace")

    with_server(work, tmp_path)
    text = (tmp_path / "decisions.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) == 9 and {line["surface"] for line in lines} == {"mcp"}
    assert SECRET not in text


@pytest.mark.slow
def test_a_request_from_draft_to_verdict_and_result(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    name = "TR-20260510-120000Z-add-up.md"

    async def work(client: Client) -> None:
        answer = await client.call_tool("submit_request", {"file_name": name, "content": request_text()})
        assert answer.structured_content["submitted"], answer
        assert (workspace.inbox / name).read_text() == request_text()
        status = await client.call_tool("request_status", {"file_name": name})
        assert status.structured_content["state"] == "submitted"
        again = await client.call_tool("submit_request", {"file_name": name, "content": request_text()})
        assert again.is_error and "name; choose another file_name" in again.content[0].text
        missing = await client.call_tool("read_result", {"request_id": "add-up-1"})
        assert missing.is_error and "no result yet" in missing.content[0].text
        checked = await client.call_tool("aana_pre_tool_check", EXAMPLES["write_missing_confirmation_ask"]["value"])
        assert checked.structured_content["deviations"] == ["D12"]

    with_server(work, tmp_path, "--evidence", "production", workspace=workspace.root)


RAW = [
    {"name": "aana_pre_tool_check", "arguments": [SECRET]},
    {"name": "aana_pre_tool_check", "arguments": SECRET},
    {"name": "aana_pre_tool_check"},
    {"name": "aana_pre_tool_check", "arguments": {"proposed_arguments": {"a": {"b": [SECRET] * 3}}}},
]


@pytest.mark.slow
def test_raw_messages_get_a_decision_and_no_echo(tmp_path: Path) -> None:
    """What no well-behaved client sends: arguments that are not an object, and lines that are no messages."""
    messages: list[Any] = [
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},  # noqa: E501
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params} for number, params in enumerate(RAW, 1)),  # noqa: E501
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "threegate", "serve", "mcp", "--log", str(tmp_path / "d.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdin and process.stdout
    answers: dict[int, Any] = {}
    shown = ""
    try:
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                line = process.stdout.readline()
                shown += line
                answers[message["id"]] = json.loads(line)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert SECRET not in shown + errors + (tmp_path / "d.jsonl").read_text()
    for number in range(1, len(RAW) + 1):
        assert answers[number]["result"]["structuredContent"]["route"] == "refuse", answers[number]
        assert answers[number]["result"].get("isError") is not True


def piped(folder: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What the server answers to lines that are piped into it, without a process of its own."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    written: list[bytes] = []
    tools = ToolServer(log=aana.DecisionLog(folder / "d.jsonl"), requester=None)
    anyio.run(serve_stream, tools, io.BytesIO(lines.encode()), written.append)
    return [json.loads(line) for line in b"".join(written).splitlines()]


def test_only_a_first_line_that_asks_for_tools_needs_no_handshake(tmp_path: Path) -> None:
    listing = {"method": "tools/list"}
    pairs = {item["id"]: "error" in item for item in piped(tmp_path, {"id": 1, **listing}, {"id": 2, **listing})}
    assert pairs == {1: False, 2: False}
    pairs = {
        item["id"]: "error" in item
        for item in piped(tmp_path, {"id": 1, "method": "prompts/list"}, {"id": 2, **listing})
    }  # noqa: E501
    assert pairs == {1: True, 2: True}


def test_a_handshake_still_works_after_a_bare_line(tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    found = piped(
        tmp_path,
        {"id": 1, "method": "tools/list", "params": {"_meta": {"progressToken": 1}}},
        {"id": 2, "method": "initialize", "params": params},
        {"method": "notifications/initialized"},
        {"id": 3, "method": "tools/list"},
    )
    assert {item["id"]: "result" in item for item in found} == {1: True, 2: True, 3: True}


def test_a_request_in_the_envelope_without_a_handshake_is_served_as_such(tmp_path: Path) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    [answer] = piped(tmp_path, {"id": 1, "method": "tools/list", "params": {"_meta": meta}})
    assert "tools" in answer["result"]


def test_a_decision_that_cannot_be_written_down_is_a_refusal(tmp_path: Path) -> None:
    server = ToolServer(log=aana.DecisionLog(tmp_path / "no" / "d.jsonl"), requester=None)
    answer = server.call("aana_pre_tool_check", EXAMPLES["public_read_accept"]["value"])
    structured = answer.structured_content
    assert structured is not None and structured["route"] == "refuse"
    assert structured["hard_blockers"] == ["decision_not_recorded"] and not structured["execution_allowed"]
    assert not aana.should_execute_tool(structured)


def test_a_named_workspace_must_be_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threegate", "--workspace", str(tmp_path), "serve", "mcp"],
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 64 and "no workspace" in done.stderr


@pytest.mark.parametrize("module", ["threegate.plugins.serve", "threegate.plugins.serve.serve_command"])
def test_the_extras_are_not_imported_before_they_are_asked_for(module: str) -> None:
    code = (
        f"import sys, {module}; print([name for name in ('fastapi', 'uvicorn', 'mcp', 'anyio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
