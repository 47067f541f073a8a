"""Real agent programs in the jail, driven by a scripted model behind the relay: they work, and their key is not their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.agents.conftest import EACH_AGENT
from tests.agents.npm_agents import Unavailable, install
from tests.agents.people import Person
from tests.agents.real_agents import Agent
from tests.agents.scripted_model import Model, NextStep, Say
from tests.agents.test_agent_run_command import wait_until_nothing_lives
from tests.conftest import missing

KEY = "sk-the-operators-own-key-0123456789"
END = "All done here."


def employ(who: Person, agent: Agent, model: Model) -> None:
    """Let somebody have this agent with this model, by their settings."""
    try:
        folder = install(agent.name)
    except Unavailable as error:
        missing(str(error))
    program = next(path for place in agent.path if (path := folder / place / agent.program).exists())
    who.environment["PATH"] = ":".join(
        [*(str(folder / place) for place in agent.path), "/usr/local/bin:/usr/bin:/bin"]
    )
    secret = who.home / ".model-key"
    secret.write_text(KEY + "\n")
    secret.chmod(0o600)
    names = (
        ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"]
        if agent.name == "gemini"
        else ["scripted"]
    )
    who.settings(
        f'\n[secrets.model]\nfile = "{secret}"\nhost = "127.0.0.1"\n\n[agents.{agent.name}]\nprogram = "{program}"\n'
        f'url = "{model.url}"\nmodels = {json.dumps(names)}\nkey = "model"\n'
    )
    who.own()


def headless(agent: Agent) -> tuple[str, ...]:
    """The agent's own words for one prompt; what the profile says already is left out."""
    words = {"codex": ("exec", "--skip-git-repo-check"), "opencode": ("run",)}
    return words.get(agent.name, ("-p",))


@pytest.mark.parametrize("agent", EACH_AGENT)
def test_reads_and_edits_its_copy_and_has_no_key(
    agent: Agent, somebody: Person, model: Callable[[Sequence[NextStep]], Model]
) -> None:
    project = str(somebody.project)
    script = model([
        agent.read(f"{project}/README"),
        agent.write(f"{project}/notes.txt", "written by the agent\n"),
        agent.shell("env; cat /proc/1/environ $HOME/.model-key 2>/dev/null; ls /run; rm app.py; id -u"),
        Say(END),
    ])  # fmt: skip
    employ(somebody, agent, script)
    before = somebody.outside()
    done = somebody.run(*headless(agent), "Do what the script says.", profile=agent.name, timeout=200)
    assert done.returncode == 0 and END in done.stdout, (done.stdout, done.stderr)
    script.check()
    results = "\n".join(script.turns[-1].results)
    assert "read me" in results and "door.sock" in results and KEY not in results
    assert {turn.key for turn in [*script.turns, *script.asides]} == {KEY}, "the relay put it in"
    assert somebody.outside() == before
    wait_until_nothing_lives(somebody)
    [ended] = somebody.events("agent_ended")
    assert ended["requests"] >= 4 and ended["refused_requests"] == 0 and ended["bytes_out"] > 0, ended
    shown = somebody.threegate("agent", "show", ended["run"]).stdout
    assert "add notes.txt" in shown and "delete app.py" in shown
    assert KEY not in "".join(
        path.read_text(errors="replace")
        for path in somebody.workspace.rglob("*")
        if path.is_file() and Path("/").exists()
    )
