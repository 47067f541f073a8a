"""What an agent may ask of its model's provider, for each protocol: every field of every kind with its form.

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
    Listed,
    ModelRequestRefused,
    base64_data,
    check_fields,
    data,
    each,
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


def check_request(protocol: Protocol, path: str, body: object, models: Collection[str]) -> Passed:
    """Check one POST of an agent to `path`. Raises ModelRequestRefused."""
    if not isinstance(body, dict):
        raise ModelRequestRefused("a body that is not a JSON object")
    known, check = _PROTOCOLS[protocol]
    match = known.fullmatch(path)
    if match is None:
        raise ModelRequestRefused("this path")
    return check(match, body, models)


_texts: Final = list_of(text)
_cached: Final[Listed] = {"cache_control": fields(each(text, "type ttl scope"))}
_breakpoint: Final[Listed] = {"prompt_cache_breakpoint": fields(each(text, "mode ttl"))}
_direct: Final = word("direct")  # another caller is a program that the provider runs
_client_called: Final[Listed] = {**each(flag, "strict defer_loading"), "allowed_callers": list_of(_direct)}
_json_schema: Final[Listed] = {**each(text, "name description"), "schema": schema, "strict": flag}
_formats: Final[Mapping[str, Listed]] = {"text": {}, "json_object": {}}
_grammar: Final = each(text, "syntax definition")
_image: Final = f"an image {BY_REFERENCE}"
_file: Final = f"a file {BY_REFERENCE}"


# ---- OpenAI: what both protocols have

_sampling: Final[Listed] = {
    **each(number, "temperature top_p top_logprobs"),
    **each(text, "user service_tier prompt_cache_key prompt_cache_retention safety_identifier verbosity"),
    **each(flag, "parallel_tool_calls stream store"),
    "model": data,
    "stream_options": fields(each(flag, "include_usage include_obfuscation")),
    "metadata": map_of(text),
}
_audio: Final = fields({"data": base64_data, "format": text})
_choice: Final[Listed] = {
    **each(text, "name mode"),
    **each(fields({"name": text}), "function custom"),
    "type": word("function", "custom", "local_shell", "apply_patch", "allowed_tools"),
}
_chosen: Final[Listed] = {"mode": text, "tools": list_of(fields(_choice))}
_tool_choice: Final = text_or(fields({**_choice, "tools": _chosen["tools"], "allowed_tools": fields(_chosen)}))
_logprob: Final[Listed] = {"token": text, "bytes": list_of(number), "logprob": number}
_function: Final[Listed] = {
    **_client_called,
    **each(text, "name description"),
    **each(schema, "parameters output_schema"),
    "async": flag,
}


# ---- OpenAI responses

_RESPONSES_PARTS: Final = list_of(
    kinds(
        "type",
        {
            "input_text": {"text": text, **_breakpoint},
            "output_text": {
                "text": text,
                "annotations": nothing,  # citations of searches and files of the provider, which are refused
                "logprobs": list_of(fields({**_logprob, "top_logprobs": list_of(fields(_logprob))})),
            },
            "text": {"text": text},
            "summary_text": {"text": text},
            "reasoning_text": {"text": text},
            "refusal": {"refusal": text},
            "input_image": {"image_url": image_url, "detail": text, **_breakpoint},
            "input_file": {"file_data": base64_data, **each(text, "filename detail"), **_breakpoint},
            "input_audio": {"input_audio": _audio},
        },
    )
)
_called: Final[Listed] = {
    **each(text, "id call_id status name namespace"),
    "caller": fields({"type": _direct}),
    "async": flag,
}
_shell_action: Final = fields(
    {
        "type": word("exec"),
        "command": _texts,
        "env": map_of(text),
        "timeout_ms": number,
        **each(text, "user working_directory"),
    }
)
_RESPONSES_ITEMS: Final = kinds(
    "type",
    {
        "message": {**each(text, "role id status phase"), "content": text_or(_RESPONSES_PARTS)},
        "reasoning": {**each(text, "id status encrypted_content"), **each(_RESPONSES_PARTS, "summary content")},
        "function_call": {**_called, "arguments": text},
        "function_call_output": {**_called, "output": text_or(_RESPONSES_PARTS)},
        "custom_tool_call": {**_called, "input": text},
        "custom_tool_call_output": {**_called, "output": text_or(_RESPONSES_PARTS)},
        "local_shell_call": {**_called, "action": _shell_action},
        "local_shell_call_output": {**_called, "output": text},
        "apply_patch_call": {**_called, "operation": fields(each(text, "type path diff"))},
        "apply_patch_call_output": {**_called, "output": text},
        "compaction": each(text, "id encrypted_content"),
    },
    usual="message",
)
_CLIENT_TOOLS: Final[Mapping[str, Listed]] = {
    "function": _function,
    "custom": {
        **_client_called,
        **each(text, "name description"),
        "format": kinds("type", {"text": {}, "grammar": _grammar}),
        "async": flag,
    },
    "local_shell": {},
    "apply_patch": _client_called,
}
"""Run by the client."""
_NAMESPACE: Final[Listed] = {**each(text, "name description"), "tools": list_of(kinds("type", _CLIENT_TOOLS))}
_RESPONSES: Final[Listed] = {
    **_sampling,
    **each(text, "instructions truncation"),
    **each(number, "max_output_tokens max_tool_calls"),
    "input": text_or(list_of(_RESPONSES_ITEMS)),
    "tools": list_of(kinds("type", {**_CLIENT_TOOLS, "namespace": _NAMESPACE})),
    "tool_choice": _tool_choice,
    "reasoning": fields(each(text, "effort summary generate_summary context mode")),
    "include": list_of(word("reasoning.encrypted_content", "message.output_text.logprobs")),
    "text": fields({"format": kinds("type", {**_formats, "json_schema": _json_schema}), "verbosity": text}),
    "client_metadata": map_of(text),
}


def _responses(match: re.Match[str], body: dict[str, Any], models: Collection[str]) -> Passed:
    _refuse_model(body.get("model"), models)
    _refuse_stored(body)
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
    return Passed(match[0], {**body, "store": False})  # the provider stores an answer unless it is told not to


# ---- OpenAI chat completions

_marked: Final[Listed] = {**_cached, **_breakpoint}
_url_of_image: Final = object_or(image_url, fields({"url": image_url, "detail": text}, _image))
_CHAT_PARTS: Final = list_of(
    kinds(
        "type",
        {
            "text": {"text": text, **_marked},
            "refusal": {"refusal": text},
            "thinking": each(text, "thinking signature"),
            "image_url": {"image_url": _url_of_image, **_marked},
            "file": {"file": fields({"file_data": base64_data, "filename": text}, _file), **_marked},
            "input_audio": {"input_audio": _audio, **_breakpoint},
        },
    )
)
_content: Final[Listed] = {"content": text_or(_CHAT_PARTS), "name": text, **_cached}
_call: Final[Listed] = {
    "id": text,
    "index": number,
    "extra_content": fields({"google": fields({"thought_signature": text})}),
}
_named_call: Final = fields(each(text, "name arguments"))
_CHAT_CALLS: Final = kinds(
    "type",
    {
        "function": {**_call, "function": _named_call},
        "custom": {**_call, "custom": fields(each(text, "name input"))},
    },
    usual="function",
)
_CHAT_MESSAGES: Final = kinds(
    "role",
    {
        **dict.fromkeys(("system", "developer", "user", "function"), _content),
        "assistant": {
            **_content,
            **each(text, "refusal reasoning reasoning_content"),
            "reasoning_details": list_of(
                fields({**each(text, "type text summary data id format signature"), "index": number})
            ),
            "thinking_blocks": _CHAT_PARTS,
            **each(nothing, "annotations audio"),
            "provider_specific_fields": fields(each(text, "refusal reasoning reasoning_content")),
            "tool_calls": list_of(_CHAT_CALLS),
            "function_call": _named_call,
        },
        "tool": {**_content, "tool_call_id": text},
    },
)
_CHAT_TOOLS: Final = kinds(
    "type",
    {
        "function": {"function": fields(_function), **_cached},
        "custom": {
            "custom": fields(
                {
                    **each(text, "name description"),
                    "format": kinds("type", {"text": {}, "grammar": {"grammar": fields(_grammar)}}),
                }
            )
        },
    },
)
_CHAT: Final[Listed] = {
    **_sampling,
    **each(number, "top_k max_tokens max_completion_tokens n seed presence_penalty frequency_penalty"),
    **each(number, "repetition_penalty thinking_budget"),
    **each(flag, "logprobs enable_thinking vl_high_resolution_images"),
    "messages": list_of(_CHAT_MESSAGES),
    "tools": list_of(_CHAT_TOOLS),
    "tool_choice": _tool_choice,
    "stop": text_or(_texts),
    "logit_bias": map_of(number),
    "response_format": kinds("type", {**_formats, "json_schema": {"json_schema": fields(_json_schema)}}),
    "reasoning_effort": text,
    "thinking": fields({"type": text, "budget_tokens": number, "clear_thinking": flag}),
    "prediction": fields({"type": text, "content": text_or(_CHAT_PARTS)}),
}


def _chat(match: re.Match[str], body: dict[str, Any], models: Collection[str]) -> Passed:
    _refuse_model(body.get("model"), models)
    _refuse_stored(body)
    _require_messages(body)
    check_fields(body, _CHAT, "")
    if body.get("stream"):
        # Without it a provider does not say how many tokens a streamed answer used.
        body = {**body, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
    return Passed(match[0], body)


# ---- Anthropic messages

_anthropic_content: Final = text_or(list_of(later(lambda: _ANTHROPIC_BLOCKS)))
_media: Final = kinds(
    "type",
    {
        "base64": {"media_type": text, "data": base64_data},
        "text": each(text, "media_type data"),
        "content": {"content": _anthropic_content},
    },
    refused=f"an image or document {BY_REFERENCE}",
)
_citation: Final[Listed] = {
    **each(text, "cited_text document_title"),
    **each(number, "document_index start_char_index end_char_index start_page_number end_page_number"),
    **each(number, "start_block_index end_block_index"),
}
_cited: Final = list_of(kinds("type", {f"{place}_location": _citation for place in ("char", "page", "content_block")}))
_citing: Final[Listed] = {"title": text, "citations": fields({"enabled": flag}), **_cached}
_ANTHROPIC_BLOCKS: Final[Form] = kinds(
    "type",
    {
        "text": {"text": text, "citations": _cited, **_cached},
        "image": {"source": _media, **_cached},
        "document": {"source": _media, "context": text, **_citing},
        "tool_use": {**each(text, "id name"), "input": data, "caller": fields({"type": _direct}), **_cached},
        "tool_result": {"tool_use_id": text, "content": _anthropic_content, "is_error": flag, **_cached},
        # The source of a search result is a name for citations: nobody fetches it.
        "search_result": {"source": text, "content": _anthropic_content, **_citing},
        "thinking": each(text, "thinking signature"),
        "redacted_thinking": {"data": text},
    },
)
_CLIENT_TOOL: Final = re.compile(r"(bash|text_editor|memory|computer)_\d{8}").fullmatch
"""Described by Anthropic, run by the client."""
_ANTHROPIC_TOOL: Final = fields(
    {
        **_client_called,
        **_cached,
        **each(text, "type name description"),
        **each(number, "max_characters display_width_px display_height_px display_number"),
        **each(flag, "eager_input_streaming enable_zoom"),
        "input_schema": schema,
        "input_examples": list_of(data),
    }
)
_amount: Final = text_or(fields({"type": text, "value": number}))
_EDIT: Final = fields(
    {
        **each(text, "type instructions"),
        **each(_amount, "trigger keep clear_at_least"),
        "exclude_tools": _texts,
        "clear_tool_inputs": data,
        "pause_after_compaction": flag,
    }
)


def _anthropic_tool(value: object, what: str) -> None:
    _ANTHROPIC_TOOL(value, what)
    kind = value.get("type") if isinstance(value, dict) else None
    if not (kind is None or kind == "custom" or _CLIENT_TOOL(kind)):
        raise ModelRequestRefused(f"a tool of the type {safe_word(kind)}, which the provider may run")


_MESSAGES: Final[Listed] = {
    **_cached,
    **each(number, "max_tokens temperature top_p top_k"),
    "model": data,
    "messages": list_of(fields({"role": text, "content": _anthropic_content})),
    "system": _anthropic_content,
    "tools": list_of(_anthropic_tool),
    "tool_choice": fields({**each(text, "type name"), "disable_parallel_tool_use": flag}),
    "stream": flag,
    "stop_sequences": _texts,
    "metadata": fields({"user_id": text}),
    "thinking": fields({**each(text, "type display"), "budget_tokens": number}),
    "service_tier": text,
    "output_config": fields({"effort": text, "format": fields({"type": text, "schema": schema})}),
    "output_format": fields({"type": text, "schema": schema}),
    "context_management": fields({"edits": list_of(_EDIT)}),
}


def _messages(match: re.Match[str], body: dict[str, Any], models: Collection[str]) -> Passed:
    _refuse_model(body.get("model"), models)
    _require_messages(body)
    check_fields(body, _MESSAGES, "")
    return Passed(match[0], body, not match[1])


# ---- Gemini

_inline: Final[Listed] = {
    "inlineData": fields({"data": base64_data, **each(text, "mimeType displayName")}),
}
_function_response: Final = fields(
    {
        **each(text, "id name scheduling"),
        "response": data,
        "willContinue": flag,
        "parts": list_of(fields(_inline, "a part")),
    }
)
_GEMINI_PARTS: Final = list_of(
    fields(
        {
            **_inline,
            **each(text, "text thoughtSignature"),
            "functionCall": fields({**each(text, "id name"), "args": data}),
            "functionResponse": _function_response,
            "thought": flag,
            "videoMetadata": fields({**each(text, "startOffset endOffset"), "fps": number}),
            "mediaResolution": fields({"level": text}),
        },
        "a part",
    )
)
_gemini_content: Final = fields({"role": text, "parts": _GEMINI_PARTS})
_declaration: Final = fields(
    {
        **each(text, "name description behavior"),
        **each(schema, "parameters parametersJsonSchema response responseJsonSchema"),
    }
)
_calling: Final = fields(
    {"mode": text, "allowedFunctionNames": _texts, "streamFunctionCallArguments": flag},
)
_generation: Final = fields(
    {
        **each(number, "temperature topP topK candidateCount maxOutputTokens presencePenalty frequencyPenalty"),
        **each(number, "seed logprobs"),
        **each(schema, "responseSchema responseJsonSchema _responseJsonSchema"),
        **each(flag, "responseLogprobs enableEnhancedCivicAnswers audioTimestamp"),
        **each(text, "responseMimeType mediaResolution"),
        **each(_texts, "stopSequences responseModalities"),
        "thinkingConfig": fields({"includeThoughts": flag, "thinkingBudget": number, "thinkingLevel": text}),
    }
)
_GEMINI: Final[Listed] = {
    "contents": list_of(_gemini_content),
    "systemInstruction": text_or(_gemini_content),
    "tools": list_of(
        fields({"functionDeclarations": list_of(_declaration)}, "a tool that the provider runs,"),
    ),
    "toolConfig": fields({"functionCallingConfig": _calling}),
    "generationConfig": _generation,
    "safetySettings": list_of(fields(each(text, "category threshold method"))),
    "labels": map_of(text),
    "model": data,
}


def _gemini(match: re.Match[str], body: dict[str, Any], models: Collection[str]) -> Passed:
    _refuse_model(match[1], models)
    for given in (body, body.get("generateContentRequest")):
        if isinstance(given, dict) and "model" in given:
            named = given["model"]
            _refuse_model(named.removeprefix("models/") if isinstance(named, str) else named, models)
    check_fields(body, {**_GEMINI, "generateContentRequest": fields(_GEMINI)}, "")
    return Passed(match[0], body, match[2] != "countTokens")


_Check = Callable[[re.Match[str], dict[str, Any], Collection[str]], Passed]
_PROTOCOLS: Final[Mapping[Protocol, tuple[re.Pattern[str], _Check]]] = {
    "responses": (re.compile("/v1/responses"), _responses),
    "chat": (re.compile("/v1/chat/completions"), _chat),
    "messages": (re.compile("/v1/messages(/count_tokens)?"), _messages),
    "gemini": (
        re.compile(r"/v1beta/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)"),
        _gemini,
    ),
}
"""The paths of each protocol, and what checks a body."""


def _refuse_stored(body: Mapping[str, Any]) -> None:
    if body.get("store"):
        raise ModelRequestRefused("state that the provider keeps (store)")


def _require_messages(body: Mapping[str, Any]) -> None:
    if body.get("messages") is None:
        raise ModelRequestRefused("a request without messages")


def _refuse_model(named: object, models: Collection[str]) -> None:
    if named not in models:
        raise ModelRequestRefused(
            f"the model {safe_word(named)}; this run has {', '.join(models)} (agents.NAME.models in threegate.toml)"
        )
