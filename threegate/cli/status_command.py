"""`threegate status`: what waits for whom."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from threegate.cli.invocation import (
    JsonFlag,
    PlainFlag,
    emit_json,
    on_terminal,
    safe,
    say,
    wants_application,
    wants_json,
    workspace_here,
)

app = typer.Typer()


@app.command()
def status(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again whenever it changes; Ctrl-C ends.")
    ] = False,
    ended: Annotated[int, typer.Option("--ended", min=0, help="How many ended requests to show.")] = 20,
    plain: PlainFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Show what waits, runs and has ended, and who has to act."""
    from threegate.cluster.capacity import worker_lines
    from threegate.review.status import status_lines

    workspace = workspace_here()
    if watch and on_terminal() and not wants_json(json_) and wants_application(plain):
        from threegate.tui import run_status

        return run_status(workspace, ended=ended)
    before: object = None
    while True:
        lines = status_lines(workspace, ended=ended)
        shown = [line.to_json() for line in lines]
        workers = worker_lines(workspace)
        if (shown, workers) != before:
            before = (shown, workers)
            if wants_json(json_):
                whole = {"workspace": str(workspace.root), "requests": shown}
                emit_json(whole if workers is None else {**whole, "workers": workers})
            else:
                if watch:
                    typer.echo("\x1b[H\x1b[2J" if sys.stdout.isatty() else "", nl=False)
                _print(shown)
                _print_workers(workers or [])
        if not watch:
            return
        time.sleep(0.5)


def _print(rows: list[dict[str, object]]) -> None:
    if not rows:
        say("nothing here: no drafts, nothing approved, nothing ended")
        return
    width = min(60, max(len(safe(str(row["file"]))) for row in rows))
    for row in rows:
        reason = f"  {row['reason']}" if row["reason"] else ""
        whom = f"  -> {row['for']}" if row["for"] else ""
        say(f"{row['state']!s:<9} {row['file']!s:<{width}}{reason}{whom}")


def _print_workers(rows: list[dict[str, Any]]) -> None:
    from threegate.review.status import worker_text

    for row in rows:
        say(worker_text(row))
