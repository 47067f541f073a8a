"""What an agent may ask of its model's provider, protocol by protocol."""

from __future__ import annotations

from typing import Any

import pytest

from threegate.plugins.agents.model_protocols import ModelRequestRefused, check_request
from threegate.plugins.agents.profile import Protocol

PATHS: dict[Protocol, str] = {
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
GOOD: dict[Protocol, dict[str, Any]] = {
    "responses": {
        "model": "m",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
    },
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "messages": {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    },
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}
ITEM = {"type": "message", "role": "user"}
PNG = "data:image/png;base64,AA=="


def user(part: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [part]}


PASSES: list[tuple[Protocol, dict[str, Any]]] = [
    ("responses", {"input": "hi", "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}),
    ("responses", {"tools": [{"type": "function", "name": "f"}, {"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]}),  # noqa: E501
    ("responses", {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": PNG}]}]}),  # noqa: E501
    ("responses", {"input": [{"type": "reasoning", "encrypted_content": "x", "summary": []}], "previous_response_id": None}),  # noqa: E501
    ("chat", {"tools": [{"type": "function", "function": {"name": "file_id", "parameters": {"properties": {"url": {}}}}}]}),  # noqa: E501
    ("chat", {"messages": [user({"type": "image_url", "image_url": {"url": PNG}})]}),
    ("messages", {"tools": [{"name": "t", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}], "system": "s"}),  # noqa: E501
    ("messages", {"messages": [user({"type": "tool_use", "id": "1", "name": "x", "input": {"file_id": "mine", "url": "http://x"}})]}),
    ("messages", {"messages": [user({"type": "image", "source": {"type": "base64", "data": "AA=="}})]}),
    ("gemini", {"tools": [{"functionDeclarations": [{"name": "f"}]}], "systemInstruction": {"parts": [{"text": "s"}]}}),
    ("gemini", {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"fileUri": "x"}}}, {"inlineData": {"data": ""}}]}]}),  # noqa: E501
]  # fmt: skip
REFUSED: list[tuple[Protocol, dict[str, Any], str]] = [
    # tools that the provider runs, and MCP servers that it would call
    *[("responses", {"tools": [{"type": kind}]}, kind) for kind in ("web_search", "web_search_preview", "file_search", "code_interpreter", "mcp", "image_generation", "computer_use_preview", "shell")],  # noqa: E501
    ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "mcp", "server_url": "https://x"}]}]}, "mcp"),
    ("responses", {"tools": [{"type": "namespace", "tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}]}, "namespace"),  # noqa: E501
    ("chat", {"tools": [{"type": "web_search"}]}, "web_search"),
    ("chat", {"web_search_options": {}}, "web_search_options"),
    *[("messages", {"tools": [{"type": kind, "name": "x"}]}, kind) for kind in ("web_search_20250305", "web_fetch_20250910", "code_execution_20250825", "mcp_toolset")],  # noqa: E501
    ("messages", {"mcp_servers": [{"type": "url", "url": "https://x"}]}, "mcp_servers"),
    ("messages", {"container": "c"}, "container"),
    *[("gemini", {"tools": [{kind: {}}]}, kind) for kind in ("googleSearch", "google_search", "urlContext", "codeExecution", "fileSearch", "computerUse", "googleMaps")],  # noqa: E501
    # what the provider would fetch or has kept
    ("responses", {"input": [{**ITEM, "content": [{"type": "input_image", "image_url": "https://x/?secret"}]}]}, "URL"),
    ("responses", {"input": [{**ITEM, "content": [{"type": "input_image", "file_id": "file-1"}]}]}, "file id"),
    ("responses", {"input": [{**ITEM, "content": [{"type": "input_file", "file_url": "https://x"}]}]}, "URL"),
    ("responses", {"input": [{"type": "function_call_output", "output": [{"type": "input_file", "file_id": "f"}]}]}, "file id"),  # noqa: E501
    ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "item_reference"),
    ("responses", {"input": [{"type": "mcp_approval_response"}]}, "mcp_approval_response"),
    ("responses", {"previous_response_id": "r"}, "previous_response_id"),
    ("responses", {"conversation": "c"}, "conversation"),
    ("responses", {"prompt": {"id": "p"}}, "prompt"),
    ("responses", {"background": True}, "background"),
    ("responses", {"store": True}, "store"),
    ("chat", {"store": True}, "store"),
    ("chat", {"messages": [user({"type": "image_url", "image_url": {"url": "https://x"}})]}, "URL"),
    ("chat", {"messages": [user({"type": "file", "file": {"file_id": "f"}})]}, "file id"),
    ("chat", {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "audio"),
    ("messages", {"messages": [user({"type": "image", "source": {"type": "url", "url": "https://x"}})]}, "URL"),
    ("messages", {"messages": [user({"type": "document", "source": {"type": "file", "file_id": "f"}})]}, "file id"),
    ("messages", {"messages": [user({"type": "tool_result", "content": [{"type": "image", "source": {"type": "url"}}]})]}, "URL"),  # noqa: E501
    ("messages", {"messages": [user({"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": {"type": "url"}}]}})]}, "URL"),  # noqa: E501
    ("messages", {"messages": [user({"type": "container_upload", "file_id": "f"})]}, "container_upload"),
    ("messages", {"messages": [user({"type": "server_tool_use", "name": "web_search"})]}, "server_tool_use"),
    ("messages", {"system": [{"type": "image", "source": {"type": "url"}}]}, "URL"),
    ("gemini", {"cachedContent": "c"}, "cachedContent"),
    ("gemini", {"cached_content": "c"}, "cached_content"),
    ("gemini", {"contents": [{"parts": [{"fileData": {"fileUri": "https://x"}}]}]}, "fileData"),
    ("gemini", {"contents": [{"parts": [{"file_data": {"file_uri": "https://x"}}]}]}, "file_data"),
    ("gemini", {"contents": [{"parts": [{"functionResponse": {"parts": [{"fileData": {}}]}}]}]}, "fileData"),
    ("gemini", {"systemInstruction": {"parts": [{"fileData": {}}]}}, "fileData"),
    ("gemini", {"generateContentRequest": {"contents": [{"parts": [{"fileData": {}}]}]}}, "fileData"),
    ("gemini", {"generateContentRequest": {"model": "models/other"}}, "other"),
    # other models, unknown keys, other forms
    ("responses", {"model": "other"}, "other"),
    ("chat", {"model": ["m"]}, "list"),
    ("messages", {"model": None}, "NoneType"),
    ("chat", {"new_feature": 1}, "new_feature"),
    ("responses", {"input": {"a": 1}}, "input"),
    ("chat", {"messages": ["x"]}, "messages"),
    ("gemini", {"contents": "x"}, "contents"),
]  # fmt: skip


@pytest.mark.parametrize("protocol", GOOD)
def test_a_plain_request_goes_on_and_is_not_stored(protocol: Protocol) -> None:
    passed = check_request(protocol, PATHS[protocol], GOOD[protocol], ("m",))
    stored = {"store": False} if protocol == "responses" else {}
    assert passed.path == PATHS[protocol] and passed.body == {**GOOD[protocol], **stored}


@pytest.mark.parametrize(("protocol", "change"), PASSES)
def test_what_agents_need_passes(protocol: Protocol, change: dict[str, Any]) -> None:
    check_request(protocol, PATHS[protocol], {**GOOD[protocol], **change}, ("m",))


@pytest.mark.parametrize(("protocol", "change", "word"), REFUSED)
def test_what_reaches_out_is_refused_and_named(protocol: Protocol, change: dict[str, Any], word: str) -> None:
    with pytest.raises(ModelRequestRefused, match=word):
        check_request(protocol, PATHS[protocol], {**GOOD[protocol], **change}, ("m",))


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        ("responses", "/v1/files"),
        ("responses", "/v1/responses/resp_1"),
        ("responses", "/v1/responses/"),
        ("responses", "/v1//responses"),
        ("responses", "http://other/v1/responses"),
        ("responses", "/v1/chat/completions"),
        ("chat", "/v1/batches"),
        ("messages", "/v1/messages/batches"),
        ("messages", "/v1/files"),
        ("gemini", "/upload/v1beta/files"),
        ("gemini", "/v1beta/models/other:generateContent"),
        ("gemini", "/v1beta/models/m:predict"),
        ("gemini", "/v1beta/models/../m:generateContent"),
        ("gemini", "/v1beta/models/m:generateContent%0a"),
        ("gemini", "/v1beta/models/m:generateContent\n"),
    ],
)
def test_other_paths_are_refused(protocol: Protocol, path: str) -> None:
    with pytest.raises(ModelRequestRefused):
        check_request(protocol, path, GOOD[protocol], ("m",))


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_is_an_object(body: object) -> None:
    with pytest.raises(ModelRequestRefused, match="not a JSON object"):
        check_request("chat", PATHS["chat"], body, ("m",))


def test_a_refusal_repeats_no_value() -> None:
    with pytest.raises(ModelRequestRefused) as caught:
        check_request("chat", PATHS["chat"], {**GOOD["chat"], "model": "\x1b]52;c;x\n" + "s" * 500}, ("m",))
    assert "\x1b" not in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 250
