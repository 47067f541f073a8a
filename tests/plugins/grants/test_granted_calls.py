"""A grant for a tool, the whole way: a real agent's door, a real daemon, a real server, and nobody at the keyboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.door_client import daemon, with_door
from tests.plugins.agents.agent_runs import make_run
from tests.plugins.tools.notes_server import Notes, notes_server
from tests.plugins.tools.tool_bench import CONTRACT

WAITS = ("--wait-sec", "1")


def give(notes: Notes, by: str) -> str:
    contracts = notes.workspace.contracts
    contracts.mkdir(exist_ok=True)
    (contracts / "notes.add.yaml").write_text(CONTRACT.format(tool="notes.add", effect="read"))
    words = [
        "grant",
        "tool",
        "notes",
        "add",
        "--where",
        "text glob note-*",
        "--max-uses",
        "2",
        "--expires",
        "8h",
    ]
    key = ["--as", "operator", "--key", str(notes.place.key), "--yes"]
    assert "would wait" in notes.place.run(*words, "--by", by, *key, expect=0).out
    return str(notes.place.events("granted")[0]["data"]["grant"])


@pytest.mark.slow
def test_a_granted_call_is_made_and_every_other_waits(tmp_path: Path) -> None:
    with notes_server(tmp_path, settings={"grants.allow": True}) as notes:
        run, other = make_run(notes.place), make_run(notes.place)
        grant = give(notes, run.run_id)
        heard: list[str] = []

        async def ask(client: Client, text: str) -> Any:
            answer = await client.call_tool("notes__add", {"text": text})
            heard.append(answer.model_dump_json())
            return answer.structured_content

        async def made(client: Client, text: str) -> None:
            """The same call finds the same request until that has ended."""
            for _ in range(60):
                answer = await ask(client, text)
                if "pending" not in json.dumps(answer):
                    break
            assert answer == {"count": 1}

        async def waits(client: Client, text: str) -> None:
            assert (await ask(client, text))["status"] == "pending"

        async def first(client: Client) -> None:
            await made(client, "note-1")
            await waits(client, "note/2")

        async def third(client: Client) -> None:
            await made(client, "note-3")
            await waits(client, "note-4")

        with daemon(notes.place):
            with_door(notes.place, run, first, *WAITS)
            with_door(notes.place, other, lambda client: waits(client, "note-2"), *WAITS)
        with daemon(notes.place):
            with_door(notes.place, run, third, *WAITS)
        assert notes.calls == [["add", {"text": "note-1"}], ["add", {"text": "note-3"}]]
        claimed = notes.place.events("claimed")
        assert [event["data"]["grant"] for event in claimed] == [grant, grant]
        said = f"under grant {grant}, given by operator; not signed individually"
        assert said in notes.place.run("show", claimed[0]["request_id"], expect=0).out
        assert "2 of 2 used" in notes.place.run("grant", "list", expect=0).out
        for answer in heard:
            assert "note-*" not in answer and "grant" not in answer and "operator;" not in answer
        assert notes.place.run("audit", "verify", expect=0)
