"""The published JSON Schema of an action proposal, made from the table of tools.

Invariant: `schemas/agent-action-proposal.schema.json` is exactly `published_bytes()`, and its meaning is that
of the ClawGuard schema with one more branch (`subagent.delegate`, which that schema leaves open); tests
compare both.
"""

from __future__ import annotations

import json
from typing import Any, Final

from threegate.proposals.tools import RISKS, SCHEMA_VERSION, TOOLS, TOP_LEVEL, ProposalTool, ToolField

SCHEMA_ID: Final = "https://denial-web.github.io/clawguard/schemas/agent-action-proposal.schema.json"


def published_schema() -> dict[str, Any]:
    """The schema as a JSON value (draft 2020-12; the formats are meant to be asserted)."""
    top: dict[str, dict[str, Any]] = {name: {"type": "string"} for name in TOP_LEVEL}
    top["schemaVersion"]["const"] = SCHEMA_VERSION
    top["tool"]["enum"] = list(TOOLS)
    top["args"] = {"type": "object"}
    top["risk"]["enum"] = list(RISKS)
    top["createdAt"]["format"] = "date-time"
    for name, description in TOP_LEVEL.items():
        if description:
            top[name]["description"] = description
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "ClawGuardAgentActionProposal",
        "type": "object",
        "required": ["tool", "args"],
        "additionalProperties": False,
        "properties": top,
        "allOf": [
            {
                "if": {"properties": {"tool": {"const": tool.name}}},
                "then": {"properties": {"args": _arguments(tool)}},
            }
            for tool in TOOLS.values()
        ],
    }


def published_bytes() -> bytes:
    """The bytes of the published file."""
    return json.dumps(published_schema(), indent=2, ensure_ascii=True).encode() + b"\n"


def _arguments(tool: ProposalTool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if tool.required:
        schema["required"] = list(tool.required)
    schema["additionalProperties"] = False
    schema["properties"] = {name: _argument(item) for name, item in tool.fields.items()}
    return schema


def _argument(item: ToolField) -> dict[str, Any]:
    if item.kind == "integer":
        return {"type": "integer", "minimum": item.minimum, "maximum": item.maximum}
    if item.kind == "strings":
        schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
        if item.min_items:
            schema["minItems"] = item.min_items
        schema["maxItems"] = item.max_items
        return schema
    if item.uri:
        return {"type": "string", "format": "uri"}
    return {"type": item.kind}
