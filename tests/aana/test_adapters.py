"""The gate in front of real framework tools: langchain-core, the OpenAI Agents SDK, the MCP package."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.aana.test_guard import CONFIRMED
from tests.conftest import peer
from threegate import aana


@pytest.fixture(scope="module", autouse=True)
def _frameworks() -> None:
    """Imported before the first test and not by every worker that collects: it takes seconds."""
    global RunnableConfig, BaseTool, StructuredTool
    peer("agents")
    RunnableConfig = peer("langchain_core.runnables").RunnableConfig
    BaseTool, StructuredTool = peer("langchain_core.tools").BaseTool, peer("langchain_core.tools").StructuredTool


OPEN = aana.Gate("send_note", "write", authorization_state="confirmed", evidence_refs=[CONFIRMED])
SHUT = aana.Gate("send_note", "write", authorization_state="user_claimed", evidence_refs=["draft:1"])


@pytest.mark.slow
def test_no_framework_is_imported() -> None:
    code = (
        "import sys, threegate.aana\n"
        "print([name for name in ('langchain_core', 'agents', 'mcp', 'mcp_types', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def langchain_tool(calls: list[Any], *, coroutine: bool = True) -> Any:
    def send_note(to: str, body: str = "hello", config: RunnableConfig = None) -> str:  # type: ignore[assignment]
        """Send a note."""
        calls.append((to, body, config is not None))
        return f"sent to {to}"

    async def asend_note(to: str, body: str = "hello") -> str:
        """Send a note."""
        calls.append((to, body, "async"))
        return f"sent to {to}"

    return StructuredTool.from_function(send_note, coroutine=asend_note if coroutine else None)


def test_langchain_tools_run_on_accept_only_whichever_way_they_are_called() -> None:
    calls: list[Any] = []
    original = langchain_tool(calls)
    allowed = aana.guard_langchain_tool(original, OPEN)
    assert (allowed.name, allowed.description, allowed.args) == (
        original.name,
        original.description,
        original.args,
    )
    assert allowed.invoke({"to": "ann"}) == "sent to ann"
    assert asyncio.run(allowed.ainvoke({"to": "bob", "body": "hi"})) == "sent to bob"
    assert calls == [("ann", "hello", True), ("bob", "hi", "async")]
    blocked = aana.guard_langchain_tool(original, SHUT)
    with pytest.raises(aana.ToolCallBlocked, match="send_note: ask"):
        blocked.invoke({"to": "ann"})
    with pytest.raises(aana.ToolCallBlocked):
        blocked.run({"to": "ann"})
    with pytest.raises(aana.ToolCallBlocked):
        asyncio.run(blocked.ainvoke({"to": "ann"}))
    only_sync = aana.guard_langchain_tool(langchain_tool(calls, coroutine=False), SHUT)
    with pytest.raises(aana.ToolCallBlocked):
        asyncio.run(only_sync.ainvoke({"to": "ann"}))
    original.func, kept = None, original.func
    only_async = aana.guard_langchain_tool(original, SHUT)
    with pytest.raises(aana.ToolCallBlocked):
        asyncio.run(only_async.ainvoke({"to": "ann"}))
    original.func = kept
    assert len(calls) == 2
    assert original.invoke({"to": "eve"}) == "sent to eve"


def test_langchain_arguments_reach_the_gate_by_name() -> None:
    def read_page(email: str) -> str:
        """Read."""
        return "private"

    tool = aana.guard_langchain_tool(StructuredTool.from_function(read_page), aana.Gate("read_page", "public_read"))
    with pytest.raises(aana.ToolCallBlocked, match="public_read_identity_bound_misclassified"):
        tool.invoke({"email": "x"})


def test_langchain_tools_with_their_own_run_are_turned_away() -> None:
    class Own(BaseTool):
        name: str = "own"
        description: str = "Own."

        def _run(self, to: str) -> str:
            return to

    with pytest.raises(TypeError, match="neither func nor coroutine"):
        aana.guard_langchain_tool(Own(), OPEN)
    with pytest.raises(TypeError):
        aana.guard_langchain_tool(object(), OPEN)


def test_openai_tools_run_on_accept_only() -> None:
    from agents import function_tool
    from agents.tool_context import ToolContext

    calls: list[Any] = []

    @function_tool
    def send_note(to: str) -> str:
        """Send a note."""
        calls.append(to)
        return f"sent to {to}"

    def run(tool: Any, arguments: str) -> Any:
        context = ToolContext(context=None, tool_name="send_note", tool_call_id="1", tool_arguments=arguments)
        return asyncio.run(tool.on_invoke_tool(context, arguments))

    allowed = aana.guard_openai_tool(send_note, OPEN)
    assert allowed.name == "send_note" and allowed.params_json_schema == send_note.params_json_schema
    assert run(allowed, '{"to": "ann"}') == "sent to ann"
    blocked = aana.guard_openai_tool(send_note, SHUT)
    with pytest.raises(aana.ToolCallBlocked):
        run(blocked, '{"to": "ann"}')
    twice, huge = '{"to": "ann", "to": "eve"}', '{"to": "ann", "n": ' + "9" * 6_000 + "}"
    hostile = (twice, huge, '{"to": NaN}', '{"to": "\\ud800"}', "\ud800", '{"to": "ann"} {}')
    for broken in ("{", "[]", "x" * 70_000, "[" * 100_000, *hostile):
        with pytest.raises(aana.ToolCallBlocked, match="contract_normalization_failed"):
            run(allowed, broken)
    assert calls == ["ann"]
    assert run(send_note, '{"to": "eve"}') == "sent to eve"


def test_openai_tools_that_do_not_run_here_are_turned_away() -> None:
    from agents import WebSearchTool

    with pytest.raises(TypeError, match="no on_invoke_tool"):
        aana.guard_openai_tool(WebSearchTool(), OPEN)


def test_mcp_handlers_pass_on_accepted_calls_only() -> None:
    from mcp import Client
    from mcp.server import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

    calls: list[Any] = []

    async def handler(context: Any, params: Any) -> CallToolResult:
        calls.append(params.name)
        return CallToolResult(content=[TextContent(type="text", text="done")])

    async def listed(context: Any, params: Any) -> ListToolsResult:
        tools = [Tool(name=name, input_schema={"type": "object"}) for name in ("send_note", "other")]
        return ListToolsResult(tools=tools)

    def server(gates: dict[str, aana.Gate]) -> Server[Any]:
        return Server("t", on_call_tool=aana.guard_mcp_handler(handler, gates), on_list_tools=listed)

    async def call(gates: dict[str, aana.Gate], name: str) -> str:
        async with Client(server(gates)) as client:
            try:
                result = await client.call_tool(name, {"to": "ann"})
            except Exception as error:  # noqa: BLE001 - whatever the client makes of a refusal
                return f"blocked: {error}"
            return "blocked" if result.is_error else json.dumps(result.content[0].text)

    assert asyncio.run(call({"send_note": OPEN}, "send_note")) == '"done"'
    assert asyncio.run(call({"send_note": SHUT}, "send_note")).startswith("blocked")
    assert asyncio.run(call({"send_note": OPEN}, "other")).startswith("blocked")
    assert calls == ["send_note"]
