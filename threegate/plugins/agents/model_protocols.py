"""What an agent may ask of its model's provider, for each protocol: every field of every kind with its form, and
nothing that reaches out.

Invariant: a request that passes makes the provider compute an answer from the bytes of the request. It names
no tool that the provider runs, no MCP server, no URL or file id for the provider to fetch, no state that the
provider keeps, and no model but the profile's. Anything not listed here, at any depth, is refused, with a line
that names it. Texts, and the arguments and results of tools that the client runs, are free: the model reads them.

Sources: OpenAI API reference (responses, chat completions), Anthropic Messages API, Gemini `generateContent`,
as of 2026-11; of fields that are in no reference, those that the tested agents send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.plugins.agents.model_forms import (
    BY_REFERENCE,
    Form,
    ModelRequestRefused,
    base64_data,
    check_fields,
    data,
    fields,
    flag,
    image_url,
    kinds,
    later,
    list_of,
    map_of,
    nothing,
    number,
    object_or,
    safe_word,
    schema,
    text,
    text_or,
    word,
)
from threegate.plugins.agents.profile import Protocol

__all__ = ["ModelRequestRefused", "Passed", "check_request"]


@dataclass(frozen=True, slots=True)
class Passed:
    """An accepted request: path and body for the provider. The body is rebuilt from what was parsed."""

    path: str
    body: dict[str, Any]
    answers: bool = True
    """Whether the provider computes an answer, which uses tokens; counting the tokens of a request uses none."""


Listed = Mapping[str, Form]

_texts: Final = list_of(text)
_cached: Final[Listed] = {"cache_control": fields(type=text, ttl=text, scope=text)}
_breakpoint: Final[Listed] = {"prompt_cache_breakpoint": fields(mode=text, ttl=text)}
_client_called: Final[Listed] = {
    "strict": flag,
    "defer_loading": flag,
    "allowed_callers": list_of(word("direct")),  # another caller is a program that the provider runs
}
_json_schema: Final[Listed] = {"name": text, "description": text, "schema": schema, "strict": flag}
_formats: Final[Mapping[str, Listed]] = {"text": {}, "json_object": {}}
_image: Final = f"an image {BY_REFERENCE}"
_file: Final = f"a file {BY_REFERENCE}"


def check_request(protocol: Protocol, path: str, body: object, models: Collection[str]) -> Passed:
    """Check one POST of an agent to `path`. Raises ModelRequestRefused."""
    if not isinstance(body, dict):
        raise ModelRequestRefused("a body that is not a JSON object")
    return _CHECKS[protocol](path, body, models)


# ---- OpenAI: what both protocols have

_sampling: Final[Listed] = {
    **dict.fromkeys(("temperature", "top_p", "top_logprobs"), number),
    **dict.fromkeys(
        """user service_tier prompt_cache_key prompt_cache_retention safety_identifier verbosity""".split(), text
    ),
    "parallel_tool_calls": flag,
    "stream": flag,
    "stream_options": fields(include_usage=flag, include_obfuscation=flag),
    "store": flag,
    "metadata": map_of(text),
}
_audio: Final = fields(data=base64_data, format=text)
_choice: Final[Listed] = {
    "type": word("function", "custom", "local_shell", "apply_patch", "allowed_tools"),
    "name": text,
    "mode": text,
    "function": fields(name=text),
    "custom": fields(name=text),
}
_chosen: Final[Listed] = {"mode": text, "tools": list_of(fields(**_choice))}
_tool_choice: Final = text_or(fields(**_choice, tools=_chosen["tools"], allowed_tools=fields(**_chosen)))
_logprob: Final[Listed] = {"token": text, "bytes": list_of(number), "logprob": number}
_format: Final = kinds("type", {"text": {}, "grammar": {"syntax": text, "definition": text}})


# ---- OpenAI responses

_RESPONSES_PARTS: Final = list_of(
    kinds(
        "type",
        {
            "input_text": {"text": text, **_breakpoint},
            "output_text": {
                "text": text,
                "annotations": nothing,  # citations of searches and files of the provider, which are refused
                "logprobs": list_of(fields(**_logprob, top_logprobs=list_of(fields(**_logprob)))),
            },
            "text": {"text": text},
            "summary_text": {"text": text},
            "reasoning_text": {"text": text},
            "refusal": {"refusal": text},
            "input_image": {"image_url": image_url, "detail": text, **_breakpoint},
            "input_file": {"file_data": base64_data, "filename": text, "detail": text, **_breakpoint},
            "input_audio": {"input_audio": _audio},
        },
    )
)
_called: Final[Listed] = {
    **dict.fromkeys(("id", "call_id", "status", "name", "namespace"), text),
    "caller": fields(type=word("direct")),
    "async": flag,
}
_RESPONSES_ITEMS: Final = kinds(
    "type",
    {
        "message": {
            **dict.fromkeys(("role", "id", "status", "phase"), text),
            "content": text_or(_RESPONSES_PARTS),
        },
        "reasoning": {
            **dict.fromkeys(("id", "status", "encrypted_content"), text),
            "summary": _RESPONSES_PARTS,
            "content": _RESPONSES_PARTS,
        },
        "function_call": {**_called, "arguments": text},
        "function_call_output": {**_called, "output": text_or(_RESPONSES_PARTS)},
        "custom_tool_call": {**_called, "input": text},
        "custom_tool_call_output": {**_called, "output": text_or(_RESPONSES_PARTS)},
        "local_shell_call": {
            **_called,
            "action": fields(
                type=word("exec"),
                command=_texts,
                env=map_of(text),
                timeout_ms=number,
                user=text,
                working_directory=text,
            ),
        },
        "local_shell_call_output": {**_called, "output": text},
        "apply_patch_call": {**_called, "operation": fields(type=text, path=text, diff=text)},
        "apply_patch_call_output": {**_called, "output": text},
        "compaction": {"id": text, "encrypted_content": text},
    },
    usual="message",
)
_function: Final[Listed] = {
    **_client_called,
    "name": text,
    "description": text,
    "parameters": schema,
    "output_schema": schema,
    "async": flag,
}
_RESPONSES_CLIENT_TOOLS: Final[Mapping[str, Listed]] = {
    "function": _function,
    "custom": {**_client_called, "name": text, "description": text, "format": _format, "async": flag},
    "local_shell": {},
    "apply_patch": {**_client_called},
}
"""Run by the client."""
_RESPONSES: Final[Listed] = {
    **_sampling,
    "model": data,
    "instructions": text,
    "input": text_or(list_of(_RESPONSES_ITEMS)),
    "tools": list_of(
        kinds(
            "type",
            {
                **_RESPONSES_CLIENT_TOOLS,
                "namespace": {
                    "name": text,
                    "description": text,
                    "tools": list_of(kinds("type", _RESPONSES_CLIENT_TOOLS)),
                },
            },
        )
    ),
    "tool_choice": _tool_choice,
    "reasoning": fields(effort=text, summary=text, generate_summary=text, context=text, mode=text),
    "include": list_of(word("reasoning.encrypted_content", "message.output_text.logprobs")),
    "text": fields(format=kinds("type", {**_formats, "json_schema": _json_schema}), verbosity=text),
    "max_output_tokens": number,
    "max_tool_calls": number,
    "truncation": text,
    "client_metadata": map_of(text),
}


def _responses(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    _path(path, ("/v1/responses",))
    _model(body.get("model"), models)
    _not_stored(body)
    check_fields(body, _RESPONSES, "")
    given = body.get("input")
    for item in given if isinstance(given, list) else []:
        if "type" in item:
            continue
        # Without a type it is a message if it has a role, and else a reference to an item that the provider keeps.
        if not isinstance(item.get("role"), str) or item.get("content") is None:
            raise ModelRequestRefused("input without a type")
        if "id" in item:
            item["type"] = "message"
    return Passed("/v1/responses", {**body, "store": False})


# ---- OpenAI chat completions

_CHAT_PARTS: Final = list_of(
    kinds(
        "type",
        {
            "text": {"text": text, **_cached, **_breakpoint},
            "refusal": {"refusal": text},
            "thinking": {"thinking": text, "signature": text},
            "image_url": {
                "image_url": object_or(image_url, fields(_image, url=image_url, detail=text)),
                **_cached,
                **_breakpoint,
            },
            "file": {"file": fields(_file, file_data=base64_data, filename=text), **_cached, **_breakpoint},
            "input_audio": {"input_audio": _audio, **_breakpoint},
        },
    )
)
_content: Final[Listed] = {"content": text_or(_CHAT_PARTS), "name": text, **_cached}
_call: Final[Listed] = {
    "id": text,
    "index": number,
    "extra_content": fields(google=fields(thought_signature=text)),
}
_named_call: Final = fields(name=text, arguments=text)
_CHAT_MESSAGES: Final = kinds(
    "role",
    {
        "system": _content,
        "developer": _content,
        "user": _content,
        "assistant": {
            **_content,
            **dict.fromkeys(("refusal", "reasoning", "reasoning_content"), text),
            "reasoning_details": list_of(
                fields(
                    **dict.fromkeys(("type", "text", "summary", "data", "id", "format", "signature"), text),
                    index=number,
                )
            ),
            "thinking_blocks": _CHAT_PARTS,
            "annotations": nothing,
            "provider_specific_fields": fields(refusal=text, reasoning=text, reasoning_content=text),
            "tool_calls": list_of(
                kinds(
                    "type",
                    {
                        "function": {**_call, "function": _named_call},
                        "custom": {**_call, "custom": fields(name=text, input=text)},
                    },
                    usual="function",
                )
            ),
            "function_call": _named_call,
            "audio": nothing,
        },
        "tool": {**_content, "tool_call_id": text},
        "function": _content,
    },
)
_CHAT: Final[Listed] = {
    **_sampling,
    **dict.fromkeys(
        """top_k max_tokens max_completion_tokens n seed presence_penalty frequency_penalty repetition_penalty
        thinking_budget""".split(),
        number,
    ),
    "model": data,
    "messages": list_of(_CHAT_MESSAGES),
    "tools": list_of(
        kinds(
            "type",
            {
                "function": {"function": fields(**_function), **_cached},
                "custom": {
                    "custom": fields(
                        name=text,
                        description=text,
                        format=kinds(
                            "type", {"text": {}, "grammar": {"grammar": fields(syntax=text, definition=text)}}
                        ),
                    )
                },
            },
        )
    ),
    "tool_choice": _tool_choice,
    "stop": text_or(_texts),
    "logit_bias": map_of(number),
    "logprobs": flag,
    "response_format": kinds("type", {**_formats, "json_schema": {"json_schema": fields(**_json_schema)}}),
    "reasoning_effort": text,
    "enable_thinking": flag,
    "thinking": fields(type=text, budget_tokens=number, clear_thinking=flag),
    "prediction": fields(type=text, content=text_or(_CHAT_PARTS)),
    "vl_high_resolution_images": flag,
}


def _chat(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    _path(path, ("/v1/chat/completions",))
    _model(body.get("model"), models)
    _not_stored(body)
    _required(body, "messages")
    check_fields(body, _CHAT, "")
    if body.get("stream"):
        # Without it a provider does not say how many tokens a streamed answer used.
        body = {**body, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
    return Passed("/v1/chat/completions", body)


# ---- Anthropic messages

_anthropic_content: Final = text_or(list_of(later(lambda: _ANTHROPIC_BLOCKS)))
_media: Final = kinds(
    "type",
    {
        "base64": {"media_type": text, "data": base64_data},
        "text": {"media_type": text, "data": text},
        "content": {"content": _anthropic_content},
    },
    refused=f"an image or document {BY_REFERENCE}",
)
_citation: Final[Listed] = {
    **dict.fromkeys(("cited_text", "document_title"), text),
    **dict.fromkeys(
        """document_index start_char_index end_char_index start_page_number end_page_number start_block_index
        end_block_index""".split(),
        number,
    ),
}
_cited: Final = list_of(kinds("type", {f"{place}_location": _citation for place in ("char", "page", "content_block")}))
_ANTHROPIC_BLOCKS: Final[Form] = kinds(
    "type",
    {
        "text": {"text": text, "citations": _cited, **_cached},
        "image": {"source": _media, **_cached},
        "document": {"source": _media, "title": text, "context": text, "citations": fields(enabled=flag), **_cached},
        "tool_use": {"id": text, "name": text, "input": data, "caller": fields(type=word("direct")), **_cached},
        "tool_result": {"tool_use_id": text, "content": _anthropic_content, "is_error": flag, **_cached},
        "search_result": {
            "source": text,  # a name for citations: nobody fetches it
            "title": text,
            "content": _anthropic_content,
            "citations": fields(enabled=flag),
            **_cached,
        },
        "thinking": {"thinking": text, "signature": text},
        "redacted_thinking": {"data": text},
    },
)
_CLIENT_TOOL: Final = re.compile(r"(bash|text_editor|memory|computer)_\d{8}").fullmatch
"""Described by Anthropic, run by the client."""
_ANTHROPIC_TOOL: Final[Listed] = {
    **_client_called,
    **_cached,
    "type": text,
    "name": text,
    "description": text,
    "input_schema": schema,
    "input_examples": list_of(data),
    "eager_input_streaming": flag,
    **dict.fromkeys(("max_characters", "display_width_px", "display_height_px", "display_number"), number),
    "enable_zoom": flag,
}
_amount: Final = text_or(fields(type=text, value=number))


def _anthropic_tool(value: object, what: str) -> None:
    fields(**_ANTHROPIC_TOOL)(value, what)
    kind = value.get("type") if isinstance(value, dict) else None
    if not (kind is None or kind == "custom" or _CLIENT_TOOL(kind)):
        raise ModelRequestRefused(f"a tool of the type {safe_word(kind)}, which the provider may run")


_MESSAGES: Final[Listed] = {
    **_cached,
    **dict.fromkeys(("max_tokens", "temperature", "top_p", "top_k"), number),
    "model": data,
    "messages": list_of(fields(role=text, content=_anthropic_content)),
    "system": _anthropic_content,
    "tools": list_of(_anthropic_tool),
    "tool_choice": fields(type=text, name=text, disable_parallel_tool_use=flag),
    "stream": flag,
    "stop_sequences": _texts,
    "metadata": fields(user_id=text),
    "thinking": fields(type=text, budget_tokens=number, display=text),
    "service_tier": text,
    "output_config": fields(effort=text, format=fields(type=text, schema=schema)),
    "output_format": fields(type=text, schema=schema),
    "context_management": fields(
        edits=list_of(
            fields(
                type=text,
                trigger=_amount,
                keep=_amount,
                clear_at_least=_amount,
                exclude_tools=_texts,
                clear_tool_inputs=data,
                instructions=text,
                pause_after_compaction=flag,
            )
        )
    ),
}


def _messages(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    path = _path(path, ("/v1/messages", "/v1/messages/count_tokens"))
    _model(body.get("model"), models)
    _required(body, "messages")
    check_fields(body, _MESSAGES, "")
    return Passed(path, body, path == "/v1/messages")


# ---- Gemini

_inline: Final[Listed] = {"inlineData": fields(mimeType=text, data=base64_data, displayName=text)}
_GEMINI_PARTS: Final = list_of(
    fields(
        "a part",
        text=text,
        **_inline,
        functionCall=fields(id=text, name=text, args=data),
        functionResponse=fields(
            id=text,
            name=text,
            response=data,
            willContinue=flag,
            scheduling=text,
            parts=list_of(fields("a part", **_inline)),
        ),
        thought=flag,
        thoughtSignature=text,
        videoMetadata=fields(startOffset=text, endOffset=text, fps=number),
        mediaResolution=fields(level=text),
    )
)
_gemini_content: Final = fields(role=text, parts=_GEMINI_PARTS)
_GEMINI: Final[Listed] = {
    "contents": list_of(_gemini_content),
    "systemInstruction": text_or(_gemini_content),
    "tools": list_of(
        fields(
            "a tool that the provider runs,",
            functionDeclarations=list_of(
                fields(
                    name=text,
                    description=text,
                    behavior=text,
                    **dict.fromkeys(("parameters", "parametersJsonSchema", "response", "responseJsonSchema"), schema),
                )
            ),
        )
    ),
    "toolConfig": fields(
        functionCallingConfig=fields(mode=text, allowedFunctionNames=_texts, streamFunctionCallArguments=flag)
    ),
    "generationConfig": fields(
        **dict.fromkeys(
            """temperature topP topK candidateCount maxOutputTokens presencePenalty frequencyPenalty seed
            logprobs""".split(),
            number,
        ),
        **dict.fromkeys(("responseSchema", "responseJsonSchema", "_responseJsonSchema"), schema),
        **dict.fromkeys(("responseLogprobs", "enableEnhancedCivicAnswers", "audioTimestamp"), flag),
        stopSequences=_texts,
        responseMimeType=text,
        responseModalities=_texts,
        mediaResolution=text,
        thinkingConfig=fields(includeThoughts=flag, thinkingBudget=number, thinkingLevel=text),
    ),
    "safetySettings": list_of(fields(category=text, threshold=text, method=text)),
    "labels": map_of(text),
    "model": data,
}
_GEMINI_PATH: Final = re.compile(
    r"/v1beta/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)"
).fullmatch


def _gemini(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    match = _GEMINI_PATH(path)
    if match is None:
        raise ModelRequestRefused("this path")
    _model(match[1], models)
    for given in (body, body.get("generateContentRequest")):
        if isinstance(given, dict) and "model" in given:
            named = given["model"]
            _model(named.removeprefix("models/") if isinstance(named, str) else named, models)
    check_fields(body, {**_GEMINI, "generateContentRequest": fields(**_GEMINI)}, "")
    return Passed(path, body, match[2] != "countTokens")


_CHECKS: Final[Mapping[Protocol, Callable[[str, dict[str, Any], Collection[str]], Passed]]] = {
    "responses": _responses,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
}


def _not_stored(body: Mapping[str, Any]) -> None:
    if body.get("store"):
        raise ModelRequestRefused("state that the provider keeps (store)")


def _required(body: Mapping[str, Any], key: str) -> None:
    if body.get(key) is None:
        raise ModelRequestRefused(f"a request without {key}")


def _model(named: object, models: Collection[str]) -> None:
    if named not in models:
        raise ModelRequestRefused(
            f"the model {safe_word(named)}; this run has {', '.join(models)} (agents.NAME.models in threegate.toml)"
        )


def _path(path: str, known: tuple[str, ...]) -> str:
    if path not in known:
        raise ModelRequestRefused("this path")
    return path
