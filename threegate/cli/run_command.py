"""`threegate run`: the daemon in the foreground, or one pass."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from threegate.cli.invocation import wants_json, workspace_here

app = typer.Typer()


class LogForm(StrEnum):
    """How the daemon's log lines look; the same words as `threegate.daemon.log.LineForm`."""

    auto = "auto"
    text = "text"
    json = "json"
    none = "none"


@app.command()
def run(
    once: Annotated[bool, typer.Option("--once", help="Work until nothing is left to do, then end.")] = False,
    log: Annotated[
        LogForm, typer.Option("--log", help="Log lines on stderr; auto: JSON for the journal, else text.")
    ] = LogForm.auto,
    json_log: Annotated[bool, typer.Option("--json-log", help="The same as --log json.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The same as --log none.")] = False,
) -> None:
    """Run the daemon in the foreground.

    SIGTERM stops it gracefully, and SIGHUP makes it read its settings again. Exit 3 when launches had to
    stop.

    Examples: threegate run
              threegate run --once
    """
    from threegate.daemon import run_daemon
    from threegate.daemon.log import LineForm, Log

    if quiet:
        log = LogForm.none
    elif json_log or wants_json():
        log = LogForm.json
    code = run_daemon(workspace_here(), once=once, log=Log.of(LineForm(log.value), os.environ))
    raise typer.Exit(code)
