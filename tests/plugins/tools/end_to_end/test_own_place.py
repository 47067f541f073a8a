"""A decision in a workspace of one's own, where no service runs: its daemon is started for it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.ordinary_user import as_account, python
from tests.plugins.agents.people import Person
from tests.plugins.tools.own_functions import FUNCTIONS

PROGRAM = """
import asyncio, sys
from threegate.client import ask
call = {"to": "acme", "cents": 1200}
decision = asyncio.run(ask("pay.send", call, run="r", wait=float(sys.argv[2]), workspace=sys.argv[1]))
print(decision.state, decision.reason, decision.request_id, flush=True)
if decision.state == "ready":
    with decision.use() as arguments:
        print(arguments)
"""


@pytest.mark.slow
def test_the_daemon_is_started_for_a_decision(somebody: Person) -> None:
    own = somebody.home / ".local/share/threegate/workspace"

    def threegate(*words: str) -> str:
        command = [python()[0], "-m", "threegate", *words]
        done = subprocess.run(
            command, env=somebody.environ(), cwd=somebody.home, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL, **as_account(somebody.account),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def program(wait: int) -> str:
        done = subprocess.run(
            [python()[0], "-c", PROGRAM, str(own), str(wait)], env=somebody.environ(), cwd=somebody.home,
            capture_output=True, text=True, timeout=120, **as_account(somebody.account),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    file = somebody.home / "functions.json"
    file.write_text(json.dumps(FUNCTIONS))
    file.chmod(0o644)
    threegate("init", str(own), "--operator", "operator", "--key", f"{somebody.key}.pub")
    signed = ("--key", str(somebody.key), "--yes")
    threegate("tools", "add", "pay", "--functions", str(file), *signed)
    assert program(0).startswith("pending")
    [draft] = (own / "inbox").glob("TR-*.md")
    threegate("approve", str(draft), *signed)
    assert program(30).splitlines()[1:] == ["{'cents': 1200, 'to': 'acme'}"]
    assert program(0).startswith("refused used before: succeeded")
