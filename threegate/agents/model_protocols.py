"""What an agent may ask of its model's provider, for each protocol: an allowlist of keys and kinds, and
nothing that reaches out.

Invariant: a request that passes makes the provider compute an answer from the bytes of the request. It names
no tool that the provider runs, no MCP server, no URL or file id for the provider to fetch, no state that the
provider keeps, and no model but the profile's. Anything not listed here is refused, with a line that names
it.

Sources: OpenAI API reference (responses, chat completions), Anthropic Messages API, Gemini `generateContent`,
as of 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from threegate.agents.profile import Protocol


class ModelRequestRefused(Exception):
    """The request is not sent to the provider; the text says which part was refused. It never repeats a
    value.
    """


@dataclass(frozen=True, slots=True)
class Passed:
    """An accepted request: path and body for the provider. The body is rebuilt from what was parsed."""

    path: str
    body: dict[str, Any]


_RESPONSES_KEYS: Final = frozenset(
    """model instructions input tools tool_choice parallel_tool_calls reasoning store stream
    stream_options include text prompt_cache_key prompt_cache_retention max_output_tokens max_tool_calls
    temperature top_p top_logprobs truncation metadata client_metadata service_tier safety_identifier user""".split()
)
_RESPONSES_ITEMS: Final = frozenset(
    """message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call
    local_shell_call_output apply_patch_call apply_patch_call_output compaction""".split()
)
_RESPONSES_TOOLS: Final = frozenset(("function", "custom", "local_shell", "apply_patch", "namespace"))
"""Run by the client. A namespace is a list of them, under a name."""
_CHAT_KEYS: Final = frozenset(
    """model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p top_k
    max_tokens max_completion_tokens stop n seed presence_penalty frequency_penalty repetition_penalty
    logit_bias logprobs top_logprobs response_format reasoning_effort verbosity store metadata user
    service_tier prompt_cache_key prompt_cache_retention safety_identifier enable_thinking thinking_budget
    thinking prediction vl_high_resolution_images""".split()
)
_CHAT_TOOLS: Final = frozenset(("function", "custom"))
_MESSAGES_KEYS: Final = frozenset(
    """model messages system tools tool_choice stream max_tokens temperature top_p top_k stop_sequences
    metadata thinking service_tier output_config output_format context_management cache_control""".split()
)
_MESSAGES_TOOLS: Final = re.compile(r"custom|(bash|text_editor|memory|computer)_\d{8}").fullmatch
_GEMINI_KEYS: Final = frozenset(
    "contents tools toolConfig systemInstruction generationConfig safetySettings labels generateContentRequest model".split()  # noqa: E501
)
_GEMINI_PARTS: Final = frozenset(
    "text inlineData functionCall functionResponse thought thoughtSignature videoMetadata".split()
)
_GEMINI_PATH: Final = re.compile(
    r"/v1beta/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)"
).fullmatch


def check_request(protocol: Protocol, path: str, body: object, models: Collection[str]) -> Passed:
    """Check one POST of an agent to `path`. Raises ModelRequestRefused."""
    if not isinstance(body, dict):
        raise ModelRequestRefused("a body that is not a JSON object")
    return _CHECKS[protocol](path, body, models)


def _responses(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    _path(path, ("/v1/responses",))
    _keys(body, _RESPONSES_KEYS, "the request")
    _model(body.get("model"), models)
    _not_stored(body)
    _tools(body, lambda kind: kind in _RESPONSES_TOOLS)
    for space in body.get("tools") or []:
        if space.get("type") == "namespace":
            _tools(space, lambda kind: kind in _RESPONSES_TOOLS - {"namespace"})
    given = body.get("input", "")
    for item in [] if isinstance(given, str) else _objects(given, "input"):
        kind = item.get("type", "message")
        if kind not in _RESPONSES_ITEMS:
            raise ModelRequestRefused(f"input of the type {_word(kind)}")
        for key in ("content", "output"):
            _openai_parts(item.get(key))
    return Passed("/v1/responses", {**body, "store": False})


def _chat(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    _path(path, ("/v1/chat/completions",))
    _keys(body, _CHAT_KEYS, "the request")
    _model(body.get("model"), models)
    _not_stored(body)
    _tools(body, lambda kind: kind in _CHAT_TOOLS)
    for message in _objects(body.get("messages"), "messages"):
        if "audio" in message and message["audio"] is not None:
            raise ModelRequestRefused("audio that the provider keeps")
        _openai_parts(message.get("content"))
    return Passed("/v1/chat/completions", body)


def _messages(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    path = _path(path, ("/v1/messages", "/v1/messages/count_tokens"))
    _keys(body, _MESSAGES_KEYS, "the request")
    _model(body.get("model"), models)
    _tools(body, lambda kind: kind is None or (isinstance(kind, str) and _MESSAGES_TOOLS(kind) is not None))
    _anthropic_blocks(body.get("system"))
    for message in _objects(body.get("messages"), "messages"):
        _anthropic_blocks(message.get("content"))
    return Passed(path, body)


def _gemini(path: str, body: dict[str, Any], models: Collection[str]) -> Passed:
    match = _GEMINI_PATH(path)
    if match is None:
        raise ModelRequestRefused("this path")
    _model(match[1], models)
    _keys(body, _GEMINI_KEYS, "the request")
    inner = body.get("generateContentRequest")
    if inner is not None:
        if not isinstance(inner, dict) or "generateContentRequest" in inner:
            raise ModelRequestRefused("generateContentRequest of this form")
        _gemini_body(inner, models)
    _gemini_body(body, models)
    return Passed(path, body)


def _gemini_body(body: Mapping[str, Any], models: Collection[str]) -> None:
    _keys(body, _GEMINI_KEYS, "the request")
    if "model" in body:
        named = body["model"]
        _model(named.removeprefix("models/") if isinstance(named, str) else named, models)
    for tool in _objects(body.get("tools") or [], "tools"):
        _keys(tool, frozenset(("functionDeclarations",)), "a tool that the provider runs,")
    if isinstance(body.get("systemInstruction"), dict):
        _gemini_parts(body["systemInstruction"])
    elif body.get("systemInstruction") is not None and not isinstance(body["systemInstruction"], str):
        raise ModelRequestRefused("systemInstruction of this form")
    for content in _objects(body.get("contents") or [], "contents"):
        _gemini_parts(content)


def _gemini_parts(content: Mapping[str, Any]) -> None:
    for part in _objects(content.get("parts") or [], "parts"):
        _keys(part, _GEMINI_PARTS, "a part")
        answer = part.get("functionResponse")
        if isinstance(answer, dict) and answer.get("parts") is not None:
            _gemini_parts(answer)


_CHECKS: Final[Mapping[Protocol, Callable[[str, dict[str, Any], Collection[str]], Passed]]] = {
    "responses": _responses,
    "chat": _chat,
    "messages": _messages,
    "gemini": _gemini,
}


# ---- parts of requests


def _openai_parts(content: object) -> None:
    """Content in OpenAI's protocols: a text, or parts that contain their bytes."""
    if content is None or isinstance(content, str):
        return
    for part in _objects(content, "content"):
        kind = part.get("type")
        if kind in ("input_image", "image_url"):
            place = part.get("image_url")
            place = place.get("url") if isinstance(place, dict) else place
            if part.get("file_id") is not None or not isinstance(place, str) or not place.startswith("data:"):
                raise ModelRequestRefused("an image by URL or file id")
        elif kind in ("input_file", "file"):
            inner = part.get("file", part)
            if not isinstance(inner, dict) or not {"file_id", "file_url"}.isdisjoint(inner):
                raise ModelRequestRefused("a file by URL or file id")
        elif kind not in (
            "text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", "input_audio", "thinking"
        ):  # fmt: skip
            raise ModelRequestRefused(f"content of the type {_word(kind)}")


def _anthropic_blocks(content: object) -> None:
    if content is None or isinstance(content, str):
        return
    for block in _objects(content, "content"):
        kind = block.get("type")
        if kind in ("image", "document"):
            source = block.get("source")
            if not isinstance(source, dict) or source.get("type") not in ("base64", "text", "content"):
                raise ModelRequestRefused("an image or document by URL or file id")
            if source.get("type") == "content":
                _anthropic_blocks(source.get("content"))
        elif kind in ("tool_result", "search_result"):
            _anthropic_blocks(block.get("content"))
        elif kind not in ("text", "tool_use", "thinking", "redacted_thinking"):
            raise ModelRequestRefused(f"content of the type {_word(kind)}")


def _tools(body: Mapping[str, Any], known: Callable[[object], bool]) -> None:
    for tool in _objects(body.get("tools") or [], "tools"):
        if not known(tool.get("type")):
            raise ModelRequestRefused(f"a tool of the type {_word(tool.get('type'))}, which the provider may run")


def _not_stored(body: Mapping[str, Any]) -> None:
    if body.get("store"):
        raise ModelRequestRefused("state that the provider keeps (store)")


def _model(named: object, models: Collection[str]) -> None:
    if named not in models:
        raise ModelRequestRefused(
            f"the model {_word(named)}; this run has {', '.join(models)} (agents.NAME.models in threegate.toml)"
        )


def _path(path: str, known: tuple[str, ...]) -> str:
    if path not in known:
        raise ModelRequestRefused("this path")
    return path


def _keys(value: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Refuse keys that are not listed; a key without a value is ignored."""
    surplus = [key for key in value if key not in known and value[key] is not None]
    if surplus:
        raise ModelRequestRefused(f"{what} with the key {_word(surplus[0])}")


def _objects(value: object, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ModelRequestRefused(f"{what} of this form")
    return value


def _word(value: object) -> str:
    """A name from the agent, cut so that it fits into a line and hides nothing."""
    text = value if isinstance(value, str) else type(value).__name__
    return re.sub(r"[^A-Za-z0-9._/:-]", "?", text)[:64] or "(none)"
