"""Drafts of agents as their launcher makes them: a run with an inbox of its own, and a change set of a work copy."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.acts.bench_workspace import Bench
from tests.plugins.changes.applying import own
from tests.plugins.changes.trees_on_disk import Spec, build, made
from threegate.core.file_names import new_agent_run_id
from threegate.core.workspace import AgentRun
from threegate.plugins.agents.kinds import AgentStarted
from threegate.plugins.agents.propose import draft_changes, register_project
from threegate.plugins.agents.runs import RunFacts

BEFORE: Final[Spec] = {"app.py": "def greet():\n    return 'hello'\n", "gone.txt": "bye\n", "README": "read me\n"}
AFTER: Final[Spec] = {"app.py": "def greet():\n    return 'good day'\n", "new.txt": "new\n", "README": "read me\n"}
_NUMBERS = itertools.count(1)


def agent_draft(bench: Bench, folder: Path, before: Spec = BEFORE, after: Spec = AFTER) -> Path:
    """The draft of a run whose agent made `after` of a project that was `before`."""
    number = next(_NUMBERS)
    project = own(build(folder / f"project{number}", before))
    work = build(folder / f"work{number}", after)
    context = bench.context
    settings = context.policy.settings
    name = register_project(bench.workspace, settings, project, actor="operator:alice")
    run = _run(bench, project, name)
    found = made(project, work)
    assert not found.left_out, found.left_out
    draft = draft_changes(
        bench.workspace, settings, run, project, found, profile="codex", purpose=f"Changes that codex made in {name}"
    )
    return run.inbox / draft


def _run(bench: Bench, project: Path, name: str) -> AgentRun:
    """A run that has begun."""
    run = bench.workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make()
    RunFacts(profile="codex", started_utc="", root=str(project), project=name).write(run)
    started = AgentStarted(run=run.run_id, profile="codex", requester=None, project=name)
    bench.context.trail.announce(started, actor="operator")
    return run
