"""A node of LangGraph that makes the tool calls of the last message, each after a decision (docs/decisions.md).

    graph.add_node("tools", decided({"send": send}, "pay"))

While a call is undecided the graph is interrupted, so nothing waits in memory. To go on: graph.ainvoke(Command(
resume=True), config). LangGraph then runs the node again from its first line: the same thread and call find the same
request, and a call that was made is not made again.

Sign its schemas first: python for_langgraph.py > functions.json; threegate tools add pay --functions functions.json
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import interrupt

from threegate.client import ask


def decided(
    functions: Mapping[str, Callable[..., Any]], pinned: str
) -> Callable[[dict[str, Any], RunnableConfig], Awaitable[dict[str, Any]]]:
    """A node for functions that are pinned as PINNED.FUNCTION. A graph needs a checkpointer and a thread_id."""

    async def node(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        # One call for each run of the node: what was done is in a checkpoint before the next one is asked for.
        call = _first_unanswered(state["messages"])
        run = f"{config['configurable']['thread_id']}/{call['id']}"
        while (decision := await ask(f"{pinned}.{call['name']}", call["args"], run=run, wait=0)).state == "pending":
            interrupt({"request": decision.request_id, "waits_for": decision.reason})
        if decision.state == "refused":
            return {"messages": [ToolMessage(f"This was not done: {decision.reason}", tool_call_id=call["id"])]}
        with decision.use() as arguments:
            answer = functions[call["name"]](**arguments)
        return {"messages": [ToolMessage(str(answer), tool_call_id=call["id"])]}

    return node


def is_unanswered(state: dict[str, Any]) -> bool:
    """For a conditional edge from the node to itself: whether a call of the last message of the model is left."""
    return _first_unanswered(state["messages"]) is not None


def _first_unanswered(messages: list[Any]) -> Any:
    said = [message for message in messages if getattr(message, "tool_calls", None)][-1]
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return next((call for call in said.tool_calls if call["id"] not in answered), None)


def pinnable(*functions: Callable[..., Any]) -> str:
    """What an operator signs: the file of `threegate tools add NAME --functions FILE`."""
    found = [convert_to_openai_tool(function)["function"] for function in functions]
    return json.dumps(
        [{"name": row["name"], "description": row["description"], "inputSchema": row["parameters"]} for row in found]
    )


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    return f"paid {cents} cents to {to}"


if __name__ == "__main__":
    print(pinnable(send))
