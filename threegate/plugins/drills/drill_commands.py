"""The command of drills: its name and help, without what it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _drill() -> Typer:
    from threegate.plugins.drills.drill_command import app

    return app


COMMANDS = {"drill": PluginCommand("Practise reading with drafts that must not be approved.", _drill)}
