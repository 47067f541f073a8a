"""Commands that plugins give: none is listed that could not be used here, and one that is named says why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import typer

from threegate.core.errors import NoWorkspace, ThreeGateError, Unavailable
from threegate.core.plugins import OFF, Place, Plugin


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command of a plugin, or a group of commands."""

    help: str
    """One line, the same as the first line of the command's docstring."""
    load: Callable[[], typer.Typer]
    """Imports it."""


PLUGIN_COMMANDS: Final = Place[Mapping[str, PluginCommand]]("commands")
"""By path, the words after `threegate`: "serve approve" is a command in the group `serve`, which the core or any plugin
may have.
"""


def names_below(path: str, workspace: str) -> list[str]:
    """The next words of the commands below a path (empty: all) that can be used in this workspace, which is given as
    for --workspace.
    """
    start = f"{path} ".lstrip()
    given = PLUGIN_COMMANDS.given(off_in(workspace)).values()
    below = [found.removeprefix(start) for commands in given for found in commands if found.startswith(start)]
    return list(dict.fromkeys(found.partition(" ")[0] for found in below))


def find_command(path: str, workspace: str) -> PluginCommand | None:
    """The command of this path; None if no plugin has it whose code is there. Raises Unavailable if something that its
    plugin needs is missing, NoWorkspace (wrong usage) if the plugin is off; a group in which other plugins have
    commands keeps those.
    """
    words = path.split(" ")
    for known in (" ".join(words[:count]) for count in range(len(words), 0, -1)):  # itself, then groups that it is in
        for plugin, commands in _with_code():
            if known not in commands:
                continue
            is_off, absent = plugin.name in off_in(workspace), plugin.why_absent()
            if (is_off or absent is not None) and known == path and names_below(path, workspace):
                return replace(commands[path], load=_empty_group)
            if is_off:
                raise NoWorkspace(f"{known} is a command of the plugin {plugin.name}, which {OFF}")
            if absent is not None:
                raise Unavailable(absent)
            return commands[path] if known == path else None
    return None


def _with_code() -> list[tuple[Plugin, Mapping[str, PluginCommand]]]:
    found = []
    for plugin in PLUGIN_COMMANDS.plugins():
        if plugin.has_code():
            found.append((plugin, PLUGIN_COMMANDS.of(plugin)))
    return found


def _empty_group() -> typer.Typer:
    group = typer.Typer(no_args_is_help=True)
    group.callback()(lambda: None)
    return group


def off_in(workspace: str) -> tuple[str, ...]:
    """The plugins that are off there: none without a workspace, or with settings that the command itself refuses."""
    from threegate.core.workspace import find_workspace

    try:
        return find_workspace(explicit=workspace or None).load_settings().plugins.off
    except (ThreeGateError, OSError):
        return ()
