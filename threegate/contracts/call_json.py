"""Calls as JSON: for the state file, for the trail's rebuild, and for the lines of a play."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from threegate.contracts.state import Answer, Call


def call_to_json(call: Call) -> dict[str, Any]:
    """A claimed call as plain JSON (answers are not kept: they were used)."""
    return {
        "tool": call.tool,
        "arguments": dict(call.arguments),
        "principal": None if call.principal is None else dict(call.principal),
        "session_id": call.session_id,
        "workflow_session": call.workflow_session,
        "labels": list(call.labels),
        "call_id": call.call_id,
        "backend": call.backend,
        "code_sha256": call.code_sha256,
        "image": call.image,
        "cost": call.cost,
        "asked": None if call.asked is None else call.asked.astimezone(UTC).isoformat(),
    }


def call_from_json(value: Mapping[str, Any]) -> Call:
    """The inverse of `call_to_json`. Raises KeyError, ValueError."""
    return Call(
        tool=value["tool"],
        arguments=value["arguments"],
        principal=value["principal"],
        session_id=value["session_id"],
        workflow_session=value["workflow_session"],
        labels=tuple(value["labels"]),
        call_id=value["call_id"],
        backend=value["backend"],
        code_sha256=value["code_sha256"],
        image=value["image"],
        cost=value["cost"],
        asked=None if value["asked"] is None else datetime.fromisoformat(value["asked"]),
    )


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """A checkpoint answer as plain JSON."""
    return {
        "call_sha256": answer.call_sha256,
        "approve": answer.approve,
        "answered": answer.answered.isoformat(),
        "by": answer.by,
    }


def answer_from_json(value: Mapping[str, Any]) -> Answer:
    """The inverse of `answer_to_json`. Raises KeyError, ValueError."""
    return Answer(value["call_sha256"], value["approve"], datetime.fromisoformat(value["answered"]), value["by"])
