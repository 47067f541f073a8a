"""Real agent programs in their terminal application: a prompt, two tools, another size of the window, the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.agents.conftest import EACH_AGENT
from tests.plugins.agents.real_agents import Agent, BareAgent
from tests.plugins.agents.scripted_model import Call, Model, Say, Turn
from tests.plugins.agents.terminal import Terminal
from tests.support import Place, monty_draft, request_id, wait_until

pytestmark = pytest.mark.soak
"""Of CI is the same in the jail: test_real_agents_session.py."""
PROMPT = "Ask for a run"
END = "It waits for a person."


@pytest.mark.parametrize("agent", EACH_AGENT)
def test_a_prompt_is_typed_and_a_draft_is_there(
    agent: Agent,
    place: Place,
    project: Path,
    tmp_path: Path,
    model: Callable[..., Model],
    bare: Callable[..., BareAgent],
) -> None:
    name = request_id("typed")

    def connected(_turn: Turn) -> Call:
        """Claude Code starts a typed turn without the tools of a server that it is still waiting for."""
        said = tmp_path / "mcp.out"
        wait_until(lambda: said.exists() and b'"tools":[' in said.read_bytes(), "the server's tools")
        return agent.read(str(project / "notes.txt"))

    def submit(turn: Turn) -> dict[str, str]:
        (number,) = re.findall(r"the number is (\d+)", turn.result)
        return {"file_name": f"{name}.md", "content": monty_draft(name, f"print({number})")}

    script = model([connected, Call("submit_request", submit), Say(END)])
    working = bare(agent, script)
    (project / "notes.txt").write_text("the number is 42\n")
    with Terminal(working.argv(agent.tui), cwd=project, environment=working.environment()) as terminal:
        terminal.wait_for(agent.ready)
        terminal.type(PROMPT)
        terminal.wait_for(PROMPT)
        terminal.type("\r")
        terminal.wait_for(re.escape(END))
        terminal.resize(80, 30)
        terminal.wait_for(re.escape(END))
        terminal.press("\x03", agent.interrupts)
        assert terminal.wait_end() == 0
    assert "print(42)" in (place.root / "inbox" / f"{name}.md").read_text()
    script.check()
