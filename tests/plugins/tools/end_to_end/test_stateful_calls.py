"""Calls of a stateful server, the whole way: a real daemon, a server in its jail, and an operator who sees what was
called before.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.door_client import daemon, with_door
from tests.plugins.agents.agent_runs import drop, end_run, make_run
from tests.plugins.tools.little_servers import PYTHON, open_folder, write_server
from tests.plugins.tools.notes_server import Notes, notes_server
from tests.plugins.tools.stateful_bench import server_processes
from tests.plugins.tools.tool_bench import CONTRACT
from tests.support import wait_until
from threegate.core.workspace import AgentRun
from threegate.plugins.tools.process_states import count_processes

REMEMBERS = """
import time
TOOLS[0]["inputSchema"] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SEEN = []
def call(id, name, arguments):
    SEEN.append(arguments["text"])
    with open(sys.argv[1] + "/calls", "a") as stream:
        stream.write(json.dumps([name, arguments]) + "\\n")
    time.sleep(60 if arguments["text"] == "sleep" else 0)
    say({"id": id, "result": text(" ".join(SEEN))})
"""


@contextmanager
def remembering(root: Path, **settings: Any) -> Iterator[Notes]:
    """A server that answers with all texts that its process was called with."""
    with notes_server(root, settings=settings) as notes, open_folder() as program:
        path = write_server(program, REMEMBERS)
        notes.program = program
        data = notes.folder / "data"
        data.mkdir()
        data.chmod(0o777)
        command = [PYTHON, str(path), str(data)]
        key = ["--as", "operator", "--key", str(notes.place.key), "--yes"]
        words = ["--stateful", "--bind", f"{data}:rw", *key, "--", *command]
        assert "one for each run of an agent" in notes.place.run("tools", "add", "mind", *words, expect=0).out
        yield notes


def manifest_digest(notes: Notes) -> str:
    return str(notes.place.run("tools", "show", "mind", "--json", expect=0).json()["manifest_sha256"])


def ask(notes: Notes, text: str, run: AgentRun | None = None) -> Path:
    """A draft of a call, as the inbox or a run has it."""
    draft = notes.text("echo", {"text": text}, manifest_digest(notes), server="mind", time_sec=60)
    return drop(notes.workspace.inbox if run is None else run.inbox, draft)


def ended(notes: Notes, draft: Path) -> str:
    """The result's text, once it is there."""
    folders = [notes.workspace.results, *notes.workspace.agents.glob("*/results")]
    pattern = f"TS-*-{draft.stem}.md"
    return str(wait_until(lambda: [path.read_text() for folder in folders for path in folder.glob(pattern)])[0])


def signed(notes: Notes, draft: Path) -> tuple[str, str]:
    """The card as the operator saw it, and the result."""
    card = notes.place.approve(draft).out
    return card, ended(notes, draft)


def processes(notes: Notes) -> int:
    return count_processes(notes.workspace, manifest_digest(notes))


def jailed(notes: Notes) -> int:
    """Processes of the server, seen from outside."""
    return server_processes(notes.program)


FIRST = "none: this call starts a fresh process of the server"


@pytest.mark.slow
def test_state_is_carried_within_a_run_and_shown_before_the_signature(tmp_path: Path) -> None:
    with remembering(tmp_path) as notes, daemon(notes.place):
        run, other = make_run(notes.place), make_run(notes.place)
        first = ask(notes, "one", run)
        card, result = signed(notes, first)
        assert FIRST in card and "status: succeeded" in result and "\none\n" in result
        card, result = signed(notes, ask(notes, "two", run))
        assert "state        what 1 call left in the process " in card
        assert '| echo {"text":"one"}' in card and f"| succeeded, {first.stem}" in card
        assert "\none two\n" in result and "call 2 of its process" in result
        card, result = signed(notes, ask(notes, "three", other))
        assert FIRST in card and "\nthree\n" in result
        assert processes(notes) == jailed(notes) == 2
        assert "stateful, 2 running" in notes.place.run("tools", "list").out
        end_run(notes.place, run)
        wait_until(lambda: processes(notes) == jailed(notes) == 1)
        notes.place.run("tools", "remove", "mind", expect=0)
        wait_until(lambda: jailed(notes) == 0)
        assert notes.place.run("audit", "verify", expect=0)


@pytest.mark.soak
def test_what_was_signed_for_another_state_is_refused(tmp_path: Path) -> None:
    with remembering(tmp_path) as notes:
        drafts = one, two = ask(notes, "one"), ask(notes, "two")
        for draft in drafts:
            assert FIRST in notes.place.approve(draft).out  # no daemon works, so nothing was called yet
        with daemon(notes.place):
            made, refused = sorted((ended(notes, one), ended(notes, two)), key=lambda text: "state_changed" in text)
            assert "status: succeeded" in made
            assert "state_changed" in refused and "status: succeeded" not in refused
            card, result = signed(notes, ask(notes, "three"))
            assert "what 1 call left in the process" in card and " three\n" in result
        assert len((notes.folder / "data/calls").read_text().splitlines()) == 2


@pytest.mark.soak
def test_nothing_is_signed_while_another_call_runs(tmp_path: Path) -> None:
    with remembering(tmp_path) as notes, daemon(notes.place):
        long, later = ask(notes, "sleep"), ask(notes, "later")
        notes.place.approve(long)
        wait_until(lambda: (notes.folder / "data/calls").exists())
        assert "is working on another call" in notes.place.approve(later, expect=2).err
        assert later.exists(), "the draft waits on"
        notes.place.run("cancel", long.stem, "--as", "operator", "--key", str(notes.place.key))
        assert "status: interrupted" in ended(notes, long)
        wait_until(lambda: jailed(notes) == 0)
        card, result = signed(notes, later)
        assert FIRST in card and "\nlater\n" in result


@pytest.mark.slow
def test_a_daemon_that_is_killed_leaves_no_server_and_no_state(tmp_path: Path) -> None:
    with remembering(tmp_path) as notes:
        with daemon(notes.place) as process:
            assert "status: succeeded" in signed(notes, ask(notes, "one"))[1]
            long, later = ask(notes, "sleep"), ask(notes, "later")
            notes.place.approve(long)
            wait_until(lambda: "sleep" in (notes.folder / "data/calls").read_text())
            assert jailed(notes) == 1
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda: jailed(notes) == 0)
        with daemon(notes.place):
            assert "status: interrupted" in ended(notes, long)
            card, result = signed(notes, later)
            assert FIRST in card and "\nlater\n" in result
        assert (notes.folder / "data/calls").read_text().count("sleep") == 1


@pytest.mark.soak
def test_a_grant_that_says_so_lets_calls_through_whatever_was_called_before(tmp_path: Path) -> None:
    with remembering(tmp_path, **{"grants.allow": True}) as notes:
        notes.workspace.contracts.mkdir(exist_ok=True)
        (notes.workspace.contracts / "mind.echo.yaml").write_text(CONTRACT.format(tool="mind.echo", effect="read"))
        run = make_run(notes.place)
        words = [
            "grant",
            "tool",
            "mind",
            "echo",
            "--where",
            "text glob n-*",
            "--max-uses",
            "3",
            "--expires",
            "8h",
        ]
        key = ["--as", "operator", "--key", str(notes.place.key), "--yes"]
        given = notes.place.run(*words, "--by", run.run_id, *key, expect=0)
        assert "STATEFUL" in given.out

        async def work(client: Client) -> None:
            said = ""
            for text in ("n-1", "n-2", "n-3"):
                said += text + " "
                for _ in range(60):
                    answer = await client.call_tool("mind__echo", {"text": text})
                    if "pending" not in answer.model_dump_json():
                        break
                assert answer.content[0].text == said.strip()  # type: ignore[union-attr]

        with daemon(notes.place):
            with_door(notes.place, run, work, "--wait-sec", "1")
        claimed = notes.place.events("claimed")
        assert len(claimed) == 3
        made = ["grant", "new", claimed[0]["request_id"], "--max-uses", "2", "--expires", "8h", *key]
        assert "give it there" in notes.place.run(*made, expect=2).err
