"""The published JSON Schemas of gate 1, generated from what the reader itself uses.

Invariant: the front matter's schema is the table of keys, and every report is valid for its models: neither schema is
written by hand, and a test compares the files below schemas/ with the generated ones.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from threegate.core.record import Record, published, schema_of
from threegate.request.backend import BACKENDS
from threegate.request.exposure import Opacity
from threegate.request.front_matter import KEYS, TOOL_TO_CALL, Key
from threegate.request.model import Stage
from threegate.request.report import Op, Severity


def request_schema() -> dict[str, Any]:
    """The front matter of a tool request of version 1: what can be said without the settings and the clock."""
    allowlist = {"properties": {"network": {"const": "allowlist"}}, "required": ["network"]}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": [key.name for key in _keys("1") if key.required],
        "properties": _properties("1"),
        "if": allowlist,
        "then": {"required": ["network_allowlist"]},
        "else": {"not": {"required": ["network_allowlist"]}},
    }
    return published("tool-request", "ThreeGate tool request, front matter", schema)


def request_schema_2() -> dict[str, Any]:
    """The front matter of a tool request of version 2: one branch for each backend that has it."""
    newer = {name: rules for name, rules in BACKENDS.items() if rules.version == "2"}
    newer_keys = [key.name for key in KEYS.values() if key.versions == "2"]
    required = [key.name for key in _keys("2") if key.required]
    schema = {
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
                    **rules.lists,
                    # What only another backend has.
                    **{key: False for key in newer_keys if key not in (*rules.keys, *rules.optional)},
                },
                "required": [*rules.keys, *(name for name, item in rules.lists.items() if item.get("minItems"))],
            }
            for name, rules in newer.items()
        ],
    }
    return published("tool-request-2", "ThreeGate tool request of version 2, front matter", schema)


def _keys(version: str) -> list[Key]:
    return [key for key in KEYS.values() if version in key.versions]


def _properties(version: str) -> dict[str, Any]:
    found = {key.name: {**key.schema, "description": key.description} for key in _keys(version)}
    names = [name for name, rules in BACKENDS.items() if rules.version == version]
    return {**found, "backend": {**found["backend"], "enum": names, "description": " or ".join(names)}}


class ReportFinding(Record):
    """One finding."""

    rule: str = Field(pattern="^TG[1-59][0-9]{2}$")
    severity: Severity
    line: int = Field(ge=1)
    column: int = Field(ge=1)
    message: str
    help: str


class ReportFix(Record):
    """One fix: whole lines, see `threegate.request.report.Fix`."""

    rule: str = Field(pattern="^TG[1-59][0-9]{2}$")
    op: Op
    line: int = Field(ge=1)
    text: str


class ExposureFacts(Record):
    """The four keys of opacity and reach; null for a file that is not a valid request."""

    opacity: Opacity | None = Field(description="whether all code that runs can be shown")
    opacity_reason: str | None = Field(description="why, in one line")
    scripts: list[str] | None = Field(description="inputs that have to be shown whole")
    reach: list[str] | None = Field(description="network hosts and secrets")


class FileReport(ExposureFacts):
    """What gate 1 says of one file."""

    path: str
    stage: Stage
    valid: bool
    findings: list[ReportFinding]
    fixes: list[ReportFix]


class ReportOutput(Record):
    """The output of ``threegate validate --format json``."""

    schema_: Literal["threegate.report/1"] = Field(alias="schema")
    files: list[FileReport]


def report_schema() -> dict[str, Any]:
    """The JSON Schema of `ReportOutput`."""
    return published("report", "ThreeGate report", schema_of(ReportOutput))
