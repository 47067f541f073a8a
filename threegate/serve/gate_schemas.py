"""The JSON Schemas of the HTTP requests and answers of a workspace's gates. They are published in
`schemas/`.
"""

from __future__ import annotations

import json
from typing import Any, Final, get_args

from threegate.core.version import shipped
from threegate.proposals.tools import RISKS, TOOLS, Lane, VerdictName

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_OUTCOME: Final = {
    "description": "How a call ended: a status, or the status and its result.",
    "anyOf": [
        _TEXT,
        {
            "type": "object",
            "required": ["status"],
            "additionalProperties": False,
            "properties": {
                "status": _TEXT,
                "output": {},
                "cost": {"type": "number", "minimum": 0},
                "exit_code": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 255},
                "stderr": _TEXT,
                "artifacts": _TEXTS,
                "retry_after": {"type": "number"},
            },
        },
    ],
}


def proposal_schema() -> dict[str, Any]:
    """A proposal, as part of a document with its own `$schema`."""
    file = shipped("schemas") / "agent-action-proposal.schema.json"
    schema = {key: value for key, value in json.loads(file.read_bytes()).items() if key not in ("$schema", "$id")}
    return dict(_with_format(schema))


def proposal_verdict_schema() -> dict[str, Any]:
    """The verdict on a proposal."""
    problem = {"path": _TEXT, "code": _TEXT, "message": _TEXT}
    return _object(
        {
            "verdict": {"enum": list(get_args(VerdictName))},
            "schema_valid": {
                "type": "boolean",
                "description": "Whether the published schema accepts the proposal, whatever the verdict is.",
            },
            "risk": {"enum": [*RISKS, None]},
            "tool": {"enum": [*TOOLS, None]},
            "errors": {"type": "array", "items": _object(problem)},
            "reasons": _TEXTS,
            "becomes": {"enum": list(get_args(Lane))},
        }
    )


def contract_line_schema() -> dict[str, Any]:
    """A call, the end of a claimed call (`finish`), or the end of a session (`close`)."""
    call: dict[str, Any] = {
        "tool": _TEXT,
        "arguments": {"type": "object"},
        "principal": {"type": "object"},
        "session_id": _TEXT,
        "workflow_session": _TEXT,
        "role": _TEXT,
        "parent": _TEXT,
        "labels": _TEXTS,
        "cost": {"type": "number", "minimum": 0},
        "artifacts": _TEXTS,
        "claim": {"type": "string", "description": "Names the call, so that finish can say how it ended."},
        "outcome": _OUTCOME,
    }
    return {
        "anyOf": [
            _only(call, "tool"),
            _only({"finish": _TEXT, "outcome": _OUTCOME}, "finish"),
            _only({"close": _TEXT}, "close"),
        ]
    }


def contract_decision_schema() -> dict[str, Any]:
    """What the contracts decide: `verdict` for a call, `outcome` if one was given, `reasons` for a session's
    end.
    """
    reasons = {
        "type": "array",
        "items": _object(
            {
                "layer": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 9},
                "code": _TEXT,
                "path": _TEXT,
            }
        ),
    }
    checkpoint = {
        "name": _TEXT,
        "timeout_seconds": {"type": "number"},
        "on_timeout": {"enum": ["deny", "allow"]},
    }
    return {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["allow", "block", "checkpoint"]},
            "reasons": reasons,
            "checkpoints": {"type": "array", "items": _object(checkpoint)},
            "allowed_tools": _TEXTS,
            "outcome": _object({"status": _TEXT, "reasons": reasons}),
        },
    }


def _with_format(schema: Any) -> Any:
    """The schema with the format that OpenAPI requires of integers."""
    if isinstance(schema, list):
        return [_with_format(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    below = {key: _with_format(item) for key, item in schema.items()}
    return {**below, "format": "int32"} if below.get("type") == "integer" else below


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _only(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }
