"""A grant for calls of a tool as an operator gives it: the screen, whose calls, and the commands."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.plugins.grants.granting_bench import GrantingBench
from tests.plugins.tools.tool_bench import CALL, WHERE
from threegate.approval.shown.escaped_lines import render_sections
from threegate.cli import execute
from threegate.core.errors import InvalidInput, Refused
from threegate.plugins.agents.kinds import AgentEnded
from threegate.plugins.grants.promotion import use_grants
from threegate.plugins.grants.standing_grants import list_grants
from threegate.plugins.grants.tool_grants import calls_sections, look_at_calls
from threegate.trail.trail import Trail

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def tools(tmp_path: Path) -> GrantingBench:
    return GrantingBench(tmp_path)


def command(tools: GrantingBench, *words: str, json_: bool = False) -> int:
    first = ["--workspace", str(tools.workspace.root), *(["--json"] if json_ else []), "grant"]
    return execute([*first, *words])


def given(*more: str, tool: str = "issue") -> list[str]:
    words = ["tool", "hub", tool, *more, "--max-uses", "2", "--expires", "8h"]
    for text in WHERE if tool == "issue" else ():
        words += ["--where", text]
    return [*words, *(["--any", "body", "--absent", "token"] if tool == "issue" else [])]


def test_the_commands_and_what_they_show(tools: GrantingBench, capfd: pytest.CaptureFixture[str]) -> None:
    key = ["--key", str(tools.bench.keys["alice"]), "--yes"]
    assert command(tools, *given("--by", ME), *key) == 0
    shown = capfd.readouterr().out
    for line in (
        "  calls       | issue of the server hub",
        f"  asked by    | the account with uid {os.getuid()}",
        "  effect       read, as its contract says",
        "  argument    | body is any string",
        "  argument    | options.rate is from 0 to 1",
        "  argument    | repo has the form acme/*",
        "  not there   | token",
        "any other call",
        '  would run   | {"body":"text","labels":["bug"],"number":1',
        "(token is there)",
        "== WHAT IT REACHES",
        "network: none",
        "== WHAT THE SERVER SAYS ABOUT ITS TOOL",
        "readOnlyHint: true",
    ):
        assert line in shown, (line, shown)
    assert shown.count("  would wait  |") == 3
    assert command(tools, "list") == 0
    assert "calls hub.issue  by alice  0 of 2 used" in capfd.readouterr().out
    grant = list_grants(tools.workspace, Trail(tools.workspace))[0].grant
    assert command(tools, "show", grant.id[:12], json_=True) == 0
    value = json.loads(capfd.readouterr().out)
    assert value["calls"] == "hub.issue" and value["from"] is None
    assert value["pattern"]["call"]["manifest_sha256"] == tools.manifest.digest
    assert "arguments.repo has the form acme/*" in value["widened"]
    assert command(tools, "revoke", grant.id[:12]) == 0
    event = next(event for event in Trail(tools.workspace).events() if event.type == "granted")
    assert event.data["calls"] == "hub.issue" and "from" not in event.data
    capfd.readouterr()
    assert command(tools, *given("--by", ME), *key, json_=True) == 0
    assert json.loads(capfd.readouterr().out)["uses"] == 0


def test_a_tool_without_arguments(tools: GrantingBench, capfd: pytest.CaptureFixture[str]) -> None:
    words = given("--by", ME, tool="now")
    assert command(tools, *words, "--key", str(tools.bench.keys["alice"]), "--yes") == 0
    assert "without arguments" in capfd.readouterr().out
    assert len(use_grants(tools.bench.context, [tools.draft({}, tool="now")])) == 1
    assert use_grants(tools.bench.context, [tools.draft({"more": 1}, tool="now")]) == []


def test_a_write_is_said_in_capitals(tools: GrantingBench, capfd: pytest.CaptureFixture[str]) -> None:
    tools.bench.settings(grants__allow_write=True)
    words = ["tool", "hub", "close", "--any", "repo", "--max-uses", "1", "--expires", "8h", "--by", ME]
    for name in ("number", "labels", "options", "body", "token"):
        words += ["--absent", name]
    assert command(tools, *words, "--key", str(tools.bench.keys["alice"]), "--yes") == 0
    assert "MAY WRITE" in capfd.readouterr().out


def test_whose_calls(tools: GrantingBench) -> None:
    def owner(by: str) -> object:
        context = tools.bench.context
        return look_at_calls(context, "hub", "now", where=(), any_of=(), absent=(), by=by).owner

    with pytest.raises(InvalidInput, match="an account that writes to the inbox"):
        owner("")
    assert owner(ME) == owner(str(os.getuid())) == os.getuid()
    first = tools.run()
    assert owner("") == owner(first.run_id) == first.run_id
    second = tools.run()
    with pytest.raises(InvalidInput, match=rf"--by: .*{second.run_id} \(codex\)"):
        owner("")
    for nobody in ("nobody-here", "4294967295999", "AG-20200101-000000Z-0000"):
        with pytest.raises(InvalidInput, match="neither a run nor an account"):
            owner(nobody)
    tools.bench.context.trail.announce(AgentEnded(run=first.run_id, exit=0), actor="operator:alice")
    assert owner("") == second.run_id


def test_what_cannot_be_granted(tools: GrantingBench, capfd: pytest.CaptureFixture[str]) -> None:
    key = ["--key", str(tools.bench.keys["alice"]), "--yes"]
    assert command(tools, *given("--by", ME, tool="gone"), *key) == 2
    assert "hub has no tool gone" in capfd.readouterr().err
    assert command(tools, "tool", "nowhere", "x", "--max-uses", "1", "--expires", "8h", "--by", ME, *key) == 2
    assert "no such server" in capfd.readouterr().err
    assert command(tools, *given("--by", ME)[:-2], *key) == 2
    assert "token: has no rule" in capfd.readouterr().err
    assert command(tools, *given("--by", ME), "--expires", "soon", *key) == 2
    tools.bench.settings(grants__allow=False)
    with pytest.raises(Refused, match="grants.allow = true"):
        tools.give(by=ME)
    assert use_grants(tools.bench.context, [tools.draft(CALL)]) == []


@pytest.mark.parametrize("stateful", [True, False])
def test_a_grant_says_that_it_needs_no_state(tmp_path: Path, stateful: bool) -> None:
    tools = GrantingBench(tmp_path, stateful=stateful)
    calls = look_at_calls(tools.bench.context, "hub", "now", where=(), any_of=(), absent=(), by=str(ME))
    assert ("runs whatever was called before" in "\n".join(render_sections(calls_sections(calls)))) is stateful
