"""The command of agents: its name and help, without what it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _agent() -> Typer:
    from threegate.plugins.agents.agent_command import app

    return app


COMMANDS = {
    "agent": PluginCommand("Run, list, show, stop and connect agents.", _agent),
}
