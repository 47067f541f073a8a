"""The command of tool servers: its name and help, without what it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _tools() -> Typer:
    from threegate.plugins.tools.tools_command import app

    return app


COMMANDS = {
    "tools": PluginCommand("Add, list, test and remove MCP tool servers.", _tools),
}
