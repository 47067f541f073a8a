"""Calls as JSON: for the state file, for the trail's rebuild, and for the lines of a play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from threegate.contracts.state import Answer, Call

_PLAIN: Final = tuple("tool session_id workflow_session call_id backend served code_sha256 image cost".split())
"""Fields of a call that JSON holds as they are."""


def call_to_json(call: Call) -> dict[str, Any]:
    """A claimed call as plain JSON (answers and artifacts are not kept: they were used)."""
    return {
        **{name: getattr(call, name) for name in _PLAIN},
        "arguments": dict(call.arguments),
        "principal": None if call.principal is None else dict(call.principal),
        "labels": list(call.labels),
        "asked": None if call.asked is None else call.asked.astimezone(UTC).isoformat(),
    }


def call_from_json(value: Mapping[str, Any]) -> Call:
    """The inverse of `call_to_json`. Raises KeyError, ValueError."""
    return Call(
        **{name: value[name] for name in _PLAIN},
        arguments=value["arguments"],
        principal=value["principal"],
        labels=tuple(value["labels"]),
        asked=None if value["asked"] is None else datetime.fromisoformat(value["asked"]),
    )


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """A checkpoint answer as plain JSON."""
    return {**asdict(answer), "answered": answer.answered.isoformat()}


def answer_from_json(value: Mapping[str, Any]) -> Answer:
    """The inverse of `answer_to_json`. Raises KeyError, TypeError, ValueError."""
    return Answer(**{**value, "answered": datetime.fromisoformat(value["answered"])})
