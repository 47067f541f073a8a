"""The commands of this plugin: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _serve() -> Typer:
    from threegate.plugins.serve.serve_command import app

    return app


def _witness() -> Typer:
    from threegate.plugins.serve.witness_command import app

    return app


COMMANDS = {
    "serve": PluginCommand("Serve the gates over HTTP or MCP, or the passkey page.", _serve),
    "witness": PluginCommand("Cosign the trail checkpoints of other workspaces.", _witness),
}
