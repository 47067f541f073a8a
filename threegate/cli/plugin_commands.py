"""Commands that plugins give: none is listed that could not be used here, and one that is named says why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import typer

from threegate.core.errors import NoWorkspace, ThreeGateError, Unavailable
from threegate.core.plugins import OFF, Place, Plugin


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command of a plugin."""

    help: str
    """One line, the same as the first line of the command's docstring."""
    load: Callable[[], typer.Typer]
    """Imports it."""
    stays: bool = False
    """Whether it keeps running until it is stopped."""


PLUGIN_COMMANDS: Final = Place[Mapping[str, PluginCommand]]("commands")


def listed_commands(workspace: str) -> dict[str, PluginCommand]:
    """Those that can be used in this workspace, which is given as for --workspace."""
    given = PLUGIN_COMMANDS.given(off_in(workspace)).values()
    return {name: command for commands in given for name, command in commands.items()}


def find_command(name: str, workspace: str) -> PluginCommand | None:
    """The command of this name; None if no plugin has it whose code is there. Raises Unavailable if a library that its
    plugin needs is missing, NoWorkspace (wrong usage) if the plugin is off.
    """
    for plugin, commands in _with_code():
        if name not in commands:
            continue
        if plugin.name in off_in(workspace):
            raise NoWorkspace(f"{name} is a command of the plugin {plugin.name}, which {OFF}")
        if (absent := plugin.why_absent()) is not None:
            raise Unavailable(absent)
        return commands[name]
    return None


def _with_code() -> list[tuple[Plugin, Mapping[str, PluginCommand]]]:
    found = []
    for plugin in PLUGIN_COMMANDS.plugins():
        if plugin.has_code():
            found.append((plugin, PLUGIN_COMMANDS.of(plugin)))
    return found


def off_in(workspace: str) -> tuple[str, ...]:
    """The plugins that are off there: none without a workspace, or with settings that the command itself refuses."""
    from threegate.core.workspace import find_workspace

    try:
        return find_workspace(explicit=workspace or None).load_settings().plugins.off
    except (ThreeGateError, OSError):
        return ()
