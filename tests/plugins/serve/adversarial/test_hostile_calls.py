"""What an agent can try through its door: other files than its own, other requests than its own, sizes, links and
nonsense.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.door_client import with_door
from tests.plugins.agents.agent_runs import make_run
from tests.support import Place, make_place
from threegate.core import limits
from threegate.core.errors import InvalidInput
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.door_files import read_files

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def run(place: Place) -> AgentRun:
    return make_run(place)


def test_files_are_reached_beneath_the_work_copy_and_through_no_link(place: Place, run: AgentRun) -> None:
    tree = run.work / "tree"
    outside = place.root.parent / "outside.txt"
    outside.write_text("the operator's")
    (tree / "folder").mkdir()
    (tree / "plain.txt").write_text("mine")
    os.link(outside, tree / "hard.txt")
    os.symlink(outside, tree / "link.txt")
    os.symlink(outside.parent, tree / "way")
    os.symlink("plain.txt", tree / "inside.txt")
    os.mkfifo(tree / "fifo")
    workspace = Workspace(place.root)
    assert read_files(workspace, run, ("plain.txt",)) == [("plain.txt", b"mine")]
    for path in (
        "../../../threegate.toml",
        "/etc/passwd",
        "",
        ".",
        "folder",
        "folder//x",
        "./plain.txt",
        "plain.txt/x",
        "way/outside.txt",
        "link.txt",
        "hard.txt",
        "inside.txt",
        "fifo",
        "plain.txt\0",
        "../state/x",
        "x" * 5_000,
    ):
        with pytest.raises(InvalidInput):
            read_files(workspace, run, (path,))


def test_a_file_of_a_gibibyte_is_not_read(place: Place, run: AgentRun) -> None:
    with (run.work / "tree" / "big").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(InvalidInput, match="MiB together"):
        read_files(Workspace(place.root), run, ("big",))


@pytest.mark.root
def test_of_an_overlay_the_agents_layer_hides_the_base(place: Place, run: AgentRun) -> None:
    from threegate.plugins.agents.runs import RunFacts

    base = place.root.parent / "project"
    (base / "sub").mkdir(parents=True)
    (base / "seen.txt").write_text("base")
    (base / ".env").write_text("hidden")
    (base / "later").write_text("new")
    upper, names = run.work / "upper", run.work / "names"
    upper.mkdir()
    (names / "sub").mkdir(parents=True)
    (names / "seen.txt").touch()
    os.symlink(base, upper / "sub")
    RunFacts(profile="codex", started_utc="", root=str(base), copy="overlay").write(run)
    workspace = Workspace(place.root)
    assert read_files(workspace, run, ("seen.txt",)) == [("seen.txt", b"base")]
    for path in (".env", "later", "sub/seen.txt", "sub"):
        with pytest.raises(InvalidInput):
            read_files(workspace, run, (path,))
    (upper / "seen.txt").write_text("mine")
    assert read_files(workspace, run, ("seen.txt",)) == [("seen.txt", b"mine")]


def test_hostile_arguments_get_one_line_that_repeats_no_value(place: Place, run: AgentRun) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("run_python", {"code": "1", "purpose": SECRET * 40}),
        ("run_python", {"code": ["1"], "purpose": "x"}),
        ("run_python", {"code": "1", "purpose": "x", SECRET: 1}),
        ("run_python", {"code": "1", "purpose": "x", "inputs": [SECRET]}),
        ("run_python", {"code": "1", "purpose": "x", "where": SECRET}),
        ("run_python", {"code": "1", "purpose": "x", "wait_sec": 1e300}),
        ("run_python", {"code": "1", "purpose": "x", "files": ["a"] * 1_000}),
        ("run_program", {"argv": "rm -rf /", "purpose": "x"}),
        ("run_program", {"argv": [], "purpose": "x"}),
        ("run_program", {"argv": ["true"], "purpose": "x", "hosts": [SECRET]}),
        ("read_output", {"request_id": "../../audit", "path": "x"}),
        ("read_output", {"request_id": "x", "path": "y", "length": 1 << 30}),
        ("read_output", {"request_id": "x", "path": "y", "offset": -1}),
        ("wait", {"request_id": "x" * 129}),
        ("wait", {"request_id": "x", "wait_sec": 1 << 50}),
        ("cancel", {"request_id": ["x"]}),
        ("requests", {"of": "everybody"}),
    ]

    async def work(client: Client) -> None:
        for name, arguments in calls:
            said = await client.call_tool(name, arguments)
            text = said.content[0].text
            assert said.is_error and SECRET not in text and "\n" not in text and len(text) < 2_000, (
                name,
                text,
            )
            assert "Traceback" not in text and str(place.root) not in text

    with_door(place, run, work)
    assert not list(run.inbox.glob("*.md"))


def test_what_lies_in_a_runs_files_is_hashed_not_believed(place: Place, run: AgentRun) -> None:
    """An agent that can write into its inbox plants other bytes under the digest that its door's next call will
    name.
    """
    from threegate.core.canonical import sha256_hex

    (run.work / "tree" / "a.txt").write_text("good")
    (run.files / sha256_hex(b"good")).write_text("evil")

    async def ask(client: Client) -> None:
        await client.call_tool("run_python", {"code": "1", "purpose": "x", "files": ["a.txt"], "wait_sec": 0})

    with_door(place, run, ask)
    place.once()
    (verdict,) = run.verdicts.glob("*.json")
    assert '"reason": "TG903"' in verdict.read_text()


@pytest.mark.slow
def test_a_flood_of_one_run_leaves_the_others_their_turn(place: Place, run: AgentRun) -> None:
    other = make_run(place)
    for number in range(limits.AGENT_INBOX_ENTRIES + 50):
        (run.inbox / f"TR-{number:05}.md").write_text("---\n")

    async def ask(client: Client) -> None:
        await client.call_tool("run_python", {"code": "1", "purpose": "x", "wait_sec": 0})

    with_door(place, other, ask)
    place.once()
    (verdict,) = other.verdicts.glob("*.json")
    assert '"state": "draft"' in verdict.read_text()
    assert len(list(run.verdicts.iterdir())) <= limits.AGENT_INBOX_ENTRIES
    events = [event["data"].get("run") for event in place.events("validated")]
    assert events.count(other.run_id) == 1
    assert events.count(run.run_id) <= 2 * limits.TRAIL_EVENTS_PER_OWNER_MINUTE
