"""The table of backends, and what holds for each that says nothing else."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.approval.material import NOW, make_request
from tests.request.examples import monty, read
from threegate.core import plugins
from threegate.core.errors import InvalidInput, Refused
from threegate.core.plugins import Plugin
from threegate.core.settings import PluginsSettings, Settings
from threegate.core.workspace import Workspace
from threegate.request import backend
from threegate.request.backend import BACKENDS, DEFAULT_BACKEND, Binding, why_absent


def test_each_is_what_its_name_in_the_table_says() -> None:
    """Those of plugins follow: tests/whole/test_plugins.py."""
    assert list(BACKENDS)[:2] == ["ERA", "monty"] and DEFAULT_BACKEND in BACKENDS and "toy" not in BACKENDS
    assert all(backend.name == name for name, backend in BACKENDS.items()) and len(BACKENDS) >= 2


def test_what_runs_code_is_bound_to_nothing() -> None:
    workspace, request, monty = cast(Workspace, None), make_request(), BACKENDS["monty"]
    bound = monty.bind(Binding(workspace, Settings(), None, request, cast(Any, None), None))
    assert bound.action is request.action and not bound.ways
    assert (bound.why_unfit(), bound.claims()) == (None, None)
    assert monty.problem(workspace, None, request, None) is None
    assert monty.attention(workspace, Settings(), request, lambda item: io.BytesIO()) is None
    assert not monty.keeps_state(workspace, request.action) and not monty.input_items(bound, ())
    monty.refuse_other_state(workspace, None, request.action)


def test_a_backend_whose_plugin_is_off_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        backend, "_PLUGINS", SimpleNamespace(listed=lambda: {"toy": Plugin("toys", "requests for toys")})
    )
    workspace, request = cast(Workspace, None), replace(make_request(), backend="toy")
    off = Settings(plugins=PluginsSettings(off=("toys",)))
    with pytest.raises(Refused, match="the backend toy is of the plugin toys, which") as caught:
        Binding(workspace, off, None, request, cast(Any, None), None).bound()
    assert caught.value.code == "backend_off" and backend.why_off("toy", Settings()) is None


@pytest.mark.parametrize(
    ("name", "command", "code", "variables", "says"),
    [
        ("ERA", "", "", None, "runs a command; give it"),
        ("ERA", "ls", "1", None, "send code as an --input"),
        ("ERA", "ls", "", "{}", "send code as an --input"),
        ("ERA", "ls 'x", "", None, "fix the quoting"),
        ("monty", "", "", None, "name the file with --code"),
        ("monty", "ls", "1", None, "leave --command out"),
    ],
)
def test_what_options_do_not_make(name: str, command: str, code: str, variables: str | None, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        BACKENDS[name].drafted(command, code, variables)


def test_what_options_make() -> None:
    assert BACKENDS["ERA"].drafted("echo 'a b'", "", None).words == ("echo", "a b")
    made = BACKENDS["monty"].drafted("", "1", "{}")
    assert (made.source, made.variables) == ("1\n", "{}\n")


def test_a_request_is_drafted_again_under_another_name_and_without_what_an_approval_wrote() -> None:
    asked = make_request(deliver="branch")
    again = asked.drafted_again("TR-20261123-100000Z-sum.md", "req-2", NOW)
    assert (again.file_name, again.request_id, again.created_utc) == ("TR-20261123-100000Z-sum.md", "req-2", NOW)
    assert (again.stage, again.approved_by, again.approved_utc, again.deliver) == ("draft", None, None, None)
    assert (again.purpose, again.action, again.inputs) == (asked.purpose, asked.action, asked.inputs)


def test_a_request_for_a_backend_that_is_not_here_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is in it is for that backend."""
    gone = Plugin("gone", "is not there", offers={"backend.fly": "backend:BACKEND"})
    monkeypatch.setattr(plugins, "PLUGINS", (gone,))
    absent = "the plugin gone is not part of this installation"
    assert why_absent("fly") == absent and why_absent("monty") is None
    text = monty(backend="fly").replace("## Code", "## Wings")
    (finding,) = read(text).findings
    assert (finding.rule, finding.message) == ("TG136", f"backend is fly, and {absent}")
    assert not read(text).valid
