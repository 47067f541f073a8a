"""Which tools of servers an agent sees and may call: what was chosen for its run; the door refuses the rest."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.agents.people import Person
from tests.plugins.tools.tool_bench import CALL, ToolBench
from threegate.core.errors import InvalidInput, Refused
from threegate.core.settings import parse_settings
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.door import Door
from threegate.plugins.agents.door_tools import OfferedTool, offered_tools
from threegate.plugins.agents.runs import RunFacts
from threegate.plugins.agents.tool_choice import chosen_tools, is_chosen, told_choice
from threegate.plugins.changes.section import AgentsSettings
from threegate.plugins.tools.call_draft import tool_call
from threegate.plugins.tools.kinds import ToolsAdded
from threegate.plugins.tools.manifest import door_name
from threegate.plugins.tools.requested_call import call_problem, requested_call
from threegate.trail.index import TrailIndex


@pytest.fixture
def tools(tmp_path: Path) -> ToolBench:
    return ToolBench(tmp_path)


def started(tools: ToolBench, choice: Sequence[str]) -> AgentRun:
    run = tools.run()
    RunFacts(profile="codex", started_utc="", root=str(run.folder), tools=tuple(choice)).write(run)
    return run


def ask(tools: ToolBench, run: AgentRun, tool: str, arguments: Any = CALL) -> Any:
    async def tell(waited: float, seconds: float, what: str) -> None:
        pass

    return asyncio.run(Door(tools.workspace, run, 0).call(f"hub__{tool}", arguments, tell)).value


@pytest.mark.parametrize(
    ("choice", "seen"),
    [
        ((), {"hub__issue", "hub__now", "hub__close"}),
        (("hub",), {"hub__issue", "hub__now", "hub__close"}),
        (("hub/issue", "hub/n*"), {"hub__issue", "hub__now"}),
        (("hub/*s*", "other"), {"hub__issue", "hub__close"}),
        (("hu",), set()),
        (("Hub/issue", "hub/Issue", "hub/ISS*"), set()),
    ],
)
def test_the_door_offers_what_was_chosen_and_refuses_the_rest(
    tools: ToolBench, choice: tuple[str, ...], seen: set[str]
) -> None:
    run = started(tools, choice)
    assert set(Door(tools.workspace, run, 0).offered()) == seen
    for name in ("issue", "now", "close"):
        arguments = {} if name == "now" else CALL
        if f"hub__{name}" in seen:
            assert ask(tools, run, name, arguments)["status"] == "pending"
        else:
            with pytest.raises(InvalidInput, match=rf"hub/{name} is not among the tools of this run \({choice[0]}"):
                ask(tools, run, name, arguments)
    assert len(list(run.inbox.glob("TR-*.md"))) == len(seen)


@pytest.mark.parametrize("choice", [("hub/issue",), ("hubs", "hub/iss*"), ("HUB",)])
def test_a_draft_of_the_agents_own_calls_no_other_tool(tools: ToolBench, choice: tuple[str, ...]) -> None:
    """It may write into its inbox, and a grant or a hurried person would say yes."""
    run = tools.run(tools=choice)
    with tools.bench.context.trail.locked() as held:
        for tool in ("issue", "now", "close"):
            chosen = tool == "issue" and choice[0] != "HUB"
            call = tool_call("hub", tool, tools.manifest.digest, CALL if tool == "issue" else {})
            assert (call_problem(tools.workspace, held.index, call, run.run_id) is None) is chosen
            if chosen:
                requested_call(tools.workspace, held.index, call, run.run_id)
                continue
            with pytest.raises(Refused, match=f"hub/{tool} is not among the tools of this run") as refused:
                requested_call(tools.workspace, held.index, call, run.run_id)
            assert refused.value.code == "tools_unknown"
            if tool != "close":
                requested_call(tools.workspace, held.index, call, os.geteuid())


def test_a_run_that_the_trail_does_not_know_calls_nothing(tools: ToolBench) -> None:
    """What was chosen for it is unknown."""
    call = tool_call("hub", "issue", tools.manifest.digest, CALL)
    with tools.bench.context.trail.locked() as held, pytest.raises(Refused, match="is not in the trail") as refused:
        requested_call(tools.workspace, held.index, call, "ar-20260101-000000z-00000000")
    assert refused.value.code == "tools_unknown"


def test_a_choice_survives_the_saved_index(tools: ToolBench) -> None:
    run = tools.run(tools=("hub/issue", "other"))
    with tools.bench.context.trail.locked() as held:
        index = TrailIndex()
        index.begin_from(json.loads(json.dumps(held.index.to_header())))
    known = index.run(run.run_id)
    assert known is not None and known.tools == ("hub/issue", "other") and known.closed_hosts == ()


def test_who_chooses() -> None:
    """The command line, else the run that is continued, else the project, else the profile."""
    settings = parse_settings(
        b'[agents.projects]\napp = ["git", "memory/read_*"]\n[agents.codex]\ntools = ["hub"]\n'
    ).section(AgentsSettings)

    def choice(typed: Sequence[str] = (), before: Sequence[str] = (), project: str = "", profile: str = "codex") -> Any:
        return chosen_tools(typed, before, settings, project=project, profile=profile)

    assert choice(["a/b"], ["c"], "app") == ("a/b",)
    assert choice((), ["c"], "app") == ("c",)
    assert choice(project="app") == ("git", "memory/read_*")
    assert choice(project="site") == ("hub",)
    assert choice(profile="claude") == ()
    for word in ("", "*", "hub/", "hub/a/b", "hub/[a]", "hub issue", "-x", "hub/a\nb"):
        with pytest.raises(InvalidInput, match="write SERVER, or SERVER.TOOL"):
            choice([word])


@pytest.mark.parametrize(
    ("text", "names"),
    [('[agents.projects]\napp = ["*"]', "agents.projects"), ('[agents.codex]\ntools = ["hub/[a]"]', "tools")],
)
def test_settings_that_name_no_tool_are_refused(text: str, names: str) -> None:
    with pytest.raises(InvalidInput, match=names):
        parse_settings(text.encode()).section(AgentsSettings)


def test_the_person_reads_how_many(tools: ToolBench) -> None:
    known = offered_tools(tools.workspace, tools.bench.context.trail).values()
    assert told_choice((), ()) == ""
    assert told_choice((), known) == "tools of servers: all 3 (fewer: --tools SERVER/TOOL)"
    assert told_choice(("hub/now", "hubs"), known) == (
        "tools of servers: 1 of 3, by hub/now, hubs; none has the name hubs: threegate tools list"
    )
    assert told_choice(("hub",), ()).startswith("tools of servers: 0 of 0, by hub; none has the name hub")


def test_tools_that_have_one_name_at_the_door_are_not_offered(
    tools: ToolBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A digest of six digits can be met on purpose: nobody could say which tool is meant."""
    other = replace(tools.manifest, server="hub2")
    (tools.workspace.tools / "hub2.json").write_bytes(other.to_bytes())
    tools.bench.context.trail.announce(
        ToolsAdded(server="hub2", files={"tools/hub2.json": other.digest}), actor="operator:alice"
    )
    met = {"hub2": "hub__now", "hub": "hub__now"}
    monkeypatch.setattr(
        "threegate.plugins.agents.door_tools.door_name",
        lambda server, tool: met[server] if tool == "now" else door_name(server, tool),
    )
    found = offered_tools(tools.workspace, tools.bench.context.trail)
    assert set(found) == {"hub__issue", "hub__close", "hub2__issue", "hub2__close"}
    assert all(isinstance(tool, OfferedTool) and is_chosen((), tool) for tool in found.values())


def test_a_run_records_what_was_chosen(user: Person) -> None:
    """With a real jail; no server was added, so the person reads that nothing has the name."""
    done = user.run("/bin/true", options=("--tools", "My_notes/read_*", "--tools", "git"))
    assert done.returncode == 0, done
    assert "tools of servers: 0 of 0, by My_notes/read_*, git; none has the name My_notes/read_*, git" in done.stderr
    [began] = user.events("agent_started")
    assert began["tools"] == ["My_notes/read_*", "git"]
    assert "of tool servers it may call My_notes/read_*, git" in user.threegate("audit", "show").stdout
    again = user.threegate("agent", "continue", began["run"], "--", "/bin/true")
    assert again.returncode == 0 and "0 of 0, by My_notes/read_*, git" in again.stderr, again
    assert user.events("agent_started")[-1]["tools"] == ["My_notes/read_*", "git"]
    wrong = user.run("/bin/true", options=("--tools", "a/b/c"))
    assert wrong.returncode == 2 and wrong.stderr.strip() == (
        "threegate: --tools a/b/c: write SERVER, or SERVER/TOOL with * for any text"
    )
    assert len(user.events("agent_started")) == 2


def test_the_choice_of_a_project_counts_where_nothing_can_be_applied(user: Person) -> None:
    """The project is another folder than the one that was registered; then nobody knows which project it is."""
    assert user.run("/bin/true").returncode == 0
    user.settings('[agents.projects]\nproject = ["hub/read_*"]\n')
    user.project.rename(user.project.with_name("aside"))
    shutil.copytree(user.project.with_name("aside"), user.project)  # another folder: nothing is applied to it
    user.own()
    changed = user.run("/bin/true")
    assert "can be viewed but not applied" in changed.stderr and "by hub/read_*;" in changed.stderr, changed
    assert user.events("agent_started")[-1]["tools"] == ["hub/read_*"]
    projects = user.workspace / "tool-exec" / "projects.json"
    projects.write_bytes(projects.read_bytes() + b"\n")
    unknown = user.run("/bin/true")
    assert unknown.returncode == 2 and "projects.json: was changed by hand" in unknown.stderr, unknown
    assert len(user.events("agent_started")) == 2
