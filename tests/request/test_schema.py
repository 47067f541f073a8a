"""The published schemas are schemas, and agree with the reader on whole requests."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from tests.request.examples import KEYS, era, monty, read, read_example
from threegate.request.gate_rules import RULES
from threegate.request.report import REPORT_SCHEMA
from threegate.request.schema import report_schema, request_schema
from threegate.request.source import plain_value, read_mapping

REQUEST = jsonschema.Draft202012Validator(request_schema())


def _front(text: str) -> Any:
    return plain_value(read_mapping(text.split("---\n")[1]))


def test_both_are_json_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(request_schema())
    jsonschema.Draft202012Validator.check_schema(report_schema())


@pytest.mark.parametrize("text", [era(), monty(), era(schema_version="1", cpu_limit="2", approved_by="")])
def test_good_front_matter_is_valid_for_the_schema(text: str) -> None:
    assert read(text).valid
    REQUEST.validate(_front(text))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("request_type", "x"),
        ("schema_version", '"2"'),
        ("request_id", "../x"),
        ("created_utc", "yesterday"),
        ("network", "full"),
        ("network", "allowlist"),
        ("cpu_limit", "[1]"),
        ("memory_limit_mb", '"8"'),
        ("time_limit_sec", "0"),
        ("inputs", "[{name: a}]"),
        ("workdir", "/tmp"),
        ("outputs_expected", "[a]"),
        ("network_allowlist", "[a.example.com]"),
        ("risk_domain", "x"),
        ("evidence", "[a]"),
        ("priority", "x"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(key: str, value: str) -> None:
    text = era(**{key: value})
    assert not read(text).valid
    assert not REQUEST.is_valid(_front(text))


def test_every_key_of_the_reader_is_in_the_schema() -> None:
    assert set(KEYS) <= set(request_schema()["properties"])


def test_every_report_is_valid_for_its_schema() -> None:
    validator = jsonschema.Draft202012Validator(report_schema())
    reports = [read_example(rule, example) for rule in RULES.values() for example in rule.refused[:1]]
    validator.validate({"schema": REPORT_SCHEMA, "files": [report.to_json() for report in reports]})


def test_a_yaml_editor_reads_the_same_values_where_a_draft_is_rendered() -> None:
    """What `threegate draft` writes means the same to PyYAML's own loader, times and all text being quoted or plain."""
    loaded = yaml.safe_load(era().split("---\n")[1])
    assert loaded["request_id"] == "rank-1" and loaded["memory_limit_mb"] == 256
