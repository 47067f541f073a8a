"""The examples for agents: the model is scripted; files, daemon, operator, signature and run are real."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import peer
from tests.support import THREEGATE, Place, make_place, threegate
from threegate.setup.agent_examples import SALES

ROOT = Path(__file__).resolve().parents[3]
PURPOSE = "Add up the answer."


@pytest.fixture(autouse=True)
def the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples" / "agents")


@pytest.fixture(name="place")
def a_place_at_work(tmp_path: Path) -> Iterator[Place]:
    """A workspace with a running daemon and an operator who approves whatever waits, but for 'secret plans'."""
    place = make_place(tmp_path)
    daemon = place.daemon()
    stop = threading.Event()

    def operator() -> None:
        seen: set[str] = set()
        while not stop.wait(0.1):
            for path in (place.root / "tool-exec" / "verdicts").glob("TR-*.json"):
                verdict = json.loads(path.read_text())
                draft = place.root / "inbox" / str(verdict["file"])
                if verdict["state"] == "draft" and draft.name not in seen:
                    seen.add(draft.name)
                    if "secret plans" in draft.read_text():
                        place.run("reject", str(draft), "--reason", "not today", expect=0)
                    else:
                        place.approve(draft)

    person = threading.Thread(target=operator)
    person.start()
    try:
        yield place
    finally:
        stop.set()
        person.join()
        daemon.terminate()
        daemon.wait(20)


def prompt(place: Place) -> str:
    return place.run("agent", "prompt", expect=0).out


def test_files_alone(place: Place) -> None:
    """A limit above the maximum is fixed from the verdict; a person's no and a program's failure come back as such."""
    folder = importlib.import_module("folder")
    agent = folder.Folder(place.root, "test-agent", 0.1)
    result = agent.run_python("print(6 * 7)", PURPOSE, seconds=999_999, timeout=60)
    assert folder.stdout_of(result) == "42"
    with pytest.raises(folder.Refused, match="Detail: not today"):
        agent.run_python("print(1)", "Look into the secret plans.", timeout=60)
    with pytest.raises(folder.Refused, match="TG403"):
        agent.run_python("import subprocess", PURPOSE, timeout=60)
    assert [event["data"]["status"] for event in place.events("finished")] == ["succeeded"]


@pytest.mark.slow
def test_langchain(place: Place) -> None:
    peer("langchain_core")
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, BaseMessage

    class Scripted(FakeMessagesListChatModel):
        seen: list[list[BaseMessage]] = []

        def bind_tools(self, tools: Any, **_more: Any) -> Any:
            assert [tool.name for tool in tools] == ["run_python"]
            return self

        def _generate(self, messages: list[BaseMessage], *more: Any, **named: Any) -> Any:
            self.seen.append(messages)
            return super()._generate(messages, *more, **named)

    call = {"name": "run_python", "args": {"code": "print(6 * 7)", "purpose": PURPOSE}, "id": "1"}
    model = Scripted(responses=[AIMessage("", tool_calls=[call]), AIMessage("It is 42.")])
    example = importlib.import_module("langchain_agent")
    text = prompt(place)
    assert example.answer(model, "What is six times seven?", place.root, text, 0.1) == "It is 42."
    assert model.seen[0][0].content == text
    assert model.seen[1][-1].content == "42"
    assert len(place.events("finished")) == 1


@pytest.mark.slow
def test_openai_agents(place: Place) -> None:
    peer("agents")
    from agents import Model, ModelResponse
    from agents.usage import Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    inputs: list[Any] = []
    arguments = json.dumps({"code": "print(6 * 7)", "purpose": PURPOSE})
    said = ResponseOutputText(text="It is 42.", type="output_text", annotations=[])
    answers: list[Any] = [
        ResponseFunctionToolCall(call_id="1", name="run_python", arguments=arguments, type="function_call"),
        ResponseOutputMessage(id="2", content=[said], role="assistant", status="completed", type="message"),
    ]

    class Scripted(Model):
        async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
            inputs.append(given[1] if len(given) > 1 else named["input"])
            return ModelResponse(output=[answers[len(inputs) - 1]], usage=Usage(), response_id=None)

        def stream_response(self, *given: Any, **named: Any) -> Any:
            raise NotImplementedError

    example = importlib.import_module("openai_agent")
    agent = example.threegate_agent(Scripted(), place.root, prompt(place), 0.1)
    assert asyncio.run(example.answer(agent, "What is six times seven?")) == "It is 42."
    assert inputs[1][-1]["output"] == "42"
    assert len(place.events("finished")) == 1


@pytest.mark.slow
def test_mcp(place: Place) -> None:
    example = importlib.import_module("mcp_agent")
    text = asyncio.run(example.run_python(THREEGATE, place.root, "print(6 * 7)", 0.1))
    assert importlib.import_module("folder").stdout_of(text) == "42"


def test_the_prompt_for_a_workspace_names_what_it_has(tmp_path: Path) -> None:
    """Its own maxima, backends and contracts; and its Monty examples run as they stand."""
    bounds = {"request.max_memory_mb": 64, "request.max_time_sec": 20}
    place = make_place(tmp_path, settings={**bounds, "runners.era.runtime": "engine"})  # without an image
    value = place.run("agent", "prompt", "--json", expect=0).json()
    assert value["backends"] == ["monty"] and not value["network"]
    assert value["maxima"] == {"cpu_limit": 4.0, "memory_limit_mb": 64, "time_limit_sec": 20}
    assert f"below `{place.root}`" in value["text"] and "`memory_limit_mb` 8 to 64" in " ".join(value["text"].split())
    assert "backend: ERA" not in value["text"]
    place.input("sales.csv", SALES)
    drafts = [place.drop(item["text"], item["name"]) for item in value["examples"] if item["name"].startswith("TR-")]
    assert len(drafts) == 2
    for draft in drafts:
        place.approve(draft)
    place.once()
    assert sorted(re.findall(r"```text\n(.*)\n```", text)[0] for text in place.results()) == [
        "7",
        "total 635",
    ]
    (place.root / "tool-exec" / "contracts" / "bad.yaml").write_text("tool: [\n")
    done = place.run("agent", "prompt", expect=0)
    assert "threegate contracts check" in done.err


def test_the_default_prompt_needs_no_workspace(tmp_path: Path) -> None:
    done = threegate("agent", "prompt", "--default", "--format", "json", cwd=tmp_path)
    assert done.code == 0
    value = done.json()
    assert value["backends"] == ["monty", "ERA"] and value["network"] and value["workspace"] is None
    assert threegate("agent", "prompt", cwd=tmp_path).code == 64
    assert threegate("agent", "prompt", "--default", "--format", "html", cwd=tmp_path).code == 64
