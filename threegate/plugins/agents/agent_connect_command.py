"""`threegate agent connect`: the MCP entry with which an agent outside the jail reaches the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threegate.approval.shown.escaped_lines import render_sections
from threegate.cli import invocation
from threegate.cli.invocation import argument
from threegate.core.extras import install_line
from threegate.core.own_process import own_process
from threegate.core.plugins import require_plugin
from threegate.core.screen_parts import Section
from threegate.plugins.agents.agent_names import profiles
from threegate.plugins.agents.client_entry import ClientEntry, take_back
from threegate.plugins.agents.profile import Filled, load_profile


def connect(
    profile: Annotated[str, argument("PROFILE", "codex, opencode, gemini, claude, qwen or generic.", profiles)],
    write: Annotated[
        bool,
        typer.Option("--write", help="Write the entry to the agent's settings, after showing the change and asking."),
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo --write.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The agent's settings file, if it is not in the usual place."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --write: do not ask.")] = False,
) -> None:
    """Print or install the MCP entry for an agent without a jail.

    The agent runs elsewhere; --write puts the entry into its settings.

    Examples: threegate agent connect codex --write
              threegate agent connect claude --write --file ~/app/.mcp.json
              threegate agent connect codex --undo
    """
    workspace = invocation.workspace_here()
    settings = workspace.load_settings()
    if not undo:
        require_plugin("an agent", "serve", settings.plugins.off)
    found = load_profile(profile, settings)
    door = tuple(own_process("threegate", "--workspace", str(workspace.root), "serve", "mcp"))
    entry = Filled(found, "", door=door).text(found.connect)
    if write or undo:
        if write and undo:
            raise typer.BadParameter("give either --write or --undo, not both")
        if file is None and not found.connect_file.startswith("~/"):
            raise typer.BadParameter(f"name the agent's settings with --file FILE ({found.connect_file})")
        place = file or Path(found.connect_file)
        if undo:
            done = take_back(place, entry)
            invocation.say(f"{place}: {'restored' if done else 'has no ThreeGate entry; nothing was changed'}")
            return
        _write_entry(ClientEntry.plan(place, entry), yes=yes)
    else:
        invocation.warn(f"put this into {found.connect_file}; it needs the extra mcp: {install_line('mcp')}")
        invocation.emit_data(entry.lstrip())
    invocation.warn(
        "no jail here: the agent's own shell and file tools bypass the gate; only what it requests through this "
        f"server is signed. To run it in a jail: threegate agent run {profile}"
    )


def _write_entry(planned: ClientEntry, *, yes: bool) -> None:
    """Show, ask and write."""
    if planned.after == planned.before:
        invocation.say(f"{planned.file}: already has the entry; nothing was changed")
        return
    change = Section("THE AGENT'S SETTINGS", (planned.change,))
    invocation.put(render_sections([change], width=invocation.screen_width()))
    if not yes:
        if not invocation.on_terminal():
            raise typer.BadParameter("not on a terminal: give --yes to write it")
        if not invocation.confirmed("Write this?"):
            raise typer.Abort
    kept = planned.write()
    before = f"the old file is {kept}; " if kept else ""
    invocation.say(f"wrote {planned.file}; {before}undo with --undo")
