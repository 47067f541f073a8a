"""A function that runs only if the contract accepts.

Invariant: the decision is made, and recorded if a log is given, before the function is called; what cannot be
represented as JSON is refused. Positional arguments are bound to their names first.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

from threegate.aana.decision import check_tool_call, malformed, should_execute_tool
from threegate.aana.decision_log import DecisionLog, Surface
from threegate.aana.event import EvidenceMode
from threegate.core import canonical, limits
from threegate.core.errors import Refused

Function = TypeVar("Function", bound=Callable[..., Any])
Arguments = Mapping[str, Any]
Evidence = Sequence[str | Mapping[str, Any]]


class ToolCallBlocked(Refused):
    """The contract did not accept a call. ``code`` is the route, ``decision`` the whole envelope."""

    def __init__(self, decision: dict[str, Any]) -> None:
        """Keep the decision; the message names tool, route and blockers only."""
        route = decision["recommended_action"]
        why = ", ".join(decision["hard_blockers"]) or "recommended by the runtime"
        super().__init__(route, f"{decision['tool_name'] or 'tool'}: {route} ({why})")
        self.decision = decision

    def answer(self) -> dict[str, Any]:
        """What the contract's sample returns instead of the tool's result."""
        return {"blocked": True, "aana": self.decision["architecture_decision"]}


@dataclass(frozen=True)
class Gate:
    """What is known about a tool before it is called. The two callables are asked with the bound arguments."""

    tool_name: str
    tool_category: str
    risk_domain: str = "unknown"
    authorization_state: str | Callable[[Arguments], str] = "none"
    evidence_refs: Evidence | Callable[[Arguments], Evidence] = ()
    recommended_route: str = "accept"
    evidence_mode: EvidenceMode = "quickstart"
    log: DecisionLog | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    surface: Surface = "guard"

    def event(self, arguments: Arguments) -> dict[str, Any]:
        """The contract's event of a call with these arguments; tuples become arrays."""
        state, refs = self.authorization_state, self.evidence_refs
        return {
            "tool_name": self.tool_name,
            "tool_category": self.tool_category,
            "authorization_state": state(arguments) if callable(state) else state,
            "evidence_refs": _json_form(list(refs(arguments) if callable(refs) else refs)),
            "risk_domain": self.risk_domain,
            "proposed_arguments": _json_form(dict(arguments)),
            "recommended_route": self.recommended_route,
        }

    def check(self, arguments: Arguments) -> dict[str, Any]:
        """Decide on a call and write the decision down. Raises OSError when the log cannot be written."""
        event = self.event(arguments)
        return checked(event, now=self.clock(), evidence_mode=self.evidence_mode, log=self.log, surface=self.surface)

    def require(self, arguments: Arguments) -> dict[str, Any]:
        """As `check`, but raises ToolCallBlocked unless the tool may run."""
        decision = self.check(arguments)
        if not should_execute_tool(decision):
            raise ToolCallBlocked(decision)
        return decision


def checked(
    event: Any,
    *,
    now: datetime | None = None,
    evidence_mode: EvidenceMode = "quickstart",
    log: DecisionLog | None = None,
    surface: Surface = "api",
) -> dict[str, Any]:
    """`check_tool_call`, with the decision written to `log` first. Raises OSError when that fails."""
    moment = now or datetime.now(UTC)
    begun = time.perf_counter_ns()
    result = check_tool_call(event, now=moment, evidence_mode=evidence_mode)
    if log is not None:
        latency = (time.perf_counter_ns() - begun) // 1000
        log.record(event, result, surface=surface, now=moment, latency_us=latency)
    return result


def check_bytes(
    data: bytes,
    *,
    now: datetime,
    evidence_mode: EvidenceMode = "quickstart",
    log: DecisionLog | None = None,
    surface: Surface = "api",
) -> dict[str, Any]:
    """The envelope for an event as JSON bytes (strict UTF-8 JSON, at most 64 KiB). Raises OSError for the log only."""
    try:
        event = canonical.loads_strict(data, max_bytes=limits.AANA_EVENT_BYTES, max_depth=limits.AANA_EVENT_DEPTH)
    except canonical.StrictJSONError as error:
        result = malformed(None, [{"path": "", "message": f"cannot be read as JSON: {error} (D10)"}])
        if log is not None:
            log.record(None, result, surface=surface, now=now)
        return result
    return checked(event, now=now, evidence_mode=evidence_mode, log=log, surface=surface)


def guard(
    fn: Function | None = None,
    *,
    tool_category: str,
    tool_name: str | None = None,
    risk_domain: str = "unknown",
    authorization_state: str | Callable[[Arguments], str] = "none",
    evidence_refs: Evidence | Callable[[Arguments], Evidence] = (),
    recommended_route: str = "accept",
    evidence_mode: EvidenceMode = "quickstart",
    on_block: Literal["raise", "return"] = "raise",
    describe: Callable[[Arguments], Mapping[str, Any]] | None = None,
    log: DecisionLog | None = None,
    clock: Callable[[], datetime] | None = None,
) -> Any:
    """Wrap a function, sync or async, so that it runs only on accept; name, signature and docstring stay.

    `authorization_state` and `evidence_refs` may be functions of the bound arguments. `describe` turns bound
    arguments that are not JSON into an object that is. Otherwise ToolCallBlocked is raised, or with
    on_block="return" the contract's ``{"blocked": True, "aana": ...}`` is returned. Usable as ``guard(fn, ...)`` and
    as ``@guard(...)``. Raises OSError, before the function is entered, when the log cannot be written.
    """

    def wrap(function: Function) -> Function:
        gate = Gate(
            tool_name=tool_name or str(getattr(function, "__name__", type(function).__name__)),
            tool_category=tool_category,
            risk_domain=risk_domain,
            authorization_state=authorization_state,
            evidence_refs=evidence_refs,
            recommended_route=recommended_route,
            evidence_mode=evidence_mode,
            log=log,
            clock=clock or (lambda: datetime.now(UTC)),
        )
        signature = inspect.signature(function)

        def blocked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
            arguments: Arguments = bind(signature, args, kwargs)
            try:
                gate.require(arguments if describe is None else describe(arguments))
            except ToolCallBlocked as error:
                if on_block == "raise":
                    raise
                return error.answer()
            return None

        return gated(function, blocked)

    return wrap if fn is None else wrap(fn)


def gated(function: Function, blocked: Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]) -> Function:
    """The function, sync or async, called only if `blocked` returns None for its arguments; that result otherwise."""
    if _is_async(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            answer = blocked(args, kwargs)
            return await function(*args, **kwargs) if answer is None else answer

        return cast(Function, asynchronous)

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        answer = blocked(args, kwargs)
        return function(*args, **kwargs) if answer is None else answer

    return cast(Function, synchronous)


def bind(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, defaults included; a method's `self` or `cls` left out.

    Extra keyword arguments are listed under their own names. Raises TypeError as the call itself would.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named: dict[str, Any] = {}
    for index, (name, value) in enumerate(bound.arguments.items()):
        kind = signature.parameters[name].kind
        if index == 0 and name in ("self", "cls") and kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update({(f"{name}.{key}" if key in named else key): item for key, item in value.items()})
        else:
            named[name] = value
    return named


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the coroutine may be in the type's __call__
    )


def _json_form(value: Any, depth: int = 0) -> Any:
    """A copy with tuples and mappings as JSON has them; anything else is left for the gate to refuse."""
    if depth > 100:
        return value
    if isinstance(value, Mapping):
        return {key: _json_form(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_form(item, depth + 1) for item in value]
    return value
