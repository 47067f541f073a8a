"""The commands of this plugin: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _agent() -> Typer:
    from threegate.plugins.agents.agent_command import app

    return app


def _survey() -> Typer:
    from threegate.plugins.agents.survey_command import app

    return app


COMMANDS = {
    "agent": PluginCommand("Run, list, show, stop and connect agents.", _agent),
    "project survey": PluginCommand("Show which files of a project are hidden from agents.", _survey),
}
