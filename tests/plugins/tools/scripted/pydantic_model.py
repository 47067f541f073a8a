"""An agent of Pydantic AI with a scripted model: it pays once, and says what it was told."""

from __future__ import annotations

import json
import sys
from typing import Any

from for_pydantic_ai import Decided
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

CALLS = sys.argv[1]


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    with open(CALLS, "a") as stream:
        stream.write(json.dumps([to, cents]) + "\n")
    if to == "nobody":
        raise LookupError("no such account")
    return f"paid {cents} cents to {to}"


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    told: list[Any] = [
        part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    if told:
        return ModelResponse(parts=[TextPart(f"It says: {told[-1]}")])
    return ModelResponse(parts=[ToolCallPart("send", json.loads(sys.argv[2]))])


agent = Agent(FunctionModel(model), toolsets=[Decided(FunctionToolset([send]), "pay")])
print(agent.run_sync("Pay the invoice.").output)
