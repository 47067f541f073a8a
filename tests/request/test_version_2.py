"""What gate 1 asks of requests of version 2, whichever plugin brings their backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.request.examples import APPLY_KEYS, MONTY, ids, read, request
from tests.request.newer_backend import Newer, newer
from threegate.core import plugins
from threegate.core.errors import InvalidInput, Refused
from threegate.core.json_operators import first_match
from threegate.core.plugins import Plugin
from threegate.core.settings import Settings, parse_settings
from threegate.request.action import Action, Script
from threegate.request.backend import BACKENDS, Backend, Binding, Bound, why_off
from threegate.request.render_draft import render_request
from threegate.request.schema import request_schema_2

KEYS = {**APPLY_KEYS, "backend": "newer"}


@pytest.fixture(autouse=True)
def backend() -> Iterator[str]:
    with newer() as name:
        yield name


def text(**changes: str) -> str:
    return request({**KEYS, **changes}, MONTY)


def test_it_is_read_and_written_as_it_was_read() -> None:
    report = read(text(server="notes", tool="add", manifest_sha256="a" * 64, host="api.example.com"))
    assert report.valid and report.request is not None, report.findings
    written = render_request(report.request)
    assert b'schema_version: "2"\n' in written and b"backend: newer\n" in written
    again = read(written)
    assert again.request is not None and replace(again.request, data=b"", sha256="") == replace(
        report.request, data=b"", sha256=""
    )


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"schema_version": '"1"'}, "TG131"),
        ({"schema_version": '"3"'}, "TG131"),
        ({"project": "[web]"}, "TG122"),
        ({"project": "a/b"}, "TG171"),
        ({"project": "none"}, "TG171"),
        ({"language": "python"}, "TG170"),
        ({"cpu_limit": '"1"'}, "TG170"),
        ({"deliver": "branch"}, "TG177"),
        ({"server": "Notes!"}, "TG173"),
        ({"manifest_sha256": "abc"}, "TG175"),
        ({"host": "42"}, "TG122"),
        ({"host": "10.0.0.1"}, "TG179"),
        ({"backend": "newest"}, "TG136"),
    ],
)
def test_a_key_that_does_not_fit_is_found(changes: dict[str, str], rule: str) -> None:
    report = read(text(**changes))
    assert not report.valid and rule in ids(report) and report.first_error in report.findings


def test_what_its_backend_needs_is_asked_for_and_what_is_no_key_of_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = {name: value for name, value in KEYS.items() if name != "project"}
    assert "TG121" in ids(read(request(without, MONTY)))
    monkeypatch.setattr(Newer, "optional", ())
    assert "TG170" in ids(read(text(server="notes")))
    monkeypatch.setattr(Newer, "keys", ("project", "tool"))
    assert "TG121" in ids(read(text()))


def test_a_file_that_it_leaves_is_none_of_it() -> None:
    files = "[{path: /out/a.json}]"
    body = {**MONTY, "Output Expectations": "\n- /out/a.json\n"}
    assert "TG243" in ids(read(request({**KEYS, "outputs_expected": files}, body)))


def test_its_published_schema_has_a_branch_for_it() -> None:
    schema = request_schema_2()
    (branch,) = [item for item in schema["oneOf"] if item["properties"]["backend"]["const"] == "newer"]
    assert branch["required"] == ["project", "inputs"] and branch["properties"]["network"] == {"const": "none"}
    assert "newer" in schema["properties"]["backend"]["enum"]


def test_what_a_backend_or_an_action_that_says_nothing_else_answers() -> None:
    with pytest.raises(InvalidInput, match="not drafted from options"):
        Backend.drafted(BACKENDS["newer"], "", "1", None)
    bound = Bound(action=Script("1\n"), way="branch", ways=("tree", "branch"))
    assert (bound.next_way, replace(bound, way="tree").next_way) == ("tree", "branch")
    script = Script("1\n")
    assert Action.python(script) is None and Action.replaced(script, "1", "2") is script
    assert Action.aana_arguments(script, "/in", {}) == script.gate_arguments("/in", {})


def test_the_first_text_of_a_pattern() -> None:
    assert first_match("[b-d]x") == "bx" and first_match("(") is None and first_match("(ab)*c") is None


def test_a_request_whose_backends_plugin_is_off_is_bound_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "PLUGINS", (Plugin("more", "is off", offers={"backend.newer": "backend:BACKEND"}),))
    settings = parse_settings(b"[plugins]\noff = ['more']\n")
    asked = read(text())
    said = "the backend newer is of the plugin more, which is off (plugins.off in threegate.toml)"
    assert why_off("newer", settings) == said and why_off("newer", Settings()) is None
    monkeypatch.setattr(plugins, "PLUGINS", ())
    assert why_off("newer", settings) is None
    assert asked.request is None, "its plugin is not there either"


def test_a_bound_request_says_that_its_plugin_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = read(text()).request
    assert asked is not None
    monkeypatch.setattr(plugins, "PLUGINS", (Plugin("more", "is off", offers={"backend.newer": "backend:BACKEND"}),))
    settings = parse_settings(b"[plugins]\noff = ['more']\n")
    binding = Binding(cast(Any, None), settings, None, asked, cast(Any, None), None)
    with pytest.raises(Refused, match="is of the plugin more, which is off") as caught:
        binding.bound()
    assert caught.value.code == "backend_off"
    assert replace(binding, settings=Settings()).bound().action is asked.action


@pytest.mark.parametrize(("value", "rules"), [("reads /etc/b\\u0041", set()), ("password=hunter2\\u0041", {"TG501"})])
def test_values_of_a_kind_that_may_name_all_still_hold_no_secret(value: str, rules: set[str]) -> None:
    body = {**MONTY, "Inputs (JSON)": f'\n```json\n{{"a": "{value}"}}\n```\n'}
    assert ids(read(request(KEYS, body))) == rules
