"""The commands of this plugin: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _page() -> Typer:
    from threegate.plugins.page.page_command import app

    return app


def _approve() -> Typer:
    from threegate.plugins.page.serve_approve_command import app

    return app


def _passkey() -> Typer:
    from threegate.plugins.page.passkey_command import app

    return app


def _notify() -> Typer:
    from threegate.plugins.page.notify_command import app

    return app


COMMANDS = {
    "page": PluginCommand("Print a link to the operator's page in a browser.", _page),
    "serve approve": PluginCommand("Serve the page that takes passkeys, until Ctrl-C.", _approve),
    "operator passkey": PluginCommand("Enrol a passkey of yours, signed with your SSH key.", _passkey),
    "notify": PluginCommand("Test the configured notices.", _notify),
}
