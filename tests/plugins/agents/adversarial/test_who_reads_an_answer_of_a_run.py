"""An answer to a run of an agent in a jail is read by that run and the operator, and by nobody else: not by the account
that `init --agent` names either.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.adversarial.results.test_who_reads_an_answer import (
    AGENT,
    CANARY,
    STRANGER,
    answers,
    confidential,
    finish,
    read_by,
    workspace_of,
)
from tests.plugins.agents.agent_runs import drop, make_run
from tests.support import Place


@pytest.fixture(scope="module")
def with_agent() -> Iterator[Place]:
    """Where a run of an agent in a jail has an answer as well."""
    with workspace_of("--agent", AGENT) as place:
        finish(place, drop(make_run(place).inbox, confidential("of-a-run")))
        yield place


@pytest.mark.root
def test_the_named_agent_reads_no_answer_of_another_requester(with_agent: Place) -> None:
    """Of a run in a jail: its result has a copy of its own, and the operator's is the operator's."""
    [run] = (with_agent.root / "tool-exec" / "agents").iterdir()
    [own] = (run / "results").glob("TS-*.md")
    assert CANARY in own.read_text() and own.stat().st_mode & 0o777 == 0o644
    copy = with_agent.root / "tool-exec" / "results" / own.name
    assert copy.read_bytes() == own.read_bytes() and copy.stat().st_mode & 0o777 == 0o400
    [outputs] = (path for path in (run / "results").iterdir() if path.is_dir())
    assert {path.stat().st_mode & 0o777 for path in outputs.iterdir()} == {0o644}
    assert outputs.stat().st_mode & 0o777 == 0o755 and run.stat().st_mode & 0o777 == 0o700
    assert "of-a-run" not in read_by(AGENT, with_agent)


@pytest.mark.root
def test_the_named_agent_reads_its_own_answers_beside_those_of_a_run(with_agent: Place) -> None:
    said = read_by(AGENT, with_agent)
    assert said.count(CANARY) >= 2 and "/results/TS-" in said and "/verdicts/TR-" in said and "outputs.json" in said
    assert not [word for word in (CANARY, "TR-", "TS-", "verdict") if word in read_by(STRANGER, with_agent)]
    as_agent = ["setpriv", f"--reuid={AGENT}", f"--regid={AGENT}", "--clear-groups", "sh", "-c"]
    attacks = [
        f"rm -rf {at}/* {at}; echo x >{at}/x; echo x >{at}; chmod 777 {at}; mv {at} {at}.2"
        for at in answers(with_agent)
    ]
    subprocess.run([*as_agent, "; ".join(attacks)], capture_output=True, cwd="/", check=False)
    assert read_by(AGENT, with_agent) == said
    shared = [path for path in answers(with_agent) if path.parent.name in ("results", "verdicts")]
    assert not [path for path in shared if path.stat().st_mode & 0o007]
