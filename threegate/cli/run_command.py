"""`threegate run`: the daemon in the foreground, or one pass."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from threegate.cli.invocation import wants_json, workspace_here
from threegate.daemon import run_daemon
from threegate.daemon.log import Log


def run(
    once: Annotated[bool, typer.Option("--once", help="Work until nothing is left to do, then exit.")] = False,
    log: Annotated[
        Literal["auto", "text", "json", "none"],
        typer.Option("--log", help="Log lines on stderr; auto: JSON for the journal, else text."),
    ] = "auto",
    json_log: Annotated[bool, typer.Option("--json-log", help="The same as --log json.")] = False,
    while_used: Annotated[
        bool, typer.Option("--while-used", help="For commands that start it: end once none of them needs it.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The same as --log none.")] = False,
) -> None:
    """Run the daemon in the foreground.

    SIGTERM stops it gracefully, and SIGHUP reloads its settings. Exit 3 if launches had to stop.

    Examples: threegate run
              threegate run --once
    """

    if quiet:
        log = "none"
    elif json_log or wants_json():
        log = "json"
    code = run_daemon(workspace_here(), once=once, while_used=while_used, log=Log.of(log, os.environ))
    raise typer.Exit(code)
