"""A guarded function runs on accept only, and looks and behaves like itself."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from threegate import aana
from threegate.core.errors import Refused

NOW = datetime(2026, 5, 10, tzinfo=UTC)
CONFIRMED = aana.tool_evidence_ref(
    source_id="approval.1",
    kind="approval",
    trust_tier="verified",
    redaction_status="redacted",
    freshness="fresh",
    summary="User explicitly confirmed it.",
    supports=["send_note", "Tool", "send", "post"],
)
AS_CONFIRMED: dict[str, Any] = {
    "tool_category": "write",
    "authorization_state": "confirmed",
    "evidence_refs": [CONFIRMED],
}


class Calls(list[Any]):
    """What a tool did."""


def tool(calls: Calls) -> Any:
    def send_note(to: str, /, body: str = "hello", *rest: int, urgent: bool = False, **extra: Any) -> str:
        """Send a note."""
        calls.append((to, body, rest, urgent, extra))
        return f"sent to {to}"

    return send_note


def test_refused_before_any_side_effect() -> None:
    calls = Calls()
    guarded = aana.guard(tool(calls), tool_category="write")
    with pytest.raises(aana.ToolCallBlocked) as caught:
        guarded("ann")
    assert calls == []
    assert isinstance(caught.value, Refused) and caught.value.code == "defer"
    assert caught.value.decision["hard_blockers"][0] == "high_risk_write_missing_explicit_confirmation"
    assert str(caught.value).startswith("send_note: defer (high_risk_write_missing_explicit_confirmation, ")


def test_runs_on_accept_with_its_own_arguments() -> None:
    calls = Calls()
    guarded = aana.guard(tool(calls), **AS_CONFIRMED)
    assert guarded("ann", "hi", 1, 2, urgent=True, colour="red") == "sent to ann"
    assert calls == [("ann", "hi", (1, 2), True, {"colour": "red"})]


def test_keeps_name_signature_and_docstring() -> None:
    function = tool(Calls())
    guarded = aana.guard(function, **AS_CONFIRMED)
    assert guarded.__name__ == "send_note" and guarded.__doc__ == "Send a note."
    assert inspect.signature(guarded) == inspect.signature(function)


def test_positional_arguments_are_bound_to_names_before_it_asks() -> None:
    seen: list[Any] = []

    def refs(arguments: Any) -> list[Any]:
        seen.append(dict(arguments))
        return [CONFIRMED]

    guarded = aana.guard(
        tool(Calls()), tool_category="write", authorization_state=lambda _: "confirmed", evidence_refs=refs
    )
    guarded("ann", "hi", 7, body2="x", to="shadow")
    assert seen == [{"to": "ann", "body": "hi", "rest": (7,), "urgent": False, "body2": "x", "extra.to": "shadow"}]


def test_an_identity_bound_argument_counts_when_it_is_positional() -> None:
    @aana.guard(tool_category="public_read")
    def read_page(email: str) -> str:
        return "secret page"

    with pytest.raises(aana.ToolCallBlocked, match="public_read_identity_bound_misclassified"):
        read_page("x")


def test_a_wrong_call_is_a_type_error_as_always() -> None:
    with pytest.raises(TypeError):
        aana.guard(tool(Calls()), **AS_CONFIRMED)()


def test_async_functions_stay_async() -> None:
    calls = Calls()

    @aana.guard(**AS_CONFIRMED)
    async def send(to: str) -> str:
        calls.append(to)
        return "sent"

    @aana.guard(tool_category="unknown", on_block="return")
    async def never(to: str) -> str:
        calls.append("never")
        return "sent"

    assert inspect.iscoroutinefunction(send)
    assert asyncio.run(send("ann")) == "sent"
    answer = asyncio.run(never("ann"))
    assert answer["blocked"] and answer["aana"]["route"] == "defer"
    assert calls == ["ann"]


def test_objects_with_an_async_call_are_awaited_too() -> None:
    class Tool:
        async def __call__(self, to: str) -> str:
            return f"sent to {to}"

    guarded = aana.guard(Tool(), **AS_CONFIRMED)
    assert asyncio.run(guarded("ann")) == "sent to ann"


def test_methods_do_not_show_self() -> None:
    class Mailer:
        @aana.guard(**AS_CONFIRMED)
        def send(self, to: str) -> str:
            return f"{type(self).__name__} to {to}"

        @classmethod
        @aana.guard(**AS_CONFIRMED)
        def post(cls, to: str) -> str:
            return f"{cls.__name__} posts to {to}"

    assert Mailer().send("ann") == "Mailer to ann"
    assert Mailer.post("ann") == "Mailer posts to ann"


def test_a_partial_is_named_by_its_type_and_can_be_named() -> None:
    guarded = aana.guard(functools.partial(tool(Calls()), "ann"), tool_category="unknown", on_block="return")
    assert guarded()["aana"]["route"] == "defer"
    gate = aana.guard(functools.partial(tool(Calls()), "ann"), tool_name="delete_all", tool_category="public_read")
    with pytest.raises(aana.ToolCallBlocked, match="delete_all: defer"):
        gate()


def test_what_is_no_json_is_refused_unless_described() -> None:
    calls = Calls()
    guarded = aana.guard(tool(calls), **AS_CONFIRMED)
    with pytest.raises(aana.ToolCallBlocked, match="contract_normalization_failed"):
        guarded(object())
    described = aana.guard(tool(calls), **AS_CONFIRMED, describe=lambda arguments: {"to": str(arguments["to"])})
    described(Path("a"))
    assert len(calls) == 1
    mapped = aana.guard(tool(calls), **AS_CONFIRMED)
    mapped("ann", body=OrderedDict(a=(1, 2)))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(aana.ToolCallBlocked, match="contract_normalization_failed"):
        guarded(endless)


def test_a_recommendation_alone_blocks_and_is_said() -> None:
    guarded = aana.guard(tool(Calls()), **AS_CONFIRMED, recommended_route="ask")
    with pytest.raises(aana.ToolCallBlocked, match=r"send_note: ask \(recommended by the runtime\)"):
        guarded("ann")


def test_every_decision_is_in_the_log_before_the_function_runs(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    lines: list[int] = []

    @aana.guard(**AS_CONFIRMED, log=aana.DecisionLog(path), clock=lambda: NOW)
    def send(to: str) -> None:
        lines.append(len(path.read_text().splitlines()))

    send("ann@example.com")
    assert lines == [1]
    event = json.loads(path.read_text())
    assert event["surface"] == "guard" and event["argument_keys"] == ["to"]
    assert event["time"] == "2026-05-10T00:00:00.000000Z"
    assert "ann" not in path.read_text()


def test_a_log_that_cannot_be_written_stops_the_call(tmp_path: Path) -> None:
    calls = Calls()
    guarded = aana.guard(tool(calls), **AS_CONFIRMED, log=aana.DecisionLog(tmp_path / "no" / "folder.jsonl"))
    with pytest.raises(OSError):
        guarded("ann")
    assert calls == []
