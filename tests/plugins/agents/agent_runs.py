"""Runs of agents for tests: registered in the trail, with their folder, and without an agent."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from tests.support import Place
from threegate.core.file_names import new_agent_run_id
from threegate.core.workspace import AgentRun, Workspace
from threegate.plugins.agents.kinds import AgentEnded, AgentStarted
from threegate.plugins.agents.runs import RunFacts
from threegate.trail.trail import Trail


def make_run(place: Place, profile: str = "codex", requester: str | None = None, project: str = "default") -> AgentRun:
    """A run that has begun."""
    workspace = Workspace(place.root)
    run = workspace.agent_run(new_agent_run_id(datetime.now(UTC))).make()
    (run.work / "tree").mkdir()
    RunFacts(profile=profile, started_utc="", root=str(place.root.parent), project=project).write(run)
    began = AgentStarted(run=run.run_id, profile=profile, requester=requester, project=project)
    Trail(workspace).announce(began, actor="operator")
    return run


def end_run(place: Place, run: AgentRun) -> None:
    """Its agent lives no more."""
    Trail(Workspace(place.root)).announce(AgentEnded(run=run.run_id, exit=0), actor="operator")


def drop(folder: Path, text: str, name: str | None = None) -> Path:
    """Put a draft into an inbox by rename; the name is its request_id."""
    if name is None:
        name = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("request_id"))
        name = f"{name}.md"
    temporary = folder / f".{name}.part"
    temporary.write_text(text)
    os.rename(temporary, folder / name)
    return folder / name
