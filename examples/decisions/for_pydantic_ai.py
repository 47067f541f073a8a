"""A toolset of Pydantic AI whose calls wait for a decision (docs/decisions.md).

    Agent(model, toolsets=[Decided(FunctionToolset([send]), "pay")])

Sign its schemas first: python for_pydantic_ai.py > functions.json; threegate tools add pay --functions functions.json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset

from threegate.client import ask


@dataclass
class Decided(WrapperToolset[Any]):
    """Functions that are pinned as PINNED.FUNCTION."""

    pinned: str

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        decision = await ask(f"{self.pinned}.{name}", tool_args, run=f"{ctx.run_id}/{ctx.tool_call_id}")
        if decision.state != "ready":
            return f"This was not done: {decision.reason}"
        with decision.use() as arguments:
            return await super().call_tool(name, arguments, ctx, tool)


def pinnable(*tools: Tool[Any]) -> str:
    """What an operator signs: the file of `threegate tools add NAME --functions FILE`."""
    return json.dumps(
        [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.function_schema.json_schema}
            for tool in tools
        ]
    )


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    return f"paid {cents} cents to {to}"


TOOLS = FunctionToolset([send])

if __name__ == "__main__":
    print(pinnable(Tool(send)))
