"""The command of standing grants: its name and help, without what it works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _grant() -> Typer:
    from threegate.plugins.grants.grant_command import app

    return app


COMMANDS = {"grant": PluginCommand("Make, list, show and revoke standing grants.", _grant)}
