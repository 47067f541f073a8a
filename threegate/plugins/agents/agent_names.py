"""Completes the names of agents' runs and profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.tab_completion import offer

if TYPE_CHECKING:
    import typer

    from threegate.core.workspace import Workspace


def _runs(workspace: Workspace, _: typer.Context) -> list[str]:
    from threegate.plugins.agents.runs import all_runs

    return [run.run_id for run, _ in all_runs(workspace)]


def _profiles(workspace: Workspace, _: typer.Context) -> list[str]:
    from threegate.plugins.agents.profile import profile_names

    return profile_names(workspace.load_settings())


agent_runs = offer(_runs)
profiles = offer(_profiles)
