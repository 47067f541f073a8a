"""Real agent programs without a jail: a scripted model, `threegate serve mcp`, a daemon, and a person who signs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.plugins.agents.conftest import EACH_AGENT
from tests.plugins.agents.real_agents import Agent, BareAgent
from tests.plugins.agents.scripted_model import Call, Model, Say, Turn
from tests.support import Place, monty_draft, request_id

TOOLS = {"submit_request", "request_status", "read_result"}
pytestmark = pytest.mark.soak
"""Of CI is the same in the jail: test_real_agents_session.py."""
PROMPT = "Read notes.txt, add one to the number in it, and say what comes out."
END = "The answer is forty-three."


@pytest.fixture
def daemon(place: Place) -> Iterator[None]:
    process = place.daemon()
    yield
    process.terminate()
    assert process.wait(30) == 0


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("agent", EACH_AGENT)
def test_reads_a_file_asks_and_gets_its_result(
    agent: Agent, place: Place, project: Path, model: Callable[..., Model], bare: Callable[..., BareAgent]
) -> None:
    """What it read goes into the request; the person signs while the agent works; the result reaches the model."""
    name = request_id("plus-one")

    def submit(turn: Turn) -> dict[str, str]:
        (number,) = re.findall(r"the number is (\d+)", turn.result)
        return {"file_name": f"{name}.md", "content": monty_draft(name, f"print({number} + 1)")}

    def signed(turn: Turn) -> dict[str, str]:
        """The person: reads the verdict, signs, and waits for the result before the model goes on."""
        assert "submitted" in turn.result, turn.result
        place.wait_for(f"verdicts/{name}.md.json")
        place.approve(place.root / "inbox" / f"{name}.md")
        place.wait_for(f"results/TS-*-{name}.md")
        return {"request_id": name}

    script = model([
        agent.read(str(project / "notes.txt")),
        Call("submit_request", submit),
        Call("read_result", signed),
        agent.write(str(project / "answer.txt"), "43\n"),
        Say(END),
    ])  # fmt: skip
    working = bare(agent, script)
    (project / "notes.txt").write_text("the number is 42\n")
    done = working.run(PROMPT)
    assert done.returncode == 0 and END in done.stdout, (done.stdout, done.stderr)
    script.check()
    first, last = script.turns[0], script.turns[-1]
    assert PROMPT in first.user and {turn.protocol for turn in script.turns} == {agent.protocol}
    assert {turn.key for turn in [*script.turns, *script.asides]} == {"scripted-key"}
    assert all(first.find(tool) for tool in TOOLS), "the tools are there from the first turn on"
    assert "43" in last.results[2] and "succeeded" in last.results[2], last.results
    assert [event["data"]["status"] for event in place.events("finished")] == ["succeeded"]
    assert {path.name: path.read_text() for path in project.iterdir() if path.is_file()} == {
        "notes.txt": "the number is 42\n",
        "answer.txt": "43\n",
    }
