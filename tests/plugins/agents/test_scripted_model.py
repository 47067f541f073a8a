"""The scripted model itself: each protocol as its client reads it, streamed and whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest

from tests.conftest import peer
from tests.plugins.agents.scripted_model import ASIDE, OVER, Call, Model, NextStep, Say, Turn

MakeModel = Callable[[Sequence[NextStep]], Model]
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
ARGUMENTS = {"a": 'a "quoted" ü'}


def chat_tools(*names: str) -> list[Any]:
    return [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in names]


def client(model: Model) -> Any:
    return peer("openai").OpenAI(base_url=f"{model.url}/v1", api_key="k-1", max_retries=0)


@pytest.mark.slow
def test_responses_as_the_client_of_openai_reads_them(model: MakeModel) -> None:
    served = model([Call("x__look", ARGUMENTS), Call("patch", "*** Begin"), Say(lambda turn: f"got {turn.result}")])
    tools: list[Any] = [
        {
            "type": "namespace",
            "name": "mcp__x",
            "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}],
        },
        {"type": "custom", "name": "patch"},
    ]
    talk: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "go on"}]}]

    def ask() -> Any:
        with client(served).responses.stream(model="m", input=talk, tools=tools) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
        assert final.usage is not None and final.usage.total_tokens == 15
        return final.output[0]

    first = ask()
    assert (first.type, first.name, json.loads(first.arguments)) == ("function_call", "look", ARGUMENTS)
    assert first.namespace == "mcp__x"
    talk += [
        {"type": "function_call", "call_id": first.call_id, "name": "look", "arguments": first.arguments},
        {"type": "function_call_output", "call_id": first.call_id, "output": "seen"},
    ]
    second = ask()
    assert (second.type, second.name, second.input) == ("custom_tool_call", "patch", "*** Begin")
    assert second.call_id != first.call_id
    talk += [
        {"type": "custom_tool_call", "call_id": second.call_id, "name": "patch", "input": second.input},
        {
            "type": "custom_tool_call_output",
            "call_id": second.call_id,
            "output": [{"type": "input_text", "text": "ok"}],
        },
    ]
    assert ask().content[0].text == "got ok"
    whole = client(served).responses.create(model="m", input="a title, please")
    assert whole.output_text == ASIDE
    assert [turn.results for turn in served.turns] == [(), ("seen",), ("seen", "ok")]
    assert {turn.user for turn in served.turns} == {"go on"} and {turn.key for turn in served.turns} == {"k-1"}
    assert len(served.asides) == 1 and served.asides[0].user == "a title, please"
    served.check()


def test_chat_as_the_client_of_openai_reads_it(model: MakeModel) -> None:
    served = model([Call("look", ARGUMENTS), Say("good bye"), Say("whole")])
    talk: list[Any] = [{"role": "system", "content": "s"}, {"role": "user", "content": "go on"}]
    with client(served).chat.completions.stream(model="m", messages=talk, tools=chat_tools("x_look")) as stream:
        for _ in stream:
            pass
        choice = stream.get_final_completion().choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
    call = choice.message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("x_look", ARGUMENTS)
    talk += [
        {
            "role": "assistant",
            "tool_calls": [{"id": call.id, "type": "function", "function": {"name": "x_look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "seen"}]},
    ]
    chunks = list(
        client(served).chat.completions.create(model="m", messages=talk, tools=chat_tools("x_look"), stream=True)
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "good bye"
    whole = client(served).chat.completions.create(model="m", messages=talk, tools=chat_tools("x_look", "other"))
    assert whole.choices[0].message.content == "whole" and whole.choices[0].finish_reason == "stop"
    assert [turn.result for turn in served.turns] == ["", "seen", "seen"]
    served.check()


def events(url: str, body: dict[str, Any], key: dict[str, str]) -> list[dict[str, Any]]:
    """The data of each event of a stream, by httpx: the other vendors' clients are no dependency of ours."""
    with httpx.stream("POST", url, json=body, headers=key, timeout=30) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        lines = list(answer.iter_lines())
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_messages_of_anthropic(model: MakeModel) -> None:
    served = model([Call("look", ARGUMENTS), Say("good bye"), Call("look", {})])
    url, key = f"{served.url}/v1/messages?beta=true", {"x-api-key": "k-2"}
    body: dict[str, Any] = {
        "model": "m",
        "stream": True,
        "tools": [
            {"name": "mcp__x__look", "input_schema": SCHEMA},
            {"type": "web_search_20250305", "name": "w"},
        ],
        "messages": [{"role": "user", "content": "go on"}],
    }
    sent = events(url, body, key)
    assert [event["type"] for event in sent] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",  # noqa: E501
    ]  # fmt: skip
    block = sent[1]["content_block"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "mcp__x__look", {})
    assert json.loads(sent[2]["delta"]["partial_json"]) == ARGUMENTS
    assert sent[4]["delta"]["stop_reason"] == "tool_use"
    answer = {
        "type": "tool_result",
        "tool_use_id": block["id"],
        "content": [{"type": "text", "text": "seen"}],
    }
    body["messages"] += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [answer]}]
    sent = events(url, body, key)
    assert sent[2]["delta"] == {"type": "text_delta", "text": "good bye"}
    assert sent[4]["delta"]["stop_reason"] == "end_turn"
    whole = httpx.post(url, json={**body, "stream": False}, headers=key).json()
    assert whole["content"][0]["type"] == "tool_use" and whole["stop_reason"] == "tool_use"
    assert httpx.post(f"{served.url}/v1/messages/count_tokens", json=body).json() == {"input_tokens": 10}
    assert [(turn.result, turn.user, turn.key) for turn in served.turns] == [
        ("", "go on", "k-2"), ("seen", "go on", "k-2"), ("seen", "go on", "k-2"),
    ]  # fmt: skip
    assert [tool.name for tool in served.turns[0].tools] == ["mcp__x__look"]
    served.check()


def test_generate_content_of_gemini(model: MakeModel) -> None:
    served = model([Call("look", ARGUMENTS), Say("good bye")])
    url, key = f"{served.url}/v1beta/models/m", {"x-goog-api-key": "k-3"}
    body: dict[str, Any] = {
        "tools": [
            {"functionDeclarations": [{"name": "x_look", "parametersJsonSchema": SCHEMA}]},
            {"googleSearch": {}},
        ],
        "contents": [{"role": "user", "parts": [{"text": "go on"}]}],
    }
    (sent,) = events(f"{url}:streamGenerateContent?alt=sse", body, key)
    part = sent["candidates"][0]["content"]["parts"][0]
    assert (part["functionCall"]["name"], part["functionCall"]["args"]) == ("x_look", ARGUMENTS)
    answer = {"functionResponse": {"name": "x_look", "response": {"output": "seen"}}}
    body["contents"] += [{"role": "model", "parts": [part]}, {"role": "user", "parts": [answer]}]
    whole = httpx.post(f"{url}:generateContent", json=body, headers=key).json()
    assert whole["candidates"][0]["content"]["parts"] == [{"text": "good bye"}]
    assert httpx.post(f"{url}:countTokens", json=body).json() == {"totalTokens": 10}
    assert [(turn.result, turn.key, turn.protocol) for turn in served.turns] == [
        ("", "k-3", "gemini"),
        ("seen", "k-3", "gemini"),
    ]
    served.check()


def say(model: Model, text: str, *tools: str) -> Any:
    """One whole chat request."""
    talk: list[Any] = [{"role": "user", "content": text}]
    return client(model).chat.completions.create(model="m", messages=talk, tools=chat_tools(*tools)).choices[0].message


def test_a_request_that_is_sent_twice_is_answered_twice_alike(model: MakeModel) -> None:
    served = model([Say("one"), Say("two")])
    assert [say(served, text, "t").content for text in ("a", "a", "b", "a")] == ["one", "one", "two", "one"]
    assert len(served.turns) == 2
    served.check()


def test_what_a_test_must_see(model: MakeModel) -> None:
    """A script that does not fit ends the agent's turn with the reason, and `check` fails."""
    served = model([Call("look", {}), Call("absent", {}), Say(lambda turn: str(turn.body["nothing"]))])
    assert say(served, "a", "a_look", "b_look").content.startswith("LookupError: 2 tools match 'look'")
    assert say(served, "b", "look_at").content.startswith("LookupError: 0 tools match 'absent'")
    assert say(served, "c", "t").content == "KeyError: 'nothing'"
    assert say(served, "d", "t").content == OVER
    assert served.extra == 1 and [fault.partition(":")[0] for fault in served.faults] == [
        "step 1",
        "step 2",
        "step 3",
    ]
    with pytest.raises(AssertionError):
        served.check()
    with pytest.raises(AssertionError):
        model([Say("never said")]).check()
    assert httpx.get(f"{served.url}/v1/models").json()["data"][0]["id"] == "scripted"
    assert httpx.post(f"{served.url}/v1/embeddings", json={}).status_code == 404
    assert served.other == ["GET /v1/models", "POST /v1/embeddings"]


def test_the_exact_name_wins_and_a_step_may_be_chosen(model: MakeModel) -> None:
    def choose(turn: Turn) -> Say | Call:
        return Call("look", {"a": turn.user})

    served = model([choose])
    (call,) = say(served, "chosen", "look", "x_look").tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"a": "chosen"})
    served.check()


def test_a_step_that_blocks_holds_up_no_other_request(model: MakeModel) -> None:
    """A client that gave up and asks again waits for the same step; a title is answered meanwhile."""
    go_on = threading.Event()

    def slow(_turn: Turn) -> str:
        assert go_on.wait(30)
        return "late"

    served = model([Say(slow)])
    answers: list[str] = []
    waiting = [threading.Thread(target=lambda: answers.append(say(served, "a", "t").content)) for _ in range(2)]
    for thread in waiting:
        thread.start()
    assert say(served, "a title").content == ASIDE and answers == []
    go_on.set()
    for thread in waiting:
        thread.join(30)
    assert answers == ["late", "late"]
    served.check()
