"""`threegate doctor`: check and measure what is enforced on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.invocation import JsonFlag, emit_json, say, wants_json, workspace_here
from threegate.cli.progress import busy

app = typer.Typer()


@app.command()
def doctor(
    probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Test the sandboxes with short runs (a few seconds).")
    ] = True,
    json_: JsonFlag = False,
) -> None:
    """Check and measure what is enforced on this machine.

    Every problem comes with a way to fix it.

    Example: threegate doctor
    """
    from threegate.core.errors import EXIT_REFUSED, NoWorkspace
    from threegate.setup.doctor import examine

    try:
        workspace = workspace_here()
    except NoWorkspace:
        workspace = None
    with busy("measuring"):
        lines = examine(workspace, probes=probes)
    if wants_json(json_):
        emit_json(
            {
                "lines": [
                    {"name": line.name, "state": line.state, "seen": line.seen, "fix": line.fix} for line in lines
                ],
                "ok": all(line.state != "failure" for line in lines),
            }
        )
    else:
        for line in lines:
            fix = f"  → {line.fix}" if line.fix else ""
            say(f"{line.state:<8} {line.name}: {line.seen}{fix}")
    if any(line.state == "failure" for line in lines):
        raise typer.Exit(EXIT_REFUSED)
