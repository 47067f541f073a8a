"""The same 495 shared events at one clock through every surface: command line, Python, HTTP, MCP and TypeScript.

The clock is put in here, in this process: the HTTP and MCP servers that are asked run in it. Only `threegate validate
--as aana` has an option for it, which it always had.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from mcp import Client

from tests.support import threegate
from threegate import aana
from threegate.plugins.serve.http_app import HttpOptions, create_app
from threegate.plugins.serve.listening import bind, url_of
from threegate.plugins.serve.mcp_server import ToolServer

DATA = Path(__file__).parents[3] / "data"
CLOCK = "2026-05-14T00:00:00Z"
NOW = datetime.fromisoformat(CLOCK)
EVENTS: list[dict[str, Any]] = [
    json.loads(line)["event"]
    for name in ("aana_cases.jsonl", "aana_recorded.jsonl")
    for line in (DATA / name).read_text().splitlines()
]
Envelopes = list[dict[str, Any]]


def by_command(folder: Path) -> Envelopes:
    """`threegate validate --as aana --jsonl --now` as a process of its own."""
    events = folder / "events.jsonl"
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    log = folder / "command.jsonl"
    done = threegate("validate", "--as", "aana", str(events), "--jsonl", "--now", CLOCK, "--log", str(log), cwd=folder)
    assert done.code == 2, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def by_python(folder: Path) -> Envelopes:
    """`check_tool_call`, in this process."""
    return [aana.check_tool_call(event, now=NOW) for event in EVENTS]


def by_mcp(folder: Path) -> Envelopes:
    """The MCP server of `threegate serve mcp`, by the protocol's own client."""
    server = ToolServer(log=aana.DecisionLog(folder / "mcp.jsonl"), requester=None, now=lambda: NOW).server()

    async def go() -> Envelopes:
        found = []
        async with Client(server, read_timeout_seconds=60) as client:
            for event in EVENTS:
                result = await client.call_tool("aana_pre_tool_check", event)
                assert result.structured_content is not None and not result.is_error
                found.append(result.structured_content)
        return found

    return asyncio.run(go())


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The HTTP server of `threegate serve http`, on a thread of this process."""
    log = aana.DecisionLog(tmp_path / "http.jsonl")
    app = create_app(HttpOptions(token=None, log=log, per_minute=1_000_000, now=lambda: NOW))
    listener = bind("127.0.0.1", 0, reachable=False)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield url_of(listener)
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def by_http(url: str) -> Envelopes:
    """POST /pre-tool-check."""
    with httpx.Client(timeout=60) as client:
        answers = [client.post(f"{url}/pre-tool-check", json=event) for event in EVENTS]
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


def by_typescript(url: str, package: Path) -> tuple[Envelopes, list[bool]]:
    """`checkToolPrecheck` and `shouldExecuteTool` in Node, asking the same server."""
    done = subprocess.run(
        ["node", "tests/conformance.mjs", url], cwd=package, capture_output=True, text=True, timeout=120,
        input="".join(json.dumps(event) + "\n" for event in EVENTS),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["envelope"] for line in lines], [line["executes"] for line in lines]


def row(surface: str, envelopes: Envelopes, executes: list[bool], expected: Envelopes) -> str:
    """One line of the table."""
    routes = Counter(envelope["route"] for envelope in envelopes)
    counts = " | ".join(f"{routes[route]:>6}" for route in ("accept", "ask", "defer", "refuse"))
    different = sum(one != other for one, other in zip(envelopes, expected, strict=True))
    return f"| {surface:<12} | {len(envelopes):>6} | {counts} | {sum(executes):>8} | {different:>9} |"


@pytest.mark.slow
def test_five_surfaces_give_the_same_envelopes(package: Path, url: str, tmp_path: Path) -> None:
    expected = by_python(tmp_path)
    asked: dict[str, Callable[[], Envelopes]] = {
        "command line": lambda: by_command(tmp_path),
        "HTTP": lambda: by_http(url),
        "MCP": lambda: by_mcp(tmp_path),
    }
    found = {"Python": expected, **{name: ask() for name, ask in asked.items()}}
    executes = {name: [aana.should_execute_tool(item) for item in items] for name, items in found.items()}
    found["TypeScript"], executes["TypeScript"] = by_typescript(url, package)

    print("\n| surface      | events | accept |    ask |  defer | refuse | executes | different |")
    print("|--------------|-------:|-------:|-------:|-------:|-------:|---------:|----------:|")
    for name, envelopes in found.items():
        print(row(name, envelopes, executes[name], expected))
    assert len(EVENTS) == 495
    for name, envelopes in found.items():
        assert envelopes == expected, name
        assert executes[name] == executes["Python"], name
    assert sum(executes["Python"]) >= 8
    for envelope in expected:
        assert envelope["route"] == envelope["audit_safe_log_event"]["route"] == envelope["recommended_action"]

    audited = [envelope["audit_safe_log_event"] for envelope in expected]
    for name, times in (("command", 1), ("mcp", 1), ("http", 2)):
        lines = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        assert len(lines) == 495 * times, name
        for line, event in zip(lines, audited * times, strict=True):
            assert {key: line[key] for key in event} == event, name


@pytest.mark.slow
def test_offline_the_form_is_judged_as_python_does(package: Path) -> None:
    """`validateEvent` and `validate_event` find fault with the same events: the shared ones, and each with one
    change.
    """
    events: list[Any] = [*EVENTS, None, [], "x", {}]
    for event in EVENTS[::7]:
        for key in event:
            events.append({name: value for name, value in event.items() if name != key})
            events += [{**event, key: value} for value in (None, 5, "", "x", [], {}, ["a"], {"a": 1}, "revise")]
        events.append({**event, "more": 1})
        events.append({**event, "schema_version": "aana.agent_tool_precheck.v1"})
        refs = [ref for ref in event["evidence_refs"] if isinstance(ref, dict)]
        for ref in refs[:1]:
            for key in (*ref, "more", "freshness", "supports"):
                events += [
                    {**event, "evidence_refs": [{**ref, key: value}]}
                    for value in (None, "x", [], ["x"], [1], {"status": "new"}, {"age_hours": 1.5})
                ]
    code = (
        "import { createInterface } from 'node:readline'; import { validateEvent } from './dist/index.js';"
        "for await (const line of createInterface({ input: process.stdin }))"
        " console.log(JSON.stringify(validateEvent(JSON.parse(line))));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", code], cwd=package, capture_output=True, text=True, timeout=120,
        input="".join(json.dumps(event) + "\n" for event in events),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    faults = [bool(json.loads(line)) for line in done.stdout.splitlines()]
    expected = [bool(aana.validate_event(event)) for event in events]
    assert [json.dumps(event) for event, one, other in zip(events, faults, expected, strict=True) if one != other] == []
    assert len(events) > 2_000 and 500 < sum(expected) < len(events)
