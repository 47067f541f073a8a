"""A real agent calls a real server's tools: a person reads, signs and rejects in the application on a terminal, or has
granted it.

The folder of the server is not in the agent's jail, so what the agent knows of it came through the door.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.plugins.agents.people import Person, as_account
from tests.plugins.agents.real_agents import AGENTS, Agent
from tests.plugins.agents.scripted_model import Call, Model, NextStep, Say, Turn
from tests.plugins.agents.terminal import Terminal
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives
from tests.plugins.agents.test_real_agents_session import after, employ, has, headless
from tests.plugins.tools.behind_the_gate import NODE, installed
from tests.plugins.tools.tool_bench import CONTRACT

EACH = [
    pytest.param(agent, id=agent.name, marks=() if agent.name == "codex" else pytest.mark.soak)
    for agent in AGENTS
    if agent.in_ci
]
MONDAY, TUESDAY = "Bees in the garden.\n", "Rain all day.\n"
CHOSEN = ("--tools", "diary/read_text*", "--tools", "diary/write_file")
SAID_NO = "monday is written already"


@contextmanager
def working(who: Person, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of theirs at work; ended with the block if it goes on."""
    process = subprocess.Popen(
        who.command(*words), env=who.environ(), cwd=who.home, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **as_account(who.account),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def signed(who: Person, *words: str) -> tuple[str, ...]:
    """A command with the operator's signature."""
    return (*words, "--as", "operator", "--key", str(who.key), "--yes")


def add_server(who: Person) -> None:
    """The server of files from npm with the diary as its folder, and contracts: one tool reads, the others write."""
    diary = who.home / "diary"
    diary.mkdir()
    (diary / "monday.txt").write_text(MONDAY)
    (diary / "tuesday.txt").write_text(TUESDAY)
    settings = who.workspace / "threegate.toml"
    settings.write_text(settings.read_text().replace("# allow = false", "allow = true"))
    for tool, effect in (("diary.read_text_file", "read"), ("diary.*", "write")):
        path = who.workspace / "tool-exec" / "contracts" / f"{tool}.yaml"
        path.write_text(CONTRACT.format(tool=tool, effect=effect))
    who.own()
    program = installed("mcp-servers") / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    add = signed(who, "tools", "add", "diary", "--bind", f"{diary}:rw")
    done = who.threegate(*add, "--", NODE, str(program), str(diary))
    assert done.returncode == 0, done


def read_card(screen: Terminal, tool: str) -> str:
    """Open the call of a tool when it waits, and page to its end; all of its screens, with single blanks."""
    screen.wait_for(f"reaches the tool {tool[:8]}", 90)  # a granted one may be in the list just before it is made
    screen.type("\r")
    screen.wait_for(r"lines 1-\d+ of")  # the list has the beginning of a card, too
    pages = [screen.shown()]
    while not re.search(r"of [1-9]\d*, all seen", pages[-1]):
        assert len(pages) < 60, pages[-1]
        screen.press(" ", seconds=0.3)
        pages.append(screen.shown())
    return " ".join(" ".join(pages).split())


@pytest.mark.parametrize("agent", EACH)
@pytest.mark.slow
def test_signed_granted_and_rejected(agent: Agent, user: Person, model: Callable[[Sequence[NextStep]], Model]) -> None:
    diary = user.home / "diary"
    monday, tuesday = str(diary / "monday.txt"), str(diary / "tuesday.txt")

    def granted(turn: Turn) -> Call:
        """The person has just read what one call answers, and lets this run make one more like it."""
        assert MONDAY.strip() in turn.result, turn.result
        seen = {name for name in ("read_text_file", "write_file", "list_directory") if name in str(turn.tools)}
        assert seen == {"read_text_file", "write_file"}
        rules = ("--where", f"path under {diary}", "--absent", "head", "--absent", "tail")
        uses = ("--by", user.facts()["run"], "--max-uses", "1", "--expires", "1h")
        done = user.threegate(*signed(user, "grant", "tool", "diary", "read_text_file", *rules, *uses))
        assert done.returncode == 0 and "would wait" in done.stdout, done
        return Call("read_text_file", {"path": tuesday})

    def told(turn: Turn) -> Say:
        assert has("refused", SAID_NO)(turn.result), turn.result
        return Say(f"It says: {TUESDAY.strip()} And of the change: {SAID_NO}.")

    script = model([
        agent.shell(f"cat {monday}"),
        after(has("No such file"), Call("read_text_file", {"path": monday})),
        granted,
        after(has(TUESDAY.strip()), Call("write_file", {"path": monday, "content": "Wasps.\n== REQUEST\n"})),
        told,
    ])  # fmt: skip
    employ(user, agent, script)
    add_server(user)
    review = user.command("review", "--key", str(user.key))
    shape = {"columns": 100, "cwd": user.home, "environment": user.environ()}
    with (
        working(user, "run"),
        working(user, *user.words(*headless(agent), profile=agent.name, options=CHOSEN)) as session,
        Terminal(review, **shape, **as_account(user.account)) as screen,
    ):
        read = read_card(screen, "read_text_file")
        screen.type("a")
        screen.wait_for(r"\[y/n\]")
        screen.type("y")
        screen.wait_for("UNDECIDED: 0")
        write = read_card(screen, "write_file")
        screen.type("r")
        screen.wait_for("Reject for good")
        screen.type(SAID_NO)
        screen.wait_for(SAID_NO)
        screen.type("\r")
        screen.wait_for("UNDECIDED: 0")
        screen.type("q")
        assert screen.wait_end() == 0
        said = session.communicate(timeout=60)[0].decode()
    script.check()
    assert session.returncode == 0 and TUESDAY.strip() in said and SAID_NO in said, said
    assert (diary / "monday.txt").read_text() == MONDAY

    for card, tool in ((read, "read_text_file"), (write, "write_file")):
        for words in (
            f"reach | the tool {tool} of the server diary",
            f"of the agent {agent.name}",
            "can run yes, the gates would let it pass now",
            f'"path": "{monday}"',
            "== WHAT THE SERVER SAYS ABOUT ITS TOOL",
        ):
            assert words in card, f"no {words}: {card}"
    assert "risk medium, as declared" in read and "risk high" in write
    assert r'"content": "Wasps.\n== REQUEST\n"' in write, "an argument makes no line of its own"

    [grant] = user.events("granted")
    [rejected] = user.events("rejected")
    assert rejected["message"] == SAID_NO
    lines = (user.workspace / "tool-exec" / "audit" / "trail.jsonl").read_text().splitlines()
    claimed = [event for event in map(json.loads, lines) if event["type"] == "claimed"]
    assert [event["data"].get("grant") for event in claimed] == [None, grant["grant"]]
    shown = [user.threegate("show", event["request_id"]).stdout for event in claimed]
    under = f"under grant {grant['grant']}, given by operator; not signed individually"
    assert [under in text for text in shown] == [False, True]
    wait_until_nothing_lives(user)
    assert user.threegate("audit", "verify").returncode == 0
