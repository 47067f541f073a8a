"""An agent of the OpenAI Agents SDK with a scripted model: it pays once, and says what it was told."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from for_openai_agents import decided
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

CALLS = sys.argv[1]


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    with open(CALLS, "a") as stream:
        stream.write(json.dumps([to, cents]) + "\n")
    if to == "nobody":
        raise LookupError("no such account")
    return f"paid {cents} cents to {to}"


class Scripted(Model):
    async def get_response(self, system_instructions: Any, input: Any, *more: Any, **others: Any) -> ModelResponse:
        told = [
            item["output"] for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        if told:
            text = ResponseOutputText(type="output_text", text=f"It says: {told[-1]}", annotations=[])
            said: Any = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            said = ResponseFunctionToolCall(type="function_call", call_id="call_1", name="send", arguments=sys.argv[2])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *more: Any, **others: Any) -> Any:
        raise NotImplementedError


set_tracing_disabled(True)
agent = Agent(name="clerk", model=Scripted(), tools=[decided(send, "pay", run="invoice 17")])
print(asyncio.run(Runner.run(agent, "Pay the invoice.")).final_output)
