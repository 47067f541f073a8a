"""A graph of LangGraph with a scripted model that pays twice. Each start takes it up where the last one stopped."""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from for_langgraph import decided, is_unanswered
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

CALLS, SAVED, DIES = sys.argv[1], Path(sys.argv[2]), sys.argv[3:] == ["dies"]
PAYMENTS = [{"to": "acme", "cents": 1200}, {"to": "bolt", "cents": 5}]


def send(to: str, cents: int) -> str:
    """Pay an invoice."""
    with open(CALLS, "a") as stream:
        stream.write(json.dumps([to, cents]) + "\n")
    return f"paid {cents} cents to {to}"


def model(state: MessagesState) -> dict[str, Any]:
    calls = [{"name": "send", "args": args, "id": f"call_{number}"} for number, args in enumerate(PAYMENTS)]
    return {"messages": [AIMessage("", tool_calls=calls)]}


tools = decided({"send": send}, "pay")


async def tools_and_death(state: MessagesState, config: RunnableConfig) -> Any:
    """The process ends after the call and before its checkpoint: the node is run again."""
    await tools(state, config)
    raise SystemExit(9)


def more(state: MessagesState) -> str:
    return "tools" if is_unanswered(state) else END


async def main() -> None:
    saver = InMemorySaver()
    if SAVED.exists():
        saver.storage, saver.writes, saver.blobs = pickle.loads(SAVED.read_bytes())
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools_and_death if DIES else tools)
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    graph.add_conditional_edges("tools", more)
    config: Any = {"configurable": {"thread_id": "thread-7"}}
    begun = SAVED.exists()
    found = await graph.compile(checkpointer=saver).ainvoke(Command(resume=True) if begun else {"messages": []}, config)
    SAVED.write_bytes(pickle.dumps((_plain(saver.storage), _plain(saver.writes), _plain(saver.blobs))))
    waits = [item.value["waits_for"] for item in found.get("__interrupt__", ())]
    print(json.dumps({"waits": waits, "said": [message.content for message in found["messages"]]}))


def _plain(value: Any) -> Any:
    """Without the functions that make missing entries, in a form that pickle takes."""
    if not isinstance(value, dict):
        return value
    made: Any = defaultdict(_inner) if isinstance(value, defaultdict) else {}
    made.update({key: _plain(item) for key, item in value.items()})
    return made


def _inner() -> Any:
    return defaultdict(dict)


asyncio.run(main())
