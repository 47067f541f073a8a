"""`threegate agent connect`: what an agent outside of the jail needs to reach the door."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threegate.cli import invocation, tab_completion
from threegate.cli.invocation import argument
from threegate.core.extras import install_line

if TYPE_CHECKING:
    from threegate.agents.client_entry import ClientEntry


def connect(
    profile: Annotated[
        str, argument("PROFILE", "codex, opencode, gemini, claude, qwen or generic.", tab_completion.profiles)
    ],
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Put the entry into the agent's settings; shows what changes, and asks."
        ),
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo what --write did.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The agent's settings, where they are not in the usual place."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --write: do not ask.")] = False,
) -> None:
    """Print or install the MCP entry for an agent without a jail.

    The agent runs elsewhere; --write puts the entry into its settings.

    Examples: threegate agent connect codex --write
              threegate agent connect claude --write --file ~/app/.mcp.json
              threegate agent connect codex --undo
    """
    import sys

    from threegate.agents.client_entry import ClientEntry, take_back
    from threegate.agents.profile import Filled, load_profile

    workspace = invocation.workspace_here()
    found = load_profile(profile, workspace.load_settings())
    door = (sys.executable, "-m", "threegate", "--workspace", str(workspace.root), "serve", "mcp")
    entry = Filled(found, "", door=door).text(found.connect)
    if write or undo:
        if write and undo:
            raise typer.BadParameter("--write and --undo are two things; name one")
        if file is None and not found.connect_file.startswith("~/"):
            raise typer.BadParameter(f"name the agent's settings with --file FILE ({found.connect_file})")
        place = file or Path(found.connect_file)
        if undo:
            done = take_back(place, entry)
            invocation.say(
                f"{place}: {'is as it was before' if done else 'has no entry of ours; nothing was changed'}"
            )
            return
        _write_entry(ClientEntry.plan(place, entry), yes=yes)
    else:
        invocation.warn(f"put this into {found.connect_file}; it needs the extra mcp: {install_line('mcp')}")
        typer.echo(invocation.safe(entry.lstrip()), nl=False)
    invocation.warn(
        "there is no wall then: the agent's own shell and file tools are not behind the gate, only what it asks for through this "
        f"server is signed. With the walls: threegate agent run {profile}"
    )


def _write_entry(planned: ClientEntry, *, yes: bool) -> None:
    """Show, ask and write."""
    if planned.after == planned.before:
        invocation.say(f"{planned.file}: has the entry already; nothing was changed")
        return
    invocation.say(planned.diff().rstrip("\n"))
    if not yes:
        if not invocation.on_terminal():
            raise typer.BadParameter("nobody can be asked here; --yes writes it")
        typer.confirm("Write this?", abort=True, err=True)
    kept = planned.write()
    before = f"what was there is in {kept}; " if kept else ""
    invocation.say(f"wrote {planned.file}; {before}back with --undo")
