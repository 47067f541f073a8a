"""The published JSON Schemas of gate 1, generated from what the reader itself uses.

Invariant: the front matter's schema is the table of keys, the report's is the dataclasses: neither is written
by hand, and a test compares the files below schemas/ with the generated ones.
"""

from __future__ import annotations

from typing import Any, get_args

from threegate.request.backend_rules import BACKENDS, Backend, BackendRules
from threegate.request.exposure import EXPOSURE_KEYS, Opacity
from threegate.request.front_matter_keys import KEYS, TOOL_TO_CALL, Key
from threegate.request.model import Stage
from threegate.request.report import REPORT_SCHEMA, Finding, Op, Severity

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def request_schema() -> dict[str, Any]:
    """The front matter of a tool request of version 1: what can be said without the settings and the clock."""
    allowlist = {"properties": {"network": {"const": "allowlist"}}, "required": ["network"]}
    return {
        "$schema": DIALECT,
        "$id": "https://threegate.dev/schemas/tool-request.schema.json",
        "title": "ThreeGate tool request, front matter",
        "type": "object",
        "additionalProperties": False,
        "required": [key.name for key in _keys("1") if key.required],
        "properties": _properties("1"),
        "if": allowlist,
        "then": {"required": ["network_allowlist"]},
        "else": {"not": {"required": ["network_allowlist"]}},
    }


def request_schema_2() -> dict[str, Any]:
    """The front matter of a tool request of version 2: one branch for each backend that has it."""
    newer = {name: rules for name, rules in BACKENDS.items() if rules.version == "2"}
    required = [key.name for key in _keys("2") if key.required]
    return {
        "$schema": DIALECT,
        "$id": "https://threegate.dev/schemas/tool-request-2.schema.json",
        "title": "ThreeGate tool request of version 2, front matter",
        "type": "object",
        "additionalProperties": False,
        "required": [*required, "backend"],
        "properties": {
            **_properties("2"),
            "schema_version": {"enum": ["2", 2], "description": "always 2"},
            "backend": {"enum": list(newer), "description": " or ".join(newer)},
            "tool": {**KEYS["tool"].schema, "description": f"{KEYS['tool'].description}; {TOOL_TO_CALL}"},
        },
        "oneOf": [
            {
                "properties": {
                    "backend": {"const": name},
                    **({} if rules.network else {"network": {"const": "none"}}),
                    **_inputs_of(rules),
                    **_keys_of_others(name),
                },
                "required": [*rules.keys, *(["inputs"] if rules.runs == "changes" else [])],
            }
            for name, rules in newer.items()
        ],
    }


def _inputs_of(rules: BackendRules) -> dict[str, Any]:
    if rules.runs == "changes":
        return {"inputs": {"minItems": 1, "maxItems": 2}}
    return {"inputs": {"maxItems": 0}, "outputs_expected": {"maxItems": 0}}


def _keys_of_others(name: Backend) -> dict[str, Any]:
    """The keys of version 2 that another backend needs: none of them is in a request of this one."""
    own = (*BACKENDS[name].keys, *BACKENDS[name].optional)
    return {key.name: False for key in KEYS.values() if key.versions == "2" and key.name not in own}


def _keys(version: str) -> list[Key]:
    return [key for key in KEYS.values() if version in key.versions]


def _properties(version: str) -> dict[str, Any]:
    found = {key.name: {**key.schema, "description": key.description} for key in _keys(version)}
    names = [name for name, rules in BACKENDS.items() if rules.version == version]
    return {**found, "backend": {**found["backend"], "enum": names, "description": " or ".join(names)}}


def report_schema() -> dict[str, Any]:
    """The output of ``threegate validate --format json``."""
    file = {
        "path": {"type": "string"},
        "stage": {"enum": list(get_args(Stage))},
        "valid": {"type": "boolean"},
        **exposure_schema(),
        "findings": {"type": "array", "items": finding_schema()},
        "fixes": {"type": "array", "items": fix_schema()},
    }
    return {
        "$schema": DIALECT,
        "$id": "https://threegate.dev/schemas/report.schema.json",
        "title": "ThreeGate report",
        **_object({"schema": {"const": REPORT_SCHEMA}, "files": {"type": "array", "items": _object(file)}}),
    }


def exposure_schema() -> dict[str, Any]:
    """The four keys of opacity and reach; null for a file that is no valid request."""
    texts = {"type": ["array", "null"], "items": {"type": "string"}}
    schemas = (
        {"enum": [*get_args(Opacity), None], "description": "whether all code that runs can be shown"},
        {"type": ["string", "null"], "description": "why, in one line"},
        {**texts, "description": "inputs that have to be shown whole"},
        {**texts, "description": "network hosts and secrets"},
    )
    return dict(zip(EXPOSURE_KEYS, schemas, strict=True))


def finding_schema(rules: str = "^TG[1-5][0-9]{2}$") -> dict[str, Any]:
    """One finding."""
    properties = {
        "rule": {"type": "string", "pattern": rules},
        "severity": {"enum": list(get_args(Severity))},
        "line": {"type": "integer", "minimum": 1},
        "column": {"type": "integer", "minimum": 1},
        "message": {"type": "string"},
        "help": {"type": "string"},
    }
    return _object({name: properties[name] for name in Finding.__slots__})


def fix_schema(rules: str = "^TG[1-5][0-9]{2}$") -> dict[str, Any]:
    """One fix: whole lines, see `threegate.request.report.Fix`."""
    return _object(
        {
            "rule": {"type": "string", "pattern": rules},
            "op": {"enum": list(get_args(Op))},
            "line": {"type": "integer", "minimum": 1},
            "text": {"type": "string"},
        }
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }
