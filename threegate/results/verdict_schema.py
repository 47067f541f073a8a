"""The published JSON Schema of verdict files, made from what writes them."""

from __future__ import annotations

from typing import Any

from threegate.request.schema import DIALECT, exposure_schema, finding_schema, fix_schema
from threegate.results.verdict import STATES, VERDICT_SCHEMA

_RULES = "^TG[1-59][0-9]{2}$"
"""The rules of gate 1, and those that need the workspace (TG9xx)."""


def verdict_schema() -> dict[str, Any]:
    """``tool-exec/verdicts/<file name>.json``."""
    optional_text = {"type": ["string", "null"]}
    problem = {name: {"type": "string"} for name in ("path", "code", "message")}
    proposal = {
        "type": "object",
        "additionalProperties": False,
        "required": list(problem),
        "properties": problem,
    }
    properties: dict[str, Any] = {
        "schema": {"const": VERDICT_SCHEMA},
        "file": {"type": "string", "description": "the request's file name"},
        "sha256": {
            "type": "string",
            "description": "of the bytes that this speaks of; empty when they were not read",
        },
        "request_id": optional_text,
        "stage": {"type": "string"},
        "valid": {"type": "boolean", "description": "whether gate 1 found no error"},
        "state": {"enum": list(STATES)},
        "reason": {**optional_text, "description": "the rule or reason code that decides the state"},
        **exposure_schema(),
        "findings": {
            "type": "array",
            "items": {"anyOf": [finding_schema(_RULES), proposal]},
            "description": "what gate 1 found; of a proposal: its problems by JSON pointer",
        },
        "judgement": {"type": ["object", "null"], "description": "route, blockers and contract, once judged"},
        "fixes": {
            "type": "array",
            "items": fix_schema(_RULES),
            "description": "whole lines to change in the bytes of `sha256`, last line first",
        },
        "updated_utc": {
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
        },
    }
    return {
        "$schema": DIALECT,
        "$id": "https://threegate.dev/schemas/verdict.schema.json",
        "title": "ThreeGate verdict",
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }
