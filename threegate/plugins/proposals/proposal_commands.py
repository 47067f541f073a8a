"""The commands of proposals: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _proposal() -> Typer:
    from threegate.plugins.proposals.proposal_command import app

    return app


def _memory() -> Typer:
    from threegate.plugins.proposals.memory_command import app

    return app


COMMANDS = {
    "proposal": PluginCommand("Validate, explain and draft JSON action proposals.", _proposal),
    "memory": PluginCommand("Store, list and remove notes that proposals may search.", _memory),
}
