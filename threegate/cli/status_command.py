"""`threegate status`: what is waiting, and for whom."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from threegate.cli.application import application_here
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
from threegate.core.workspace import Workspace
from threegate.review.asked import AskedReader
from threegate.review.readiness import Readiness
from threegate.review.results import list_results
from threegate.review.status import NOTHING_HERE, TITLES, Line, health_rows, line_rows, status_lines, worker_rows
from threegate.runners.backend import DoctorLine
from threegate.runners.machine import worker_lines


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh on every change, until Ctrl-C.")] = False,
    ended: Annotated[int, typer.Option("--ended", min=0, help="How many ended requests to show.")] = 20,
    results: Annotated[bool, typer.Option("--results", help="List the results instead, oldest first.")] = False,
    plain: PlainFlag = False,
    json_: JsonFlag = False,
) -> None:
    """Show what is waiting, running and finished, and who must act.

    Examples: threegate status --watch
              threegate status --results
    """
    workspace = workspace_here()
    if results:
        _list_results(workspace, as_json=wants_json(json_))
        return
    if watch and on_terminal() and not wants_json(json_) and (application := application_here(plain)) is not None:
        from threegate.cli.review_command import in_application  # late: it approves, and `status` only looks

        return in_application(application, "", None, undecided=False, ended=ended)
    reader, health = AskedReader(workspace), Readiness(workspace)
    before: object = None
    while True:
        lines = status_lines(workspace, ended=ended, reader=reader)
        shown = [line.to_json() for line in lines]
        workers = worker_lines(workspace)
        looked, as_json = health.look(), wants_json(json_)
        rows = worker_rows(workers or [], now=datetime.now(UTC), width=screen_width())
        steady = [{**row, "heard_utc": None} for row in workers or []] if as_json else rows  # JSON: not each beat
        if (now := (shown, steady, looked)) != before:
            before = now
            if as_json:
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
                put(rows)
        if not watch:
            return
        time.sleep(0.5)


def _list_results(workspace: Workspace, *, as_json: bool) -> None:
    rows = list_results(workspace)
    if as_json:
        emit_json({"results": [row.to_json() for row in rows]})
        return
    for row in rows:
        reason = f"  {row.reason}" if row.reason else ""
        say(f"{row.created_utc}  {row.status:<16} {row.request_id}  {row.file}{reason}")
    if not rows:
        say("no results yet")


def _print(lines: list[Line], looked: list[DoctorLine]) -> None:
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
