"""The commands of a cluster: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _cluster() -> Typer:
    from threegate.plugins.cluster.cluster_command import app

    return app


def _worker() -> Typer:
    from threegate.plugins.cluster.worker_command import app

    return app


COMMANDS = {
    "worker": PluginCommand("Run requests on this machine for a cluster.", _worker),
    "cluster": PluginCommand("Make the certificates and broker files of a cluster.", _cluster),
}
