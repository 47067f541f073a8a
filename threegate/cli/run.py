"""`threegate run`: the daemon in the foreground, or one pass."""

from __future__ import annotations

from typing import Annotated

import typer

from threegate.cli.context import wants_json, workspace_here

app = typer.Typer()


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="Work until nothing is left to do, then end.")] = False,
    json_log: Annotated[bool, typer.Option("--json-log", help="Log JSON lines (for a journal).")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Log nothing.")] = False,
) -> None:
    """Run the daemon in the foreground; SIGTERM stops it gracefully. Exit 3 when launches had to stop."""
    from threegate.daemon import run_daemon
    from threegate.daemon.log import Log

    log = Log(as_json=json_log or wants_json(), quiet=quiet)
    code = run_daemon(workspace_here(), once=once, log=log)
    raise typer.Exit(code)
