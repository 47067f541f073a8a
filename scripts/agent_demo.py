"""make agent-demo: a real agent from npm works in its jail, and what it changed is applied after a signature.

Everything is real but the model, which is a script on loopback: the agent (OpenCode), the jail, the relay, the gates,
the key. Needs bubblewrap, socat, node and npm; no account with a provider and no engine. As root, the people in it are
`nobody`.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.plugins.agents.npm_agents import Unavailable
from tests.plugins.agents.people import Person, person
from tests.plugins.agents.real_agents import AGENTS
from tests.plugins.agents.scripted_model import Model, Say
from tests.plugins.agents.test_real_agents_session import employ, headless

_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")
"""Colours of the agent's, which it sends without a terminal too."""


def heading(text: str) -> None:
    """A line between two steps."""
    print(f"\n── {text}", flush=True)


def threegate(who: Person, *words: str) -> str:
    """Run one command as a person would, show it and what it prints; end the demo when it fails."""
    print("$ threegate " + " ".join(words), flush=True)
    done = who.threegate(*words, timeout=240)
    print(_SEQUENCES.sub("", done.stderr + done.stdout), end="", flush=True)
    if done.returncode != 0:
        sys.exit(f"agent-demo: exit code {done.returncode}")
    return done.stdout


def main() -> None:
    """The whole way, with the time that it took."""
    begun = time.monotonic()
    agent = next(item for item in AGENTS if item.name == "opencode")
    with person("user") as who:
        script = Model([
            agent.read(str(who.project / "README")),
            agent.write(str(who.project / "greeting.txt"), "hello from the jail\n"),
            agent.shell("cat greeting.txt; cat .env; ls ~/.ssh"),
            Say("I wrote greeting.txt; .env and your keys are not here."),
        ])  # fmt: skip
        with script.serving():
            try:
                employ(who, agent, script)
            except Unavailable as error:
                sys.exit(f"agent-demo: {error}")
            heading("a real agent works in its jail, on a copy; its model is a script")
            words = who.words(
                *headless(agent), "Write a greeting.", profile=agent.name, options=["--propose", "always"]
            )
            threegate(who, *words)
        print("in the project:", sorted(path.name for path in who.project.iterdir()))
        heading("a person reads what it changed, and signs")
        [draft] = list((who.workspace / "tool-exec" / "agents").glob("*/inbox/TR-*.md"))
        threegate(who, "agent", "list")
        threegate(who, "approve", str(draft), "--as", "operator", "--key", str(who.key), "--yes")
        heading("the daemon applies exactly that")
        threegate(who, "run", "--once")
        print("greeting.txt:", (who.project / "greeting.txt").read_text().strip())
        heading("a person takes it back, which is a signed act as well")
        threegate(who, "project", "undo", draft.stem, "--as", "operator", "--key", str(who.key), "--yes")
        print("in the project:", sorted(path.name for path in who.project.iterdir()))
        threegate(who, "audit", "verify")
        print(f"\nagent-demo: from nothing to a change that was applied and undone in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
