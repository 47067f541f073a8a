"""`threegate status`: what is waiting, and for whom."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threegate.cli.invocation import (
    JsonFlag,
    PlainFlag,
    emit_json,
    on_terminal,
    put,
    redraw,
    say,
    screen_width,
    wants_json,
    workspace_here,
)

if TYPE_CHECKING:
    from threegate.review.status import Line
    from threegate.runners.backend import DoctorLine

app = typer.Typer()


@app.command()
def status(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh on every change, until Ctrl-C.")] = False,
    ended: Annotated[int, typer.Option("--ended", min=0, help="How many ended requests to show.")] = 20,
    plain: PlainFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Show what is waiting, running and finished, and who must act.

    Example: threegate status --watch
    """
    from threegate.review.asked import AskedReader
    from threegate.review.readiness import Readiness
    from threegate.review.status import status_lines
    from threegate.runners.machine import worker_lines

    workspace = workspace_here()
    if watch and on_terminal() and not wants_json(json_):
        from threegate.cli.application import application_here

        if (application := application_here(plain)) is not None:
            from threegate.cli.review_command import in_application

            return in_application(application, "", None, undecided=False, ended=ended)
    reader, health = AskedReader(workspace), Readiness(workspace)
    before: object = None
    while True:
        lines = status_lines(workspace, ended=ended, reader=reader)
        shown = [line.to_json() for line in lines]
        workers = worker_lines(workspace)
        looked = health.look()
        if (now := (shown, workers, looked)) != before:
            before = now
            if wants_json(json_):
                whole = {
                    "workspace": str(workspace.root),
                    "health": {line.name: {"state": line.state, "seen": line.seen} for line in looked},
                    "requests": shown,
                }
                emit_json(whole if workers is None else {**whole, "workers": workers})
            else:
                if watch:
                    redraw()
                _print(lines, looked)
                _print_workers(workers or [])
        if not watch:
            return
        time.sleep(0.5)


def _print(lines: list[Line], looked: list[DoctorLine]) -> None:
    from threegate.review.status import NOTHING_HERE, TITLES, health_rows, line_rows

    width, now, group = screen_width(), datetime.now(UTC), ""
    for row in health_rows(looked, width=width):
        say(row)
    if not lines:
        put(["", NOTHING_HERE])
    for line in lines:
        if line.next != group:
            group = line.next
            put(["", f"{TITLES[group]} ({sum(item.next == group for item in lines)})"])
        for row in line_rows(line, now=now, width=width):
            say(row)


def _print_workers(rows: list[dict[str, Any]]) -> None:
    from threegate.review.status import worker_text

    for row in rows:
        say(worker_text(row))
