"""Recorded model traffic: `response_format_invariants` on responses, `provider_constraints` on requests.

Invariant: a response of an unknown shape is a finding, never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from threegate.contracts.compiled import Compiled
from threegate.contracts.model_tool import ResponseFormat
from threegate.contracts.tool_names import resolve

_PINNED = re.compile(r"[-@:](20\d{2}-?\d{2}-?\d{2}|\d{6}|[0-9a-f]{12,}|v\d+(\.\d+)*|\d{3,4})$")
_ANTHROPIC = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}


@dataclass(frozen=True, slots=True)
class TrafficFinding:
    """A rule that a recorded message breaks."""

    code: str
    severity: Literal["error", "warning"]
    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Plain JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Response:
    finish: tuple[str, ...]
    content: bool
    tools: tuple[str, ...]


def check_response(compiled: Compiled, value: Any) -> list[TrafficFinding]:
    """Check a response (OpenAI chat completion or Anthropic message) against the contracts of the tools it
    calls.

    A response without tool calls is checked against every contract that has `response_format_invariants`.
    """
    response = _read(value)
    if response is None:
        return [TrafficFinding("response_unknown", "error", "$", "neither a chat completion nor a message")]
    findings = [
        TrafficFinding("no_contract", "error", "tool_calls", f"no contract describes {name}")
        for name in response.tools
        if resolve(compiled.contracts, name) is None
    ]
    concerned = {name: resolve(compiled.contracts, name) for name in response.tools} or dict(
        sorted(compiled.contracts.items())
    )
    for name, contract in concerned.items():
        rules = None if contract is None else contract.response_format_invariants
        if rules is not None:
            findings.extend(_against(name, rules, response))
    return findings


def _against(tool: str, rules: ResponseFormat, response: _Response) -> list[TrafficFinding]:
    findings = []
    if rules.finish_reason is not None and rules.finish_reason not in response.finish:
        message = f"{tool}: finish_reason is not {rules.finish_reason}"
        findings.append(TrafficFinding("response_finish_reason", "error", "finish_reason", message))
    if rules.tool_calls_present is not None and rules.tool_calls_present != bool(response.tools):
        message = f"{tool}: there must be {'' if rules.tool_calls_present else 'no '}tool calls"
        findings.append(TrafficFinding("response_tool_calls", "error", "tool_calls", message))
    if rules.content_when_tool_calls == "empty" and response.tools and response.content:
        message = f"{tool}: there is text next to the tool calls"
        findings.append(TrafficFinding("response_content", "error", "content", message))
    return findings


def _read(value: Any) -> _Response | None:
    """A response in a uniform shape, or None."""
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list) and choices and all(isinstance(item, dict) for item in choices):
        messages = [item.get("message") for item in choices]
        if not all(isinstance(item, dict) for item in messages):
            return None
        listed = [item.get("tool_calls") or [] for item in messages if isinstance(item, dict)]
        if not all(isinstance(item, list) for item in listed):
            return None
        calls = [call for item in listed for call in item]
        tools = [_name(call.get("function") if isinstance(call, dict) else None) for call in calls]
        finish = {str(item.get("finish_reason")) for item in choices}
        content = any(isinstance(item, dict) and item.get("content") for item in messages)
        return _Response(tuple(finish) if len(finish) == 1 else (), content, tuple(tools))
    blocks = value.get("content")
    if isinstance(blocks, list) and "stop_reason" in value and all(isinstance(item, dict) for item in blocks):
        reason = str(value["stop_reason"])
        tools = [_name(item) for item in blocks if item.get("type") == "tool_use"]
        content = any(item.get("type") == "text" and item.get("text") for item in blocks)
        return _Response((reason, _ANTHROPIC.get(reason, reason)), content, tuple(tools))
    return None


def _name(holder: Any) -> str:
    name = holder.get("name") if isinstance(holder, dict) else None
    return name if isinstance(name, str) else "(unnamed)"


def check_request(compiled: Compiled, value: Any, provider: str) -> list[TrafficFinding]:
    """Check a request to a model provider against `provider_constraints` of every session contract."""
    found = [
        rules.contract.provider_constraints[provider]
        for _, rules in sorted(compiled.sessions.items())
        if provider in rules.contract.provider_constraints
    ]
    if not found:
        return [TrafficFinding("provider_unknown", "error", "provider", f"no constraints for {provider!r}")]
    if not isinstance(value, dict):
        return [TrafficFinding("request_unknown", "error", "$", "a request is a JSON object")]
    findings: list[TrafficFinding] = []
    for constraints in found:
        for severity, patterns in (
            ("error", constraints.block_incompatible),
            ("warning", constraints.warn_incompatible),
        ):
            findings.extend(
                TrafficFinding("provider_incompatible", severity, "$", f"{provider} does not take {pattern}")  # type: ignore[arg-type]
                for pattern in patterns
                if all(_holds(value, term.strip()) for term in pattern.split(" + "))
            )
        model = value.get("model")
        if constraints.warn_floating_alias and not (isinstance(model, str) and _PINNED.search(model)):
            message = "name a model version instead of an alias"
            findings.append(TrafficFinding("floating_alias", "warning", "$.model", message))
    return findings


def _holds(request: Mapping[str, Any], term: str) -> bool:
    """`a.b=x`: that value; `word`: the field is present and not off, or it is the model's name."""
    path, equals, wanted = term.partition("=")
    value: Any = request
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if equals:
        shown = (
            {True: "true", False: "false", None: "null"}.get(value) if isinstance(value, bool | None) else str(value)
        )
        return shown == wanted
    if value not in (None, False):
        return True
    model = request.get("model")
    return isinstance(model, str) and (model == term or model.startswith(f"{term}-20"))
