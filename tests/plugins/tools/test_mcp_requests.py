"""Requests of backend mcp: what they need, what they may not have, and what the Job of one binds."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import jsonschema
import pytest
import yaml

from tests.request.examples import MCP, MCP_KEYS, apply, ids, mcp, read, request
from threegate.plugins.tools.action import EarlierCall, JobServer, ServerState, ToolCall
from threegate.request.job import Platform, build_job, effective_risk
from threegate.request.model import Request, exposure_of
from threegate.request.render_draft import render_request
from threegate.request.schema import request_schema_2

SERVER = JobServer("jail", ("/usr/bin/notes",), ("a.example:443",), ("/srv/notes (read-only)",), ("NOTES_TOKEN",))
SCHEMA = jsonschema.Draft202012Validator(request_schema_2())


def made(**changes: str) -> Request:
    found = read(mcp(**changes)).request
    assert found is not None
    return found


def with_arguments(text: str) -> str:
    return request(MCP_KEYS, {**MCP, "Arguments (JSON)": f"\n```json\n{text}\n```\n"})


def test_what_a_request_says() -> None:
    found = made()
    assert found.action == ToolCall("notes", "add", "a" * 64, '{"text":"hello"}')
    assert (found.backend, found.tool, found.language) == ("mcp", "notes.add", "")
    assert found.signature_needed
    exposure = exposure_of(found)
    assert not exposure.opaque and exposure.reach == ("the tool add of the server notes",)


def test_it_is_read_as_it_was_written() -> None:
    call = made().action
    strange = '{"a\\"b":["```","~~~",{"z":1.5}],"text":"line\\nline\\u00e9"}'.replace("\\u00e9", "\u00e9")
    found = replace(made(), action=call.changed(arguments_json=strange), session_id="s-1")
    again = read(render_request(found)).request
    assert again is not None
    for item in fields(Request):
        if item.name not in ("data", "sha256", "file_name"):
            assert getattr(again, item.name) == getattr(found, item.name), item.name


@pytest.mark.parametrize("server", ["null", "True", "yes", "On", "git", "My_Notes", "a" * 64])
def test_a_servers_name_is_a_text_whatever_it_looks_like(server: str) -> None:
    found = replace(made(), action=made().action.changed(server=server))
    again = read(render_request(found)).request
    assert again is not None and again.action == found.action and again.tool == f"{server}.add"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        *(
            (request({key: value for key, value in MCP_KEYS.items() if key != missing}, MCP), "TG121")
            for missing in ("server", "tool", "manifest_sha256")
        ),
        (mcp(schema_version='"1"'), "TG131"),
        (mcp(network="allowlist", network_allowlist="[a.example.com]"), "TG138"),
        (mcp(project="web"), "TG170"),
        (apply(server="notes"), "TG170"),
        (mcp(tool="7"), "TG122"),
        (with_arguments('{"text":"a\\u200bb"}'), "TG225"),
        (with_arguments('{"text":"a\u200bb"}'), "TG107"),
        (with_arguments('{"text":"a\\u0007b"}'), "TG107"),
        (with_arguments('{"text":"" }'), "TG225"),
        (with_arguments("{}\n"), "TG225"),
        (with_arguments("[1]"), "TG225"),
        (with_arguments('{"a":NaN}'), "TG225"),
        (with_arguments('{"text":"' + "x" * 48 * 1024 + '"}'), "TG225"),
        (with_arguments('{"key":"AKIAIOSFODNN7' + 'EXAMPLQ"}'), "TG501"),
        (with_arguments('{"key":"-----BEGIN RSA PRIVATE' + " KEY-----\\nMIIE" + '"}'), "TG501"),
    ],
)
def test_what_is_refused(text: str, rule: str) -> None:
    report = read(text)
    assert not report.valid and rule in ids(report), report.findings


def test_a_secret_behind_an_escape_is_found_and_withheld() -> None:
    hidden = '{"text":"pass\\"word AKIA\\tx","key":"a\\nAKIAIOSFODNN7' + 'EXAMPLQ"}'
    report = read(with_arguments(hidden))
    assert "TG501" in ids(report) and "EXAMPLQ" not in "".join(report.masked_lines)


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"command":"pip install requests"}',
        '{"path":"/etc/hosts"}',
        '{"text":"say \\"hi\\" at /etc/hosts\\n"}',
    ],
)
def test_a_tool_may_be_asked_about_anything(arguments: str) -> None:
    assert read(with_arguments(arguments)).valid


def test_what_the_server_reaches_comes_after_what_the_request_says() -> None:
    own = exposure_of(made())
    more = own.reaching(["folder /srv/notes (read-only)"])
    assert own.reach and more == replace(own, reach=(*own.reach, "folder /srv/notes (read-only)"))


def test_effective_risk() -> None:
    found = replace(made(), data_sensitivity="public", risk_level="low")
    assert effective_risk(found, exposure_of(found)) == "medium"
    job = build_job(found, input_sizes={}, platform=Platform(), write_class=True)
    assert job.effective_risk == "high"


def test_the_job_binds_the_call_and_its_server() -> None:
    found = made()
    made_call = found.action
    assert isinstance(made_call, ToolCall)

    def digest(call: ToolCall, server: JobServer | None) -> str:
        action = call if server is None else call.bound(server)
        return build_job(replace(found, action=action), input_sizes={}, platform=Platform()).digest

    digests = {digest(made_call, SERVER), digest(made_call, None)}
    for item in fields(ToolCall):
        digests.add(digest(replace(made_call, **{item.name: "other"}), SERVER))
    others: dict[str, Any] = {"place": "other", "account": "other", "image": "other", "state": ServerState()}
    for item in fields(JobServer):
        value = others.get(item.name, ("other",))
        digests.add(digest(made_call, replace(SERVER, **{item.name: value})))
    first = EarlierCall("TR-a", "add", "{}", "succeeded")
    states = [ServerState("p", 1, (first,)), ServerState("q", 1, (first,)), ServerState("p", 2, (first,))]
    states += [ServerState("p", 1, (replace(first, **{item.name: "other"}),)) for item in fields(EarlierCall)]
    digests.update(digest(made_call, replace(SERVER, state=state)) for state in states)
    assert len(digests) == 2 + len(fields(ToolCall)) + len(fields(JobServer)) + len(states)


def test_the_schema_agrees() -> None:
    def front(text: str) -> Any:
        value = yaml.safe_load(text.split("---\n")[1])
        value["created_utc"] = "2026-11-22T05:00:00Z"
        return value

    SCHEMA.validate(front(mcp()))
    for text in (
        mcp(language="python"),
        mcp(project="web"),
        apply(server="notes"),
        mcp(network="allowlist"),
        mcp(server="no.tes"),
        mcp(inputs=f"[{{name: a, sha256: {'a' * 64}}}]"),
        request({key: value for key, value in MCP_KEYS.items() if key != "tool"}, MCP),
    ):
        assert not read(text).valid and not SCHEMA.is_valid(front(text))
