"""A tool of the OpenAI Agents SDK whose calls wait for a decision (docs/decisions.md).

    tool = decided(send, "pay", run="invoice 17")
    Agent(name="clerk", tools=[tool])

Sign its schema first: python for_openai_agents.py > functions.json; threegate tools add pay --functions functions.json
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents import FunctionTool, function_tool
from agents.tool_context import ToolContext

from threegate.client import ask


def decided(function: Callable[..., Any], pinned: str, *, run: str) -> FunctionTool:
    """The tool of a function that is pinned as PINNED.FUNCTION; `run` names this run of the agent."""
    # The SDK would turn an exception into an answer, and the record would say that the function returned.
    tool = function_tool(function, failure_error_function=None)

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        given = json.loads(text)
        decision = await ask(f"{pinned}.{tool.name}", given, run=f"{run}/{context.tool_call_id}")
        if decision.state != "ready":
            return f"This was not done: {decision.reason}"
        with decision.use() as arguments:
            return await tool.on_invoke_tool(context, json.dumps(arguments))

    return replace(tool, on_invoke_tool=invoke)


def pinnable(*tools: FunctionTool) -> str:
    """What an operator signs: the file of `threegate tools add NAME --functions FILE`."""
    return json.dumps(
        [{"name": tool.name, "description": tool.description, "inputSchema": tool.params_json_schema} for tool in tools]
    )


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    return f"paid {cents} cents to {to}"


if __name__ == "__main__":
    print(pinnable(function_tool(send)))
