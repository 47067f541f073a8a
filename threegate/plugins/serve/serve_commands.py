"""The command of this plugin: its name and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _serve() -> Typer:
    from threegate.plugins.serve.serve_command import app

    return app


COMMANDS = {
    "serve": PluginCommand("Serve the gates over HTTP or MCP, or the passkey page.", _serve),
}
