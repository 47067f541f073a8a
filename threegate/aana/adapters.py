"""The gate in front of agent frameworks' tools. No framework is imported: their tools are recognized by their
shape.

Invariant: every way in which a framework can run a tool goes through the gate, or the tool is refused here
(TypeError) before any agent has it. The framework's own tool object is never changed; a guarded copy is
returned.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from threegate.aana.guard import Gate, bind, gated
from threegate.core import canonical, limits

Handler = Callable[..., Awaitable[Any]]


def guard_langchain_tool(tool: Any, gate: Gate) -> Any:
    """A copy of a LangChain `StructuredTool` (or `Tool`) whose function and coroutine run only on accept.

    The gate sees the validated arguments by name. Raises TypeError for a tool without `func` or `coroutine`
    (a subclass with its own `_run`): wrap what that calls with `aana.guard`.
    """
    function, coroutine = getattr(tool, "func", None), getattr(tool, "coroutine", None)
    if not hasattr(tool, "model_copy") or (function is None and coroutine is None):
        raise TypeError("the tool has neither func nor coroutine; use aana.guard on the function it calls")
    update: dict[str, Any] = {}
    if function is not None:
        update["func"] = _guarded(function, gate)
    if coroutine is not None:
        update["coroutine"] = _guarded(coroutine, gate)
    return tool.model_copy(update=update)


def guard_openai_tool(tool: Any, gate: Gate) -> Any:
    """A copy of an OpenAI Agents SDK `FunctionTool` whose `on_invoke_tool` runs only on accept.

    The gate sees the JSON arguments that the model wrote; arguments that are not a JSON object are refused. A
    refusal is raised as ToolCallBlocked, which the SDK hands to the run. Raises TypeError for other tools.
    """
    invoke = getattr(tool, "on_invoke_tool", None)
    if not callable(invoke):
        raise TypeError("the tool has no on_invoke_tool; only function tools run here")

    async def guarded(context: Any, arguments: str) -> Any:
        gate.require(_object_of(arguments))
        return await invoke(context, arguments)

    guarded_tool = copy.copy(tool)
    guarded_tool.on_invoke_tool = guarded
    return guarded_tool


def guard_mcp_handler(handler: Handler, gates: Mapping[str, Gate]) -> Handler:
    """An MCP ``tools/call`` handler ``(context, params)`` that passes on only accepted calls.

    `gates` holds one gate for each tool; the call's own name is in the event. A tool without a gate is
    checked as category `unknown`, so it never runs. Raises ToolCallBlocked.
    """

    async def guarded(context: Any, params: Any) -> Any:
        name = params.name
        gate = gates.get(name) or Gate(tool_name=name, tool_category="unknown")
        replace(gate, tool_name=name).require(params.arguments or {})
        return await handler(context, params)

    return guarded


def _guarded(function: Callable[..., Any], gate: Gate) -> Callable[..., Any]:
    """A function of the framework with the gate in front; what the framework injects is not shown to the gate."""
    signature = inspect.signature(function)
    injected = {
        name
        for name, parameter in signature.parameters.items()
        if any(mark in str(parameter.annotation) for mark in _INJECTED)
    }

    def require(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments = bind(signature, args, kwargs)
        gate.require({key: value for key, value in arguments.items() if key not in injected})

    return gated(function, require)


# Annotations of what LangChain passes besides the tool's own arguments.
_INJECTED = ("RunnableConfig", "CallbackManager", "Callbacks")


def _object_of(text: str) -> dict[str, Any]:
    """The arguments that a model wrote. Anything that is not a strict JSON object becomes one that the gate
    refuses.

    Strict, because the tool parses the same text with its own parser, for which a duplicate key could have
    another value.
    """
    try:
        value = canonical.loads_strict(
            (text or "{}").encode(), max_bytes=limits.AANA_EVENT_BYTES, max_depth=limits.AANA_EVENT_DEPTH
        )
    except (canonical.StrictJSONError, UnicodeEncodeError):
        value = None
    return value if isinstance(value, dict) else {"arguments": float("nan")}
