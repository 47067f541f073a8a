"""A whole session of real agent programs in the jail: a scripted model, the door, a daemon, and a person who signs.

They read, edit, run a test, ask for a run, propose changes, are refused, fix what was refused, and what a person signed
is applied. Nothing else of the person's changes.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.plugins.agents.conftest import EACH_AGENT, IN_CI
from tests.plugins.agents.npm_agents import Unavailable, install
from tests.plugins.agents.people import Person, as_account, person
from tests.plugins.agents.real_agents import Agent
from tests.plugins.agents.scripted_model import Call, Model, NextStep, Say, Turn
from tests.plugins.agents.signing_desk import SigningDesk, refuse, sign, sign_after_a_kill
from tests.plugins.agents.terminal import Terminal
from tests.plugins.agents.test_agent_run_command import wait_until_nothing_lives

KEY = "sk-the-operators-own-key-0123456789"
END = "All done here."
PROMPT = "Do what the script says."
DOOR = {"run_python", "run_program", "propose_changes", "request_host", "wait", "requests", "read_output", "cancel"}
BROKEN = "def add(a, b):\n    return a - b\n"
HURRIED = "def add(a, b):\n    return a + b  # TODO: think\n"
FIXED = "def add(a, b):\n    return a + b\n"
UNITTEST = """\
import unittest
from app import add

class Adding(unittest.TestCase):
    def test_two_and_two(self):
        self.assertEqual(add(2, 2), 4)
"""
SAID_NO = "no TODO in the code"


def employ(who: Person, agent: Agent, model: Model) -> None:
    """Let somebody have this agent with this model, by their settings."""
    try:
        folder = install(agent.name)
    except Unavailable as error:
        missing(str(error))
    program = next(path for place in agent.path if (path := folder / place / agent.program).exists())
    who.environment["PATH"] = ":".join([*(str(folder / place) for place in agent.path), "/usr/local/bin:/usr/bin:/bin"])
    secret = who.home / ".model-key"
    secret.write_text(KEY + "\n")
    secret.chmod(0o600)
    names = ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"]
    who.settings(
        f'\n[secrets.model]\nfile = "{secret}"\nhost = "127.0.0.1"\n\n[agents.{agent.name}]\nprogram = "{program}"\n'
        f'url = "{model.url}"\nmodels = {json.dumps(names if agent.name == "gemini" else ["scripted"])}\nkey = "model"\n'  # noqa: E501
        "wait_sec = 240\n"
    )
    (who.project / "app.py").write_text(BROKEN)
    (who.project / "test_app.py").write_text(UNITTEST)
    who.own()


def headless(agent: Agent) -> tuple[str, ...]:
    """The agent's own words for one prompt; what the profile says already is left out."""
    words = {"codex": ("exec", "--skip-git-repo-check"), "opencode": ("run",)}
    return (*words.get(agent.name, ("-p",)), PROMPT)


def after(check: Callable[[str], bool], step: Call | Say) -> NextStep:
    """The next step of a model that got what it should have."""

    def chosen(turn: Turn) -> Call | Say:
        assert check(turn.result), turn.result
        return step

    return chosen


def has(*words: str) -> Callable[[str], bool]:
    """Whether an answer has all of these."""
    return lambda text: all(word in text for word in words)


def session(agent: Agent, project: Path) -> list[NextStep]:
    """What the model does."""
    app = str(project / "app.py")
    return [
        agent.read(app),
        after(has("a - b"), agent.write(app, HURRIED)),
        agent.shell(
            "env; cat /proc/1/environ $HOME/.model-key .env 2>/dev/null; ls /run; python3 -B -m unittest test_app 2>&1"
        ),
        after(
            has("OK", "door.sock"),
            Call("run_python", {"code": "import socket", "purpose": "Look around.", "where": "monty"}),
        ),
        after(
            has("refused", "no module socket"),
            Call("run_python", {"code": "print(6 * 7)", "purpose": "Ask for a number."}),
        ),
        after(has("succeeded", "42"), Call("propose_changes", {"purpose": "Let add add."})),
        after(has("refused", SAID_NO), agent.read(app)),
        agent.write(app, FIXED),
        Call("propose_changes", {"purpose": "Let add add, and nothing to do."}),
        after(has("succeeded"), Say(END)),
    ]


@pytest.mark.parametrize("agent", EACH_AGENT)
def test_a_session_from_reading_to_applied(
    agent: Agent, user: Person, model: Callable[[Sequence[NextStep]], Model]
) -> None:
    """The daemon is killed once on the way."""
    script = model(session(agent, user.project))
    employ(user, agent, script)
    before = user.outside()
    with SigningDesk(user, [sign_after_a_kill, refuse(SAID_NO), sign]).open():
        done = user.run(*headless(agent), profile=agent.name, timeout=400)
        script.check()
    assert done.returncode == 0 and END in done.stdout, done
    first, results = script.turns[0], "\n".join(script.turns[-1].results)
    assert PROMPT in first.user and {turn.protocol for turn in script.turns} == {agent.protocol}
    assert all(first.find(tool) for tool in DOOR), "the tools are there from the first turn on"
    assert KEY not in results and "CANARY" not in results
    assert {turn.key for turn in [*script.turns, *script.asides]} == {KEY}, "the relay put it in"
    now = user.outside()
    assert now.pop("project/app.py")[-1] == FIXED.encode() and before.pop("project/app.py")
    assert {path: facts for path, facts in now.items() if path != "project"} == {
        path: facts for path, facts in before.items() if path != "project"
    }
    wait_until_nothing_lives(user)
    [ended] = user.events("agent_ended")
    assert ended["requests"] >= 10 and ended["refused_requests"] == 0 and ended["bytes_out"] > 0, ended
    assert ended["changed"] == 0 and "left out" not in done.stderr, "what was applied is no change any more"
    assert [event["status"] for event in user.events("finished")] == ["succeeded", "succeeded"]
    assert user.threegate("audit", "verify").returncode == 0
    left = [path for path in user.workspace.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert left == []


@pytest.mark.soak
@pytest.mark.parametrize("agent", IN_CI)
@pytest.mark.root
def test_as_root_it_works_by_another_account(agent: Agent, model: Callable[[Sequence[NextStep]], Model]) -> None:
    """On a plain copy of a project that is root's, so nothing of it can be applied."""
    with person("root") as somebody:
        notes = str(somebody.project / "notes.txt")
        script = model([
            agent.read(str(somebody.project / "README")),
            after(has("read me"), agent.write(notes, "written by the agent\n")),
            agent.shell("env; cat /proc/1/environ $HOME/.model-key 2>/dev/null; ls /run; rm app.py; id -u"),
            after(has("door.sock"), Say(END)),
        ])  # fmt: skip
        employ(somebody, agent, script)
        before = somebody.outside()
        done = somebody.run(*headless(agent), profile=agent.name, timeout=200)
        assert done.returncode == 0 and END in done.stdout, (done.stdout, done.stderr)
        script.check()
        assert KEY not in "\n".join(script.turns[-1].results) and somebody.outside() == before
        wait_until_nothing_lives(somebody)
        [ended] = somebody.events("agent_ended")
        shown = somebody.threegate("agent", "show", ended["run"]).stdout
        assert "add notes.txt" in shown and "delete app.py" in shown


@pytest.mark.soak
@pytest.mark.parametrize("agent", IN_CI)
def test_a_session_in_its_terminal_application(
    agent: Agent, user: Person, model: Callable[[Sequence[NextStep]], Model]
) -> None:
    """Typed into and resized; one change, signed elsewhere while its screen waits."""
    script = model([
        agent.shell("echo typed >notes.txt"),
        Call("propose_changes", {"purpose": "Keep a note."}),
        after(has("succeeded"), Say(END)),
    ])  # fmt: skip
    employ(user, agent, script)
    command = user.command("agent", "run", agent.name, "--project", str(user.project))
    with (
        SigningDesk(user, [sign]).open(),
        Terminal(command, cwd=user.home, environment=user.environ(), **as_account(user.account)) as terminal,
    ):
        terminal.wait_for(agent.ready)
        terminal.type(PROMPT)
        terminal.wait_for(PROMPT)
        terminal.type("\r")
        terminal.wait_for(re.escape(END), 120)
        terminal.resize(90, 30)
        terminal.wait_for(re.escape(END))
        for _ in range(4):  # a key that comes while the agent draws is not always taken
            terminal.press("\x03", agent.interrupts)
            with suppress(subprocess.TimeoutExpired):
                terminal.process.wait(12)
                break
        assert terminal.wait_end(1) == 0
    script.check()
    assert (user.project / "notes.txt").read_text() == "typed\n"
    [ended] = user.events("agent_ended")
    assert (ended["exit"], ended["changed"]) == (0, 0)
    wait_until_nothing_lives(user)
