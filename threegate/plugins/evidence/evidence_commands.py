"""The commands of this plugin: their names and help, without what they work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from threegate.cli.plugin_commands import PluginCommand

if TYPE_CHECKING:
    from typer import Typer


def _evidence() -> Typer:
    from threegate.plugins.evidence.evidence_command import app

    return app


def _witness() -> Typer:
    from threegate.plugins.evidence.witness_command import app

    return app


def _export() -> Typer:
    from threegate.plugins.evidence.export_command import app

    return app


def _report() -> Typer:
    from threegate.plugins.evidence.report_command import app

    return app


COMMANDS = {
    "evidence": PluginCommand("Write a pack that an auditor checks without ThreeGate.", _evidence),
    "witness": PluginCommand("Cosign the trail checkpoints of other workspaces.", _witness),
    "audit export": PluginCommand("Export the trail for other programs.", _export),
    "audit report": PluginCommand("Write the trail as one self-contained HTML page.", _report),
}
