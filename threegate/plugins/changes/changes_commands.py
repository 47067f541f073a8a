"""The commands of this plugin: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _project() -> Typer:
    from threegate.plugins.changes.project_command import app

    return app


def _undo() -> Typer:
    from threegate.plugins.changes.undo_command import app

    return app


COMMANDS = {
    "project": PluginCommand("Add, list and remove the projects that agents may change.", _project),
    "undo": PluginCommand("Revert a change that was made to a project.", _undo),
}
