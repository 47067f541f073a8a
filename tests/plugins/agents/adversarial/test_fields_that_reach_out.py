"""An agent puts what the provider would fetch, keep or run into each field that no list of kinds looks at."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.plugins.agents.test_model_protocols import GOOD, PATHS, PNG
from threegate.plugins.agents.model_protocols import ModelRequestRefused, check_request
from threegate.plugins.agents.profile import Protocol

URL = "https://evil.example/?secret"
WAV = {"data": "UklGRg==", "format": "wav"}


def responses(*items: dict[str, Any], **more: Any) -> tuple[Protocol, dict[str, Any]]:
    return "responses", {"input": list(items), **more}


def parts(*given: dict[str, Any]) -> tuple[Protocol, dict[str, Any]]:
    return responses({"type": "message", "role": "user", "content": list(given)})


def chat(*given: dict[str, Any], **more: Any) -> tuple[Protocol, dict[str, Any]]:
    return "chat", {"messages": [{"role": "user", "content": list(given)}], **more}


def messages(*given: dict[str, Any], **more: Any) -> tuple[Protocol, dict[str, Any]]:
    return "messages", {"messages": [{"role": "user", "content": list(given)}], **more}


def gemini(*given: dict[str, Any], **more: Any) -> tuple[Protocol, dict[str, Any]]:
    return "gemini", {"contents": [{"role": "user", "parts": list(given)}], **more}


REACHING = [
    # the instances that were found: bytes that are a URL, and an item that is a reference
    parts({"type": "input_audio", "input_audio": {"data": URL, "format": "wav"}}),
    chat({"type": "input_audio", "input_audio": {"data": URL, "format": "wav"}}),
    parts({"type": "input_file", "filename": "a.pdf", "file_data": URL}),
    chat({"type": "file", "file": {"filename": "a.pdf", "file_data": URL}}),
    responses({"id": "msg_123"}),
    # their brothers: every other place of bytes, references and kinds
    responses({"id": "msg_123", "role": "user"}),
    responses({"id": "msg_123", "content": "x"}),
    responses({"type": None, "id": "msg_123"}),
    responses({"type": ["message"], "id": "msg_123"}),
    parts({"type": "input_image", "image_url": f"data:image/png;base64,{URL}"}),
    parts({"type": "input_image", "image_url": {"url": URL}}),
    parts({"type": "input_image", "image_url": f"data:text/html,<img src={URL}>"}),
    parts({"type": "input_image", "image_url": "data:image/svg+xml;base64,AA=="}),
    parts({"type": "input_image", "image_url": PNG, "file_id": "file-1"}),
    parts({"type": "input_image", "image_url": PNG, "url": URL}),
    parts({"type": "input_file", "file_data": "AA==", "file_url": URL}),
    parts({"type": "input_file", "file": {"file_data": "AA=="}, "file_id": "file-1"}),
    parts({"type": "input_audio", "input_audio": {**WAV, "url": URL}}),
    parts({"type": "input_audio", "input_audio": {"id": "audio_1"}}),
    parts({"type": "input_text", "text": "x", "file_id": "file-1"}),
    parts({"type": "input_text", "text": {"url": URL}}),
    parts({"type": "output_text", "text": "x", "annotations": [{"type": "file_citation", "file_id": "file-1"}]}),
    parts({"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "id": "c"}}),
    responses({"type": "reasoning", "summary": [{"type": "input_image", "image_url": URL}]}),
    responses({"type": "reasoning", "id": "rs_1", "content_url": URL}),
    responses({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "caller": {"type": "program", "caller_id": "p"}}),  # noqa: E501
    responses({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_audio", "input_audio": {"data": URL}}]}),  # noqa: E501
    responses({"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_file", "file_data": URL}]}),  # noqa: E501
    responses({"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "container": "c"}}),  # noqa: E501
    responses({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "update_file", "path": "a", "file_id": "f"}}),  # noqa: E501
    responses({"type": "message", "role": "user", "content": "x", "attachments": [{"file_id": "f"}]}),
    responses(tools=[{"type": "function", "name": "f", "server_url": URL}]),
    responses(tools=[{"type": "function", "name": "f", "allowed_callers": ["programmatic"]}]),
    responses(tools=[{"type": "function", "name": "f", "parameters": {"$ref": URL}}]),
    responses(tools=[{"type": "function", "name": "f", "output_schema": {"properties": {"a": [{"$dynamicRef": "other.json"}]}}}]),  # noqa: E501
    responses(tools=[{"type": "custom", "name": "c", "format": {"type": "grammar", "definition_url": URL}}]),
    responses(tools=[{"type": "local_shell", "environment": {"type": "container_reference", "container_id": "c"}}]),
    responses(tool_choice={"type": "mcp", "server_label": "x"}),
    responses(tool_choice={"type": "allowed_tools", "tools": [{"type": "web_search"}]}),
    responses(include=["web_search_call.action.sources"]),
    responses(text={"format": {"type": "json_schema", "schema": {"$ref": "https://evil.example/s"}}}),
    responses(reasoning={"effort": "low", "tools": ["web_search"]}),
    responses(metadata={"a": {"url": URL}}),
    responses(prompt_cache_key={"url": URL}),
    chat({"type": "image_url", "image_url": f"data:image/png;base64,{URL}"}),
    chat({"type": "image_url", "image_url": {"url": PNG, "file_id": "f"}}),
    chat({"type": "file", "file": {"file_data": "AA==", "file_id": "f"}}),
    chat({"type": "file", "file": {"file_data": "AA=="}, "file_url": URL}),
    chat({"type": "text", "text": "x", "image_url": {"url": URL}}),
    chat({"type": "video_url", "video_url": {"url": URL}}),
    chat(prediction={"type": "content", "content": [{"type": "image_url", "image_url": {"url": URL}}]}),
    chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"allOf": [{"$ref": URL}]}}}]),
    chat(tools=[{"type": "function", "function": {"name": "f"}, "server_url": URL}]),
    chat(tool_choice={"type": "web_search"}),
    chat(response_format={"type": "json_schema", "json_schema": {"schema": {"$ref": "file:///etc/passwd"}}}),
    chat(stream_options={"include_usage": True, "callback": URL}),
    ("chat", {"messages": [{"role": "critic", "content": "x"}]}),
    ("chat", {"messages": [{"content": "x"}]}),
    ("chat", {"messages": [{"role": "user", "content": "x", "attachments": ["f"]}]}),
    ("chat", {"messages": [{"role": "assistant", "images": [{"image_url": {"url": URL}}]}]}),
    ("chat", {"messages": [{"role": "assistant", "tool_calls": [{"type": "mcp", "id": "c"}]}]}),
    ("chat", {"messages": [{"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": URL}}]}]}),  # noqa: E501
    messages({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": URL}}),
    messages({"type": "image", "source": {"type": "base64", "data": "AA==", "url": URL}}),
    messages({"type": "document", "source": {"type": "text", "data": "x", "file_id": "f"}}),
    messages({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x", "url": URL}]}}),  # noqa: E501
    messages({"type": "text", "text": "x", "source": {"type": "url", "url": URL}}),
    messages({"type": "text", "text": "x", "citations": [{"type": "web_search_result_location", "url": URL}]}),
    messages({"type": "text", "text": "x", "citations": [{"type": "char_location", "file_id": "f"}]}),
    messages({"type": "tool_use", "id": "1", "name": "x", "input": {}, "caller": {"type": "code_execution_20250825"}}),
    messages({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "x"}]}),
    messages({"type": "thinking", "thinking": "x", "file_id": "f"}),
    messages({"text": "x"}),
    messages(tools=[{"name": "t", "input_schema": {"$ref": URL}}]),
    messages(tools=[{"name": "t", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]),
    messages(tools=[{"type": "bash_20250124", "name": "bash", "url": URL}]),
    messages(tool_choice={"type": "tool", "name": "x", "server": URL}),
    messages(metadata={"user_id": "u", "webhook": URL}),
    messages(system=[{"type": "document", "source": {"type": "file", "file_id": "f"}}]),
    messages(output_config={"format": {"type": "json_schema", "schema": {"$ref": URL}}}),
    messages(context_management={"edits": [{"type": "clear", "url": URL}]}),
    gemini({"inlineData": {"mimeType": "image/png", "data": URL}}),
    gemini({"inlineData": {"mimeType": "image/png", "data": "AA==", "fileUri": URL}}),
    gemini({"text": {"fileUri": URL}}),
    gemini({"functionResponse": {"name": "f", "response": {}, "parts": [{"inlineData": {"data": URL}}]}}),
    gemini({"functionResponse": {"name": "f", "response": {}, "parts": [{"text": "x"}]}}),
    gemini({"functionCall": {"name": "f", "args": {}, "server": URL}}),
    gemini({"text": "x", "videoMetadata": {"fileUri": URL}}),
    gemini({"executableCode": {"code": "x"}}),
    gemini(tools=[{"functionDeclarations": [{"name": "f", "parameters": {"$ref": URL}}]}]),
    gemini(tools=[{"functionDeclarations": [{"name": "f", "url": URL}]}]),
    gemini(toolConfig={"retrievalConfig": {"latLng": {}}}),
    gemini(generationConfig={"responseJsonSchema": {"$ref": URL}}),
    gemini(generationConfig={"speechConfig": {"url": URL}}),
    gemini(safetySettings=[{"category": "x", "callback": URL}]),
    gemini(systemInstruction={"parts": [{"inlineData": {"data": URL}}]}),
    gemini(systemInstruction={"role": "system", "fileData": {"fileUri": URL}}),
    ("gemini", {"contents": [{"parts": [{"text": "x"}], "fileData": {"fileUri": URL}}]}),
    gemini({"text": "x"}, generateContentRequest={"contents": [{"parts": [{"inlineData": {"data": URL}}]}]}),
    gemini({"text": "x"}, generateContentRequest={"generateContentRequest": {}}),
    gemini(labels={"a": ["x"]}),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "change"), REACHING)
def test_no_field_reaches_out(protocol: Protocol, change: dict[str, Any]) -> None:
    with pytest.raises(ModelRequestRefused) as refused:
        check_request(protocol, PATHS[protocol], {**GOOD[protocol], **change}, ("m",))
    assert "evil" not in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 250


FULL: list[tuple[Protocol, dict[str, Any]]] = [
    responses(
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
         "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "x"}]},  # noqa: E501
        {"role": "user", "content": [
            {"type": "input_text", "text": URL}, {"type": "input_image", "image_url": PNG, "detail": "auto", "file_id": None},  # noqa: E501
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
            {"type": "input_audio", "input_audio": WAV}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}], "content": None,
         "encrypted_content": "x"},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "namespace": "n", "arguments": '{"url": "x"}', "status": "completed"},  # noqa: E501
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": URL},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
        {"type": "local_shell_call", "call_id": "c", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {"A": "b"}, "timeout_ms": 5, "working_directory": "/"}},
        {"type": "apply_patch_call", "call_id": "c", "status": "completed", "operation": {"type": "update_file", "path": "a", "diff": "b"}},  # noqa: E501
        {"type": "compaction", "encrypted_content": "x"},
        tools=[
            {"type": "function", "name": "f", "description": "d", "strict": False, "parameters": {
                "$schema": "http://json-schema.org/draft-07/schema#", "$defs": {"a": {"type": "string"}},
                "properties": {"$ref": {"$ref": "#/$defs/a"}, "url": {"format": "uri", "default": URL}}}},
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            {"type": "local_shell"}],
        tool_choice={"type": "function", "name": "f"}, reasoning={"effort": "low", "summary": "auto"},
        text={"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}},
        include=["reasoning.encrypted_content"], client_metadata={"x": "y"}, metadata={"a": "b"}, prompt_cache_key="k",
        temperature=0.5, max_output_tokens=9, truncation="auto", service_tier="auto", instructions="x",
    ),
    ("chat", {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "name": "n", "content": [
                {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}, {"type": "image_url", "image_url": PNG},  # noqa: E501
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA=="}}, {"type": "input_audio", "input_audio": WAV}]},  # noqa: E501
            {"role": "assistant", "content": None, "reasoning_content": "x", "refusal": None, "audio": None, "annotations": [],  # noqa: E501
             "reasoning_details": [{"type": "reasoning.text", "text": "x", "format": "y", "index": 0}],
             "tool_calls": [{"id": "c", "index": 0, "type": "function", "function": {"name": "f", "arguments": URL},
                             "extra_content": {"google": {"thought_signature": "x"}}}]},
            {"role": "tool", "tool_call_id": "c", "name": "f", "content": "x"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}, "strict": True}}],  # noqa: E501
        "tool_choice": "auto", "stream": True, "stream_options": {"include_usage": True}, "stop": ["x"], "seed": 1,
        "logit_bias": {"1": 2}, "response_format": {"type": "json_object"}, "metadata": {"a": "b"}, "n": 1,
        "thinking": {"type": "enabled", "budget_tokens": 5}, "max_tokens": 9, "temperature": 1,
    }),
    messages(
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}, "citations": None},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "document", "title": "t", "citations": {"enabled": True}, "source": {"type": "text", "media_type": "text/plain", "data": URL}},  # noqa: E501
        {"type": "tool_result", "tool_use_id": "1", "is_error": False, "content": [{"type": "text", "text": "x"}]},
        {"type": "search_result", "source": URL, "title": "t", "content": [{"type": "text", "text": "x"}]},
        {"type": "thinking", "thinking": "x", "signature": "y"}, {"type": "redacted_thinking", "data": "x"},
        system=[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        tools=[{"name": "t", "description": "d", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema"},  # noqa: E501
                "cache_control": {"type": "ephemeral"}, "eager_input_streaming": True},
               {"type": "text_editor_20250728", "name": "e", "max_characters": 9}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True}, metadata={"user_id": "u"},
        thinking={"type": "enabled", "budget_tokens": 5}, output_config={"effort": "high"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"},
                                      {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 5}}]},  # noqa: E501
        stop_sequences=["x"], stream=True, temperature=1, top_k=3,
    ),
    gemini(
        {"text": "x", "thought": True, "thoughtSignature": "AA=="}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}},  # noqa: E501
        {"functionCall": {"id": "1", "name": "f", "args": {"fileUri": URL}}},
        {"functionResponse": {"id": "1", "name": "f", "response": {"output": URL}, "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}},  # noqa: E501
        tools=[{"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}]}],  # noqa: E501
        toolConfig={"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}},
        systemInstruction={"role": "user", "parts": [{"text": "x"}]},
        generationConfig={"temperature": 0, "topP": 1, "topK": 64, "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},  # noqa: E501
                          "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
        safetySettings=[{"category": "x", "threshold": "y"}],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "change"), FULL)
def test_what_the_references_list_passes_unchanged(protocol: Protocol, change: dict[str, Any]) -> None:
    given = {**GOOD[protocol], **change}
    passed = check_request(protocol, PATHS[protocol], deepcopy(given), ("m",))
    assert passed.body == {**given, **({"store": False} if protocol == "responses" else {})}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Each object in a JSON value that a provider reads, by its path."""
    if isinstance(value, dict):
        if path and path[-1] in FREE:
            return
        yield path
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


FREE = {"parameters", "input_schema", "schema", "parametersJsonSchema", "responseJsonSchema", "args", "response", "env",
        "metadata", "client_metadata", "logit_bias"}  # fmt: skip
"""Data of the client: schemas, arguments and results, and maps of the client's own names."""


@pytest.mark.parametrize(("protocol", "change"), FULL)
def test_a_new_key_is_refused_in_every_object(protocol: Protocol, change: dict[str, Any]) -> None:
    """Whatever a provider adds to its protocol is refused until it is listed, wherever it is."""
    given = {**GOOD[protocol], **change}
    free = FREE - ({"metadata"} if protocol == "messages" else set())
    found = [path for path in places(given) if not path or path[-1] not in free]
    assert len(found) > 8
    for path in found:
        changed = deepcopy(given)
        place = changed
        for key in path:
            place = place[key]
        place["new_in_2027"] = URL
        with pytest.raises(ModelRequestRefused, match="new_in_2027"):
            check_request(protocol, PATHS[protocol], changed, ("m",))


def test_a_message_with_an_id_is_named_a_message() -> None:
    """Without a type a provider could read it as a reference to an item that it keeps."""
    item = {"id": "msg_1", "role": "assistant", "content": "x"}
    passed = check_request("responses", PATHS["responses"], {"model": "m", "input": [item]}, ("m",))
    assert passed.body["input"] == [{"type": "message", **item}]
