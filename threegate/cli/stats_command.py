"""`threegate stats`: how the operators decided."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, moment_of, say, wants_json, workspace_here

app = typer.Typer()


@app.command()
def stats(
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Start at this date or time, or 24h, 7d ago.")
    ] = "",
    json_: JsonFlag = False,
) -> None:
    """Show who decided how much and how fast.

    It also shows why drafts were rejected, what ran under grants, and how stops went.

    Example: threegate stats --since 30d
    """
    from threegate.audit.practice import practice_lines, practice_of
    from threegate.trail.trail import Trail

    found = practice_of(Trail(workspace_here()).events(), since=moment_of(since) if since else None)
    if wants_json(json_):
        emit_json(found.to_json())
        return
    lines = practice_lines(found)
    for label, value in lines:
        say(f"{label:<22} {value}")
    if not lines:
        say("no decisions yet; decide on drafts with: threegate review")
